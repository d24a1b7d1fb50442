"""Which commits of one batch a table's history names, and how many rows they wrote: by the note that each carries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from surestart.environment import Table
from surestart.facts.delta import Commit, history_evidence
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import read_mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


def read_newest(spark: SparkSession, table: Table, limit: int | None = 100) -> tuple[Commit, ...]:
    """The table's newest commits, oldest first; None for every one that has a note."""
    history = spark.sql(f"DESCRIBE HISTORY {table.sql}{'' if limit is None else f' LIMIT {limit}'}")
    rows = history.where("userMetadata IS NOT NULL") if limit is None else history
    return history_evidence(rows.collect()).commits


def rows_of_batch(commits: Iterable[Commit], query_id: str, batch_id: int) -> int | None:
    """Rows that the commits of this batch brought; None where one of them does not say."""
    marked = [one for one in commits if one.mark and (one.mark.query_id, one.mark.batch_id) == (query_id, batch_id)]
    rows = [rows_of(commit) for commit in marked]
    return None if None in rows else sum(number for number in rows if number is not None)


def rows_of(commit: Commit) -> int | None:
    """Rows that its batch gave it, of a MERGE those that came in, written or not; None where it does not say."""
    if commit.mark is not None and commit.mark.merged_rows is not None:
        return commit.mark.merged_rows
    return integer(commit.metrics.get({"WRITE": "numOutputRows", "MERGE": "numSourceRows"}.get(commit.operation, "")))


def _steps(history: DataFrame, query_id: str, batch_id: int) -> tuple[str, ...]:
    notes = history.select("userMetadata").where("userMetadata IS NOT NULL").limit(1000).collect()
    marks = [read_mark(row[0]) for row in notes]
    return tuple(mark.step for mark in marks if mark and (mark.query_id, mark.batch_id) == (query_id, batch_id))
