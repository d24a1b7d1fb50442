"""Which commits of one batch a table's history names: by the note that each of our commits carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.deltalog.commit import read_mark
from surestart.environment import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int, newest: int = 0) -> tuple[str, ...]:
    """The steps of this batch that the table has a commit of; "" is the first. newest: look at so many commits only."""
    limit = f" LIMIT {newest}" if newest else ""
    history = spark.sql(f"DESCRIBE HISTORY {table.sql}{limit}").select("userMetadata")
    marks = [read_mark(row[0]) for row in history.where("userMetadata IS NOT NULL").limit(1000).collect()]
    return tuple(mark.step for mark in marks if mark and (mark.query_id, mark.batch_id) == (query_id, batch_id))
