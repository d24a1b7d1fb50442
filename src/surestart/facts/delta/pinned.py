"""Tables at the version they had at one moment, so that a count does not see what is written meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surestart.environment import Table
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.delta.log import read_delta_log
from surestart.spark.delta_table import read_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSITION_TYPES = "source STRING, partition INT, offset BIGINT"


@dataclass(frozen=True)
class PinnedTable:
    """version None: there is no such table."""

    table: Table
    version: int | None = None
    table_id: str = ""

    @property
    def label(self) -> str:
        return self.table.label


def pin(spark: SparkSession, table: Table) -> PinnedTable:
    if table.path:
        try:
            log = read_delta_log(table.path)
        except NoDeltaLog:
            return PinnedTable(table)
        return PinnedTable(table, log.latest_version, log.table_id)
    if read_columns(spark, table) is None:
        return PinnedTable(table)
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]
    return PinnedTable(table, int(newest["version"]), str(detail["id"]))


def read_version(spark: SparkSession, table: Table, version: int) -> DataFrame:
    if table.path:
        return spark.read.format("delta").option("versionAsOf", version).load(table.path)
    return spark.sql(f"SELECT * FROM {table.sql} VERSION AS OF {int(version)}")


def read_pinned(spark: SparkSession, pinned: PinnedTable) -> DataFrame | None:
    return None if pinned.version is None else read_version(spark, pinned.table, pinned.version)


def read_pinned_positions(spark: SparkSession, pinned: PinnedTable) -> DataFrame:
    """Empty for a table that is not there."""
    rows = read_pinned(spark, pinned)
    return spark.createDataFrame([], POSITION_TYPES) if rows is None else rows


def reading_errors() -> tuple[type[Exception], ...]:
    """What Spark raises when files or records that a query needs are not there. A failed task comes through Py4J as it
    is; PySpark converts errors of planning only, and Spark Connect has no Py4J."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    except ImportError:
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)


def first_line(error: Exception) -> str:
    """Py4J names its own call first, and the error on the line after it."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if not line.startswith("An error occurred while calling")]
    return next(iter(named), type(error).__name__)[:200]
