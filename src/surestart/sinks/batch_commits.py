"""Which commits of one batch a table's history names: by the note that each of our commits carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.deltalog.commit import read_mark
from surestart.environment import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int) -> tuple[str, ...]:
    """The steps of this batch that the table has a commit of; "" is the first."""
    return _steps(spark.sql(f"DESCRIBE HISTORY {table.sql}"), query_id, batch_id)


def read_new_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int, since: int) -> tuple[str, ...]:
    """Those of commits after version `since`, among the newest hundred: asked right after a write."""
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 100")
    return _steps(newest.where(f"version > {since}"), query_id, batch_id)


def read_version(spark: SparkSession, table: Table) -> int:
    """The table's newest version."""
    return int(spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]["version"])


def _steps(history: DataFrame, query_id: str, batch_id: int) -> tuple[str, ...]:
    notes = history.select("userMetadata").where("userMetadata IS NOT NULL").limit(1000).collect()
    marks = [read_mark(row[0]) for row in notes]
    return tuple(mark.step for mark in marks if mark and (mark.query_id, mark.batch_id) == (query_id, batch_id))
