"""Whole streams: Spark, its checkpoint and the executors' loading, killed, restarted and given wrong tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg.conninfo
import pytest

from surestart.failpoints import VARIABLE
from surestart.runs.runner import StageFailed, run_stage
from tests.postgres.database import EVENTS, TABLE, Database, readings
from tests.postgres.stream import APPEND, UPSERT, land, local, stage

ALL = readings(0) + readings(1) + readings(2)
LEDGER = Counter([(0, 1000), (1, 1000), (2, 1000)])


def test_a_stream_appends_every_row_once_over_several_runs(spark: Any, database: Database, tmp_path: Path) -> None:
    database.execute(EVENTS)
    for batch_id in range(3):
        land(tmp_path, batch_id)
        run_stage(spark, local(tmp_path), stage(APPEND))

    assert database.rows("SELECT * FROM events") == Counter(ALL)
    assert database.rows("SELECT batch_id, rows FROM surestart_ledger") == LEDGER
    written_by = database.rows("SELECT query, stage, checkpoint, mode FROM surestart_ledger")
    assert written_by == {("sensor-load", "load", f"{tmp_path}/checkpoints/sensor-load", "append"): 3}


def test_a_value_that_does_not_fit_stops_the_stream_and_the_next_start_writes_the_batch(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE events (sensor text, part int, pos smallint, value float8)")
    land(tmp_path, 0)
    land(tmp_path, 33)

    with pytest.raises(StageFailed) as failed:
        run_stage(spark, local(tmp_path), stage(APPEND))

    assert failed.value.code == "PostgresTypeMismatch"
    assert "column pos of public.events is smallint" in failed.value.what
    assert str(psycopg.conninfo.conninfo_to_dict(database.url)["password"]) not in str(failed.value)
    assert database.rows("SELECT * FROM events") == Counter(readings(0))
    assert database.staging_tables() == set()

    database.execute("ALTER TABLE events ALTER pos TYPE bigint")
    run = run_stage(spark, local(tmp_path), stage(APPEND))
    assert (run.batches, run.replayed) == (1, 1)
    assert database.rows("SELECT * FROM events") == Counter(readings(0) + readings(33))


# One whole stream here; `make chaos` kills one at every point.
@pytest.mark.usefixtures("classic_only")
@pytest.mark.parametrize("point", ["postgres.mid_copy"])
def test_a_killed_stream_goes_on_without_losing_or_doubling_a_row(
    spark: Any, database: Database, tmp_path: Path, point: str
) -> None:
    _kill_and_restart(spark, database, tmp_path, point, "gold")


@pytest.mark.chaos
@pytest.mark.parametrize("table", ["events", "gold"])
@pytest.mark.parametrize(
    "point",
    [
        *("postgres.after_begin:2", "postgres.mid_copy", "postgres.before_ledger:2"),
        *("postgres.before_commit:2", "postgres.after_commit:2", "postgres.before_spark_commit:2"),
    ],
)
def test_a_stream_killed_at_any_point_goes_on(
    spark: Any, database: Database, tmp_path: Path, point: str, table: str
) -> None:
    _kill_and_restart(spark, database, tmp_path, point, table)


def _kill_and_restart(spark: Any, database: Database, tmp_path: Path, point: str, table: str) -> None:
    database.execute(EVENTS)
    database.execute(TABLE)
    for batch_id in range(3):
        land(tmp_path, batch_id)
    password = str(psycopg.conninfo.conninfo_to_dict(database.url)["password"])

    # A session of its own: the fail point kills all of it, Spark's JVM and Python workers included.
    command = [sys.executable, "-m", "tests.postgres.dying_stream", str(tmp_path), table, str(tmp_path / "events")]
    with (tmp_path / "output").open("wb") as output:
        died = subprocess.run(
            command,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "SURESTART_POSTGRES_URL": database.url, VARIABLE: point},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            check=False,
            timeout=240,
        )

    assert died.returncode == -9, (tmp_path / "output").read_text()
    written = 1000 * database.one("SELECT count(*) FROM surestart_ledger")
    assert written < 3000
    assert database.one("SELECT count(*) FROM events") == (written if table == "events" else 0)

    run = run_stage(spark, local(tmp_path), stage(APPEND if table == "events" else UPSERT))

    assert run.replayed is not None
    if table == "events":
        assert database.rows("SELECT * FROM events") == Counter(ALL)
    else:
        assert database.rows("SELECT * FROM gold") == Counter({row[0]: row for row in ALL}.values())
    assert database.rows("SELECT batch_id, rows FROM surestart_ledger") == LEDGER
    assert database.staging_tables() == set()
    leaks = [path for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert any((tmp_path / "events").iterdir())
    assert leaks == []
