"""The same comparison on checkpoints that this environment's Spark writes now: minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.state.against_spark import rows_of
from tests.state.make_checkpoints import NAMES

# Written in Avro, which is not read here; and of format 2, which Spark 4.0 does not read itself.
LEFT_OUT = ("avro", "rocksv2")


@pytest.mark.calibrate
def test_every_stream_is_read_as_spark_reads_it(tmp_path: Path) -> None:
    names = [name for name in NAMES if not name.endswith(LEFT_OUT)]
    command = [sys.executable, "-m", "tests.state.make_checkpoints", str(tmp_path), *names]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])

    for name in names:
        for read in json.loads((tmp_path / name / "expected.json").read_text())["reads"]:
            assert rows_of(tmp_path / name / "checkpoint", read) == read["rows"], (name, read["store"])
