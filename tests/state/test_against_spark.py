"""Row for row what Spark's own `statestore` reader says of checkpoints that Spark wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.state import fixtures
from tests.state.against_spark import rows_of


@pytest.mark.parametrize("name", fixtures.PACKED)
def test_every_row_of_every_store_is_what_spark_reads(checkpoints: Path, name: str) -> None:
    reads = list(fixtures.reads_of(checkpoints / name))

    assert sum(len(read["rows"]) for read in reads) > 0
    for read in reads:
        assert rows_of(checkpoints / name / "checkpoint", read) == read["rows"], read["store"]
