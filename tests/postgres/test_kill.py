"""kill -9 at six points of a batch: the same rows, once, after the next start.

Here the process that dies writes one batch without Spark, which takes a second; test_streaming.py lets whole streams die.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from surestart.failpoints import VARIABLE

from .database import EVENTS, Database, append, readings, write

# The point, and whether the batch is in the table when the process is dead.
POINTS = [
    ("postgres.mid_copy:3", False),  # inside the first task's COPY
    ("postgres.mid_copy:8", False),  # the first task has committed its rows to staging, the second is in its COPY
    ("postgres.after_begin", False),
    ("postgres.before_ledger", False),
    ("postgres.before_commit", False),
    ("postgres.after_commit", True),
    ("postgres.before_spark_commit", True),
]


@pytest.mark.parametrize(("point", "there"), POINTS)
def test_a_kill_costs_no_row_and_doubles_none(database: Database, point: str, there: bool) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    assert _run(database, 1, replayed=False, point=point) == -9

    after_kill = readings(0) + readings(1) if there else readings(0)
    assert database.rows("SELECT * FROM events") == Counter(after_kill)

    again = write(append(database, 1, replayed=True), readings(1))

    assert again.skipped is there
    assert database.rows("SELECT * FROM events") == Counter(readings(0) + readings(1))
    assert database.rows("SELECT batch_id, rows FROM surestart_ledger") == {(0, 1000): 1, (1, 1000): 1}
    assert database.staging_tables() == set()


def test_a_batch_killed_again_and_again_is_there_once_at_the_end(database: Database) -> None:
    database.execute(EVENTS)

    for point, _ in POINTS[1:5]:
        assert _run(database, 0, replayed=True, point=point) == -9
        assert database.rows("SELECT * FROM events") == {}
    assert _run(database, 0, replayed=True) == 0

    assert database.rows("SELECT * FROM events") == Counter(readings(0))
    assert database.staging_tables() == set()


def _run(database: Database, batch_id: int, *, replayed: bool, point: str = "") -> int:
    environment = {**os.environ, "SURESTART_POSTGRES_URL": database.url}
    if point:
        environment[VARIABLE] = point
    command = [sys.executable, str(Path(__file__).with_name("dying_batch.py")), str(batch_id), str(int(replayed))]
    # A session of its own: the fail point kills all of it.
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        return process.wait(60)
