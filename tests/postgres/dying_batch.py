"""Processes that write one batch to the table `events` or `gold` without Spark and die at a fail point."""

from __future__ import annotations

import multiprocessing
import os

from surestart.failpoints import VARIABLE, fail_point
from surestart.sinks.postgres.batch import write_batch
from surestart.sinks.postgres.copy import copy_batches
from tests.postgres.database import Database, append, arrow, readings, upsert

# Forked from a server that has the slow imports done: they are most of such a process' life.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", "psycopg", "pyarrow.csv", "surestart.sinks.postgres.batch"])


def exit_code_of_batch(
    database: Database, batch_id: int, *, replayed: bool, point: str = "", table: str = "events"
) -> int | None:
    """Runs the batch in a process of its own; -9 when it was killed."""
    process = _CONTEXT.Process(target=_run, args=(database.url, batch_id, replayed, point, table))
    process.start()
    process.join(60)
    return process.exitcode


def _run(url: str, batch_id: int, replayed: bool, point: str, table: str) -> None:
    os.setsid()
    if point:
        os.environ[VARIABLE] = point
    what = (append if table == "events" else upsert)(Database(url), batch_id, replayed=replayed)
    rows = readings(batch_id)
    parts = [arrow(rows[start : start + 100]) for start in range(0, len(rows), 100)]
    write_batch(
        what,
        lambda staging: (copy_batches(parts[:5], what.url, staging), copy_batches(parts[5:], what.url, staging)),
    )
    fail_point("postgres.before_spark_commit")
