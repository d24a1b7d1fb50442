"""Creates a sink's Delta table with its layout, and refuses a table that is not the one the stage writes."""

from __future__ import annotations

from collections.abc import Mapping

from surestart.environment import Table
from surestart.errors import Refused
from surestart.library_types import DataFrame, DataFrameWriter, SparkSession
from surestart.spark.settings import TABLE, pairs
from surestart.typed import surestart
from surestart.words.spark_errors import is_condition


def create_or_check_table(spark: SparkSession, table: Table, columns: str, partition_by: tuple[str, ...] = ()) -> None:
    """The table exists and has every column of `columns` (SQL DDL) with its type; nothing is changed in one that
    exists."""
    existing = read_columns(spark, table)
    if existing is None:
        create_table(spark, table, columns, partition_by)
        return
    wanted = {field.name: field.dataType.simpleString() for field in spark.createDataFrame([], columns).schema}
    wrong = [
        f"{name} is {existing[name]}, not {kind}" if name in existing else f"{name} {kind} is missing"
        for name, kind in wanted.items()
        if existing.get(name) != kind
    ]
    if wrong:
        raise Refused(
            f"table {table.label} has a foreign schema: {'; '.join(wrong[:4])}"
            + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""),
            meaning=f"It is not the table this stage writes: {len(wrong)} of {len(wanted)} columns differ. "
            "Nothing was written.",
            next=surestart(
                "status", note=f"then point --root or the schema at the right place; {table.name} stays as it is"
            ),
            do_not="drop the table to make the message go away: somebody else may own it.",
            code="ForeignTable",
        )


def create_table(spark: SparkSession, table: Table, columns: str, partition_by: tuple[str, ...] = ()) -> None:
    from pyspark.errors import AnalysisException

    properties = ", ".join(f"'{key}' = '{value}'" for key, value in pairs(TABLE).items())
    partitions = f" PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
    try:
        spark.sql(f"CREATE TABLE {table.sql} ({columns}) USING DELTA{partitions} TBLPROPERTIES ({properties})")
    except AnalysisException as problem:
        raise Refused(
            f"table {table.label} cannot be created: {str(problem).splitlines()[0]}",
            meaning="The place is taken by something that is not this stage's table, or may not be written.",
            next=surestart("status", note="look at the place that is named above, then give another --root or schema"),
            do_not="delete what is there unless you know whose it is.",
            code="TableNotCreated",
        ) from problem


def create_in_catalog(
    spark: SparkSession, table: Table, columns: Mapping[str, str], properties: Mapping[str, str]
) -> None:
    """The table is there before its first append, where it has a name: Delta keeps no note with an append that makes
    the table (saveAsTable, Delta 4.4), and whoever reads the notes would not see the first one."""
    if table.path or read_columns(spark, table) is not None:
        return
    kinds = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    values = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table.sql} ({kinds}) USING delta TBLPROPERTIES ({values})").collect()


def read_columns(spark: SparkSession, table: Table) -> dict[str, str] | None:
    """Column name -> type of an existing Delta table; None when there is none."""
    from pyspark.errors import AnalysisException

    try:
        return {field.name: field.dataType.simpleString() for field in read_table(spark, table).schema}
    except AnalysisException as problem:
        if is_condition(problem, _NO_TABLE):
            return None
        raise


def read_table(spark: SparkSession, table: Table) -> DataFrame:
    return spark.read.format("delta").load(table.path) if table.path else spark.read.table(table.sql)


_NO_TABLE = frozenset(
    {
        "PATH_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_PATH_DOES_NOT_EXIST",
        "DELTA_SCHEMA_NOT_SET",
        "DELTA_MISSING_DELTA_TABLE",
    }
)


def save_to(table: Table, writer: DataFrameWriter) -> None:
    if table.path:
        writer.save(table.path)
    else:
        writer.saveAsTable(table.sql)
