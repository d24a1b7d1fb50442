"""One batch into Delta and PostgreSQL: each once, also when the run dies between the two."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from surestart.runs.runner import StageFailed, run_stage
from surestart.sinks.both import Both
from surestart.sinks.delta.merge import DeltaMerge
from tests.postgres.database import TABLE, Database, readings
from tests.postgres.stream import SCHEMA, UPSERT, land, local, stage

SINK = Both(DeltaMerge("gold", SCHEMA, keys=("sensor",), order=("part", "pos")), UPSERT)


def test_both_hold_the_newest_rows_and_declare_themselves(spark: Any, database: Database, tmp_path: Path) -> None:
    database.execute(TABLE)
    for batch_id in range(2):
        land(tmp_path, batch_id)

    run_stage(spark, local(tmp_path), stage(SINK))

    newest = Counter({row[0]: row for row in readings(0) + readings(1)}.values())
    assert database.rows("SELECT * FROM gold") == newest
    assert _delta(spark, tmp_path) == newest
    assert [sink.kind for sink in SINK.declare(local(tmp_path))] == ["delta-merge", "postgres"]


def test_a_failure_of_the_second_leaves_the_first_ahead_by_one_batch_and_the_next_start_heals_it(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    database.execute(TABLE)
    land(tmp_path, 0)
    run_stage(spark, local(tmp_path), stage(SINK))
    land(tmp_path, 1)
    database.execute("ALTER TABLE gold ADD CONSTRAINT low CHECK (pos < 1000)")

    with pytest.raises(StageFailed) as failed:
        run_stage(spark, local(tmp_path), stage(SINK))

    older, newer = (Counter({row[0]: row for row in readings(batch_id)}.values()) for batch_id in range(2))
    assert failed.value.code == "PostgresRowsRefused"
    assert (_delta(spark, tmp_path), database.rows("SELECT * FROM gold")) == (newer, older)

    database.execute("ALTER TABLE gold DROP CONSTRAINT low")
    merges = _merges(spark, tmp_path)
    run = run_stage(spark, local(tmp_path), stage(SINK))

    assert run.replayed == 1
    assert (_delta(spark, tmp_path), database.rows("SELECT * FROM gold")) == (newer, newer)
    assert _merges(spark, tmp_path) == merges


def _delta(spark: Any, root: Path) -> Counter[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(local(root).table("gold").path).collect()
    return Counter(tuple(row) for row in rows)


def _merges(spark: Any, root: Path) -> int:
    return int(spark.sql(f"DESCRIBE HISTORY {local(root).table('gold').sql}").where("operation = 'MERGE'").count())
