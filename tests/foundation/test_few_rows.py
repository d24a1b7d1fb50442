"""After a batch of few rows the next one is written interpreted, after a large one compiled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.runner import run_stage
from surestart.sinks import delta_append
from surestart.sinks.few_rows import AT_MOST, BatchBefore, interpreted_if_few
from tests.foundation.rows import account, land

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


def test_a_run_of_small_batches_compiles_its_first_one_only(
    compiling: Any, environment: Environment, monkeypatch: pytest.MonkeyPatch, classic_only: None
) -> None:
    land(environment, 60, per_file=20)
    modes: list[tuple[str, int, str]] = []
    append_once = delta_append.append_once

    def noting(rows: Any, table: Any, context: Any, query_id: str, batch_id: int, step: str = "") -> None:
        modes.append((context.stage, batch_id, rows.sparkSession.conf.get(MODE)))
        append_once(rows, table, context, query_id, batch_id, step)

    monkeypatch.setattr(delta_append, "append_once", noting)
    monkeypatch.setattr("surestart.sinks.delta_split.append_once", noting)
    for stage in build_stages({"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"}):
        run_stage(compiling, environment, stage)

    first, later = COMPILED, INTERPRETED
    assert modes[:3] == [("raw-ingest", 0, first), ("raw-ingest", 1, later), ("raw-ingest", 2, later)]
    assert {mode for stage, batch, mode in modes if stage == "deserialize" and batch == 0} == {first}
    assert {mode for stage, batch, mode in modes if stage == "deserialize" and batch > 0} == {later}
    assert account(environment).faults == {}
