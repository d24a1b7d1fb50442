"""The pair and the note of a Delta commit, carried by session settings or, where no session takes these, by an append.

    classic Spark, job clusters   transaction(…): MERGE …                      one commit: rows, pair and note
    serverless compute            MERGE …  then  append_pair(…): no rows       two commits: rows, then pair and note

MERGE, DELETE, UPDATE and RESTORE have no options of their own (delta#3934). The settings are unset in any case: left
behind, they make Delta drop the session's next, unrelated write without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surestart.environment import Table
from surestart.facts.delta import read_delta_log
from surestart.facts.delta.own_columns import identity_columns, may_number_rows
from surestart.sinks.delta.identity import TXN_APP_ID, TXN_VERSION, USER_METADATA
from surestart.spark.delta_table import read_table
from surestart.spark.session import only_inside, takes_setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter


_POSITION = frozenset({"source", "partition", "offset"})


def takes_pairs(spark: SparkSession) -> bool:
    """Whether `transaction` is possible in this session."""
    return takes_setting(spark, TXN_APP_ID)


@contextmanager
def transaction(spark: SparkSession, app_id: str, version: int, note: str) -> Iterator[None]:
    """Inside the block the session's next Delta command carries this pair and note."""
    with only_inside(spark, {TXN_APP_ID: app_id, TXN_VERSION: str(version), USER_METADATA: note}):
        yield


def append_pair(
    spark: SparkSession, table: Table, app_id: str, version: int, note: str, columns: Sequence[str] = ()
) -> None:
    """The table has a commit of no rows with this pair and note; if it knew the pair, it is as it was. columns: those
    that a stage writes there, where they are known."""
    rows = _only(no_rows(spark, table), columns) if columns else nothing(spark, table)
    append_with_pair(rows, table, app_id, version, note)


def append_with_pair(rows: DataFrame, table: Table, app_id: str, version: int, note: str) -> None:
    """The rows are in the table, in a commit with this pair and note; if it knew the pair, it is as it was."""
    save_with_pair(rows.write.format("delta").mode("append"), table, app_id, version, note)


def save_with_pair(writer: DataFrameWriter, table: Table, app_id: str, version: int, note: str) -> None:
    """What the writer writes is in the table, in a commit with this pair and note; if it knew the pair, it is as it
    was."""
    writer = writer.option("txnAppId", app_id).option("txnVersion", str(version)).option("userMetadata", note)
    if table.path:
        writer.save(table.path)
    else:
        writer.saveAsTable(table.sql)


def nothing(spark: SparkSession, table: Table) -> DataFrame:
    """No rows, for an append, without the columns that no write may name (GENERATED ALWAYS AS IDENTITY). For a table of
    a catalog no session says which these are, so only a few columns are named there."""
    rows = no_rows(spark, table)
    if table.path:
        return rows.drop(*identity_columns(read_delta_log(table.path).schema_text))
    if not may_number_rows(spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0].asDict()):
        return rows
    named = [field.name for field in rows.schema if not field.nullable or field.name in _POSITION]
    return _only(rows, named) if named else rows


def _only(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    wanted = {name.lower() for name in names}
    return rows.drop(*(name for name in rows.columns if name.lower() not in wanted))


def no_rows(spark: SparkSession, table: Table) -> DataFrame:
    """Not made from a read of the table: such a write would conflict with whatever is written meanwhile."""
    return spark.createDataFrame([], read_table(spark, table).schema)
