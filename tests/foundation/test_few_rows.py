"""After a batch of few rows the next one is written interpreted, after a large one compiled.

That the stages do so is shown by test_tasks_per_batch, whose run has such batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.declaration import SinkDeclaration
from surestart.sinks.delta.few_rows import AT_MOST, BatchBefore, interpreted_if_few

MODE, COMPILED, INTERPRETED = "spark.sql.codegen.factoryMode", "FALLBACK", "NO_CODEGEN"


@pytest.fixture
def compiling(spark: Any) -> Iterator[Any]:
    """The session of the tests runs interpreted all the time; here it is as users have it."""
    former = spark.conf.get(MODE)
    spark.conf.set(MODE, COMPILED)
    yield spark
    spark.conf.set(MODE, former)


def commit(table: Path, version: int, batch: int, rows: int, query: str = "q") -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    note = json.dumps({"surestart": {"query_id": query, "batch_id": batch}})
    info = {"operation": "WRITE", "operationMetrics": {"numOutputRows": str(rows)}, "userMetadata": note}
    (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": info}, separators=(",", ":")) + "\n")


@pytest.mark.parametrize(
    ("rows", "query", "mode"),
    [
        (1, "q", INTERPRETED),
        (AT_MOST, "q", INTERPRETED),
        (AT_MOST + 1, "q", COMPILED),
        (1, "somebody else's", COMPILED),
        (None, "q", COMPILED),
    ],
)
def test_the_batch_before_decides(
    compiling: Any, tmp_path: Path, rows: int | None, query: str, mode: str, classic_only: None
) -> None:
    commit(tmp_path, 0, 6, 1)
    before = BatchBefore([SinkDeclaration("delta-append", "t", str(tmp_path))])
    if rows is not None:
        commit(tmp_path, 1, 7, rows, query)

    with interpreted_if_few(compiling, before, "q", 8):
        assert compiling.conf.get(MODE) == mode
    assert compiling.conf.get(MODE) == COMPILED


def test_rows_of_both_tables_count_and_a_table_elsewhere_tells_nothing(tmp_path: Path) -> None:
    good, bad = (SinkDeclaration("delta-append", name, str(tmp_path / name)) for name in ("good", "bad"))
    both, unknown = BatchBefore([good, bad]), BatchBefore([good, SinkDeclaration("postgres", "gold", "")])
    commit(tmp_path / "bad", 0, 3, 2)
    commit(tmp_path / "good", 0, 3, 40)

    assert both.read_rows("q", 4) == 42
    assert both.read_rows("q", 5) is None
    assert unknown.read_rows("q", 4) is None
