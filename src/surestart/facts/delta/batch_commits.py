"""Which commits of one batch a table's history names, and how many rows they wrote: by the note that each
carries, or by what Delta's own streaming sink says of itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from surestart.environment import Table
from surestart.facts.delta import Commit, history_evidence
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import read_mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Delta's own streaming sink is a STREAMING UPDATE.
_ROWS_OF = {"WRITE": "numOutputRows", "STREAMING UPDATE": "numOutputRows", "MERGE": "numSourceRows"}
_log = logging.getLogger("surestart.facts.delta")


def read_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int) -> tuple[str, ...]:
    """The steps of this batch that the table has a commit of; "" is the first."""
    return _steps(spark.sql(f"DESCRIBE HISTORY {table.sql}"), query_id, batch_id)


def read_new_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int, since: int) -> tuple[str, ...]:
    """Those of commits after version `since`, among the newest hundred: asked right after a write."""
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 100")
    return _steps(newest.where(f"version > {since}"), query_id, batch_id)


def newest_version(spark: SparkSession, table: Table) -> int:
    """The table's newest version."""
    return int(spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]["version"])


def read_noted_commits(spark: SparkSession, table: Table, limit: int | None = 100) -> tuple[Commit, ...]:
    """The table's newest commits, oldest first; None for every one that has a note."""
    history = spark.sql(f"DESCRIBE HISTORY {table.sql}{'' if limit is None else f' LIMIT {limit}'}")
    rows = history.where("userMetadata IS NOT NULL") if limit is None else history
    return history_evidence(rows.collect()).commits


def rows_of_tables(spark: SparkSession, tables: Iterable[Table], query_id: str, batch_id: int) -> int:
    """Rows that this batch brought, as the tables' histories say: serverless compute reports 0 rows of every
    foreachBatch, and Spark Connect of Delta's own sink. For screens only: what cannot be asked counts as none, with a
    log line."""
    from pyspark.errors import PySparkException

    rows = 0
    for table in tables:
        try:
            rows += rows_of_batch(read_noted_commits(spark, table), query_id, batch_id) or 0
        except PySparkException as problem:
            _log.warning("how many rows %s has of batch %s is not known: %s", table.label, batch_id, problem)
    return rows


def rows_of_batch(commits: Iterable[Commit], query_id: str, batch_id: int) -> int | None:
    """Rows that the commits of this batch brought; None where one of them does not say."""
    rows = [rows_of(one) for one in commits if (one.query_id, one.batch_id) == (query_id, batch_id)]
    return None if None in rows else sum(number for number in rows if number is not None)


def rows_of(commit: Commit) -> int | None:
    """How many rows the batch gave to the commit. For a MERGE: all that came in, written or not. None: it does not
    say."""
    if commit.mark is not None and commit.mark.merged_rows is not None:
        return commit.mark.merged_rows
    return integer(commit.metrics.get(_ROWS_OF.get(commit.operation, "")))


def _steps(history: DataFrame, query_id: str, batch_id: int) -> tuple[str, ...]:
    notes = history.select("userMetadata").where("userMetadata IS NOT NULL").limit(1000).collect()
    marks = [read_mark(row[0]) for row in notes]
    return tuple(mark.step for mark in marks if mark and (mark.query_id, mark.batch_id) == (query_id, batch_id))
