"""Rows of a PostgreSQL table that would go, and will not come again.

By their positions, which come through the driver 64 at a time, as the bits of a number, and are looked up like those of
any table. A table without positions is compared, on all columns, with the rows that the stage would write there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surestart.errors import SurestartError
from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.target import find_target
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Link
from surestart.remedies.basis.database_facts import read_column_names, read_database, read_marks
from surestart.remedies.count.count_databases import count_against
from surestart.sinks.delta.merge import newest_per_key
from surestart.sinks.postgres.once import Marks
from surestart.sinks.postgres.remedy import going
from surestart.sinks.postgres.sink import PostgresSink
from surestart.spark.delta_table import read_columns, read_table

if TYPE_CHECKING:
    from surestart.remedies.loss.loss import Loss, LossSearch

_AT_A_TIME = 500_000


def find_database_loss(found: LossSearch, link: Link, sink: PostgresSink, kept: DataFrame | None) -> Loss:
    """Of the rows of the table that would go: those that will not come again."""
    from surestart.remedies.loss.loss import Loss, count_lost

    if not read_database(sink).exists:
        return Loss()
    rows = read_placed(found.spark, sink, None if kept is None else read_marks(kept))
    if rows is None:
        return find_loss_by_columns(found.spark, link, sink)
    return count_lost(found, link, rows, f"PostgreSQL {sink.target}")


def read_placed(
    spark: SparkSession, sink: PostgresSink, marks: Marks | None = None, since: str = ""
) -> DataFrame | None:
    """The positions of the rows that would go; None: the table has no columns for them. since: only of rows that are
    not in this kept table, by their position."""
    if set(POSITION) - set(read_column_names(sink)):
        return None
    return _positions(spark, sink, marks, since)


def _positions(spark: SparkSession, sink: PostgresSink, marks: Marks | None, since: str) -> DataFrame:
    import pyarrow as pa
    from pyspark.sql import functions as F

    psycopg = driver()
    url = sink.url.read()
    kinds = [("source", pa.string()), ("partition", pa.int32()), ("block", pa.int64()), ("mask", pa.int64())]
    schema, blocks = pa.schema(kinds), None
    failure: SurestartError | None = None
    try:
        with (
            open_connection(url, "surestart plan", autocommit=False) as connection,
            connection.cursor(name="positions") as cursor,
        ):
            cursor.execute(*_query(connection, sink, marks, since))
            while rows := cursor.fetchmany(_AT_A_TIME):
                columns = [list(column) for column in zip(*rows, strict=True)]
                arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                some = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
                blocks = some if blocks is None else blocks.unionAll(some)
    except psycopg.Error as error:
        failure = error_in_four_parts(error, url, f"reading the positions of {sink.target}", UNCHANGED)
    if failure is not None:
        raise failure
    if blocks is None:
        return spark.createDataFrame([], "source STRING, partition INT, offset BIGINT")
    bits = F.filter(F.sequence(F.lit(0), F.lit(63)), lambda bit: F.getbit("mask", bit) == 1)
    # A row without a position counts as well.
    offsets = F.when(F.col("block").isNull(), F.array(F.lit(None).cast("bigint"))).otherwise(
        F.transform(bits, lambda bit: F.col("block") * 64 + bit)
    )
    return blocks.select("source", "partition", F.explode(offsets).alias("offset"))


def _query(connection: Any, sink: PostgresSink, marks: Marks | None, since: str) -> tuple[str, list[Any]]:
    target = find_target(connection, sink.target)
    condition, values = going(marks)
    if since:
        kept = connection.execute("SELECT to_regclass(%s)", (name(*since.rsplit(".", 1)),)).fetchone()
        if not kept or kept[0] is None:
            condition = "false"  # Everything is back already.
        else:
            same = " AND ".join(f"k.{name(column)} = t.{name(column)}" for column in POSITION)
            condition += f" AND NOT EXISTS (SELECT 1 FROM {name(*since.rsplit('.', 1))} k WHERE {same})"
    source, partition, offset = (f"t.{name(column)}" for column in POSITION)
    placed = f"{source} IS NOT NULL AND {partition} IS NOT NULL AND {offset} IS NOT NULL"
    bit = f"bit_or(1::bigint << ({offset} & 63)::int)"
    return (
        f"SELECT {source}, {partition}, {offset} >> 6, {bit} FROM {target.sql} t WHERE ({condition}) AND {placed}"
        f" GROUP BY 1, 2, 3 UNION ALL SELECT {source}, {partition}, NULL, NULL FROM {target.sql} t"
        f" WHERE ({condition}) AND NOT ({placed})",
        [*values, *values],
    )


def find_loss_by_columns(spark: SparkSession, link: Link, sink: PostgresSink) -> Loss:
    """By all columns: the whole table goes, because which rows stay cannot be said."""
    from surestart.remedies.loss.loss import Loss

    mirror, expected = link.mirror_of(sink), None
    if mirror is not None and read_columns(spark, mirror.table) is not None:
        expected = read_table(spark, mirror.table)
    elif not link.outputs and link.input is not None and read_columns(spark, link.input) is not None:
        given = link.stage.transform(read_table(spark, link.input))
        expected = newest_per_key(given, sink.keys, sink.order) if sink.mode == "upsert" else given
    rows = read_database(sink).rows
    if expected is not None:
        counted = count_against(sink, expected)
        if not counted.problem:
            rows = counted.counts.from_nowhere
            why = f"{rows:,} rows of PostgreSQL {sink.target} are in no table that the stage reads or writes"
            return Loss(rows, why, of_stage=rows) if rows else Loss()
    why = f"PostgreSQL {sink.target} has no columns {', '.join(POSITION)}: whether its rows come again cannot be told"
    return Loss(rows, why, of_stage=rows) if rows else Loss()
