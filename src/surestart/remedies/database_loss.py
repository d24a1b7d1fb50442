"""Rows of a PostgreSQL table that would go and that the source has no more: for a stage that writes no Delta table.

Their positions come through the driver, so many at a time, and are looked up in the source like those of any table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from surestart.errors import CannotTell, SurestartError
from surestart.remedies.chain import POSITION, Link
from surestart.remedies.database_facts import read_marks
from surestart.sinks.postgres import PostgresSink
from surestart.sinks.postgres_connection import driver, name, open_connection
from surestart.sinks.postgres_errors import UNCHANGED, explained
from surestart.sinks.postgres_once import Marks
from surestart.sinks.postgres_remedy import going
from surestart.sinks.postgres_target import find_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from surestart.remedies.source_reach import Loss

_AT_A_TIME = 500_000


def find_database_loss(
    spark: SparkSession, link: Link, kept: DataFrame, loss_of: Callable[[DataFrame], Loss], since: str = ""
) -> Loss:
    """Of the rows that would go. since: only those that are not in this kept table, by their position."""
    from surestart.remedies.source_reach import Loss

    rows, why, other = 0, "", False
    marks: dict[str, dict[str, int]] = {}
    for sink in link.databases:
        for some in _positions(spark, sink, read_marks(kept), since):
            lost = loss_of(some)
            rows, why, other = rows + lost.rows, lost.why or why, other or lost.other_topic
            for source, parts in lost.marks.items():
                known = marks.setdefault(source, {})
                known.update({part: max(mark, known.get(part, 0)) for part, mark in parts.items()})
    return Loss(rows, why, marks, other)


def _positions(spark: SparkSession, sink: PostgresSink, marks: Marks, since: str) -> Iterator[DataFrame]:
    import pyarrow as pa

    psycopg = driver()
    url = sink.url.read()
    schema = pa.schema([("source", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    failure: SurestartError
    try:
        with open_connection(url, "surestart plan", autocommit=False) as connection:
            sql, values = _query(connection, sink, marks, since)
            if not sql:
                return
            with connection.cursor(name="positions") as cursor:
                cursor.execute(sql, values)
                while rows := cursor.fetchmany(_AT_A_TIME):
                    columns = [list(column) for column in zip(*rows, strict=True)]
                    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                    yield spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
            return
    except psycopg.Error as error:
        failure = explained(error, url, f"reading the positions of {sink.target}", UNCHANGED)
    raise failure


def _query(connection: Any, sink: PostgresSink, marks: Marks, since: str) -> tuple[str, list[Any]]:
    there = connection.execute("SELECT to_regclass(%s)", (name(*sink.target.split(".")),)).fetchone()
    if not there or there[0] is None:
        return "", []
    target = find_target(connection, sink.target)
    missing = [column for column in POSITION if column not in target.names]
    if missing:
        raise CannotTell(
            f"{target.label} has no column {', '.join(missing)}",
            meaning="Whether the source still has the rows that would be removed cannot be told. Nothing was changed.",
            next=f"psql \"$SURESTART_POSTGRES_URL\" -c '\\d {target.label}'",
            do_not="empty the table by hand: what the source has no more would be lost for ever.",
            code="PostgresWithoutPositions",
        )
    condition, values = going(marks)
    columns = [f"t.{name(column)}" for column in POSITION]
    if since:
        kept = connection.execute("SELECT to_regclass(%s)", (name(*since.rsplit(".", 1)),)).fetchone()
        if not kept or kept[0] is None:
            return "", []  # Everything is back already.
        same = " AND ".join(f"k.{name(column)} = t.{name(column)}" for column in POSITION)
        condition += f" AND NOT EXISTS (SELECT 1 FROM {name(*since.rsplit('.', 1))} k WHERE {same})"
    return f"SELECT {', '.join(columns)} FROM {target.sql} t WHERE {condition}", values
