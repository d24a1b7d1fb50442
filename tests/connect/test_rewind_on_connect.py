"""Rewinds through Spark Connect: a stream that is declared only, and a stage (tests/remedies/test_rewind.py there)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from tests.remedies.rewind_proof import FIRST, Case
from tests.remedies.test_rewind_proof import Labs, goes_back_and_forth

pytestmark = [
    pytest.mark.connect,
    pytest.mark.skipif(not os.environ.get("SPARK_REMOTE"), reason="no SPARK_REMOTE: run by make test-connect"),
]


def test_a_declared_stream_goes_back_goes_on_and_is_undone(spark: Any, tmp_path: Path) -> None:
    with applied(spark, pairs(EVERYWHERE)):
        goes_back_and_forth(Labs(spark, tmp_path, last=3), Case("within", "changelog", "files", FIRST, "all"))
