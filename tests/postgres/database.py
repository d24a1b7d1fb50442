"""A test's database, and one batch written to it without Spark: the same code, rows from Arrow in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pyarrow as pa

from surestart.facts.postgres.types import TEXT, StagedColumn
from surestart.facts.postgres.url import DatabaseUrl, Secret
from surestart.sinks.postgres.batch import BatchWrite, BatchWritten, write_batch
from surestart.sinks.postgres.copy import LoadedRows, StagingTable, copy_batches

QUERY_ID = "0b7c0f4e-9a0f-4f6e-8f0e-6d1f1d1a5a01"
TABLE = "CREATE TABLE gold (sensor text PRIMARY KEY, part int, pos bigint, value double precision)"
EVENTS = "CREATE TABLE events (sensor text, part int, pos bigint, value double precision)"

SCHEMA = pa.schema([("sensor", pa.string()), ("part", pa.int32()), ("pos", pa.int64()), ("value", pa.float64())])

Row = tuple[str | None, int | None, int | None, float | None]


@dataclass(frozen=True)
class Database:
    url: str = field(repr=False)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True)

    def execute(self, sql: str, values: Sequence[object] = ()) -> None:
        with self.connect() as connection:
            connection.execute(sql, values)

    def rows(self, sql: str, values: Sequence[object] = ()) -> Counter[tuple[Any, ...]]:
        with self.connect() as connection:
            return Counter(connection.execute(sql, values).fetchall())

    def one(self, sql: str, values: Sequence[object] = ()) -> Any:
        with self.connect() as connection:
            row = connection.execute(sql, values).fetchone()
            assert row is not None
            return row[0]

    @property
    def secret(self) -> Secret:
        return DatabaseUrl(variable="URL").read({"URL": self.url})

    def staging_tables(self) -> set[str]:
        return {
            name
            for (name,) in self.rows("SELECT relname FROM pg_class WHERE starts_with(relname, 'surestart_staging')")
        }


def upsert(database: Database, batch_id: int, *, replayed: bool = False) -> BatchWrite:
    """A batch for the table `gold`."""
    return BatchWrite(
        url=database.secret,
        target="gold",
        mode="upsert",
        columns=arrow_columns(SCHEMA),
        query_id=QUERY_ID,
        batch_id=batch_id,
        replayed=replayed,
        keys=("sensor",),
        order=("part", "pos"),
        query="sensor-merge-gold",
        stage="merge-gold",
        checkpoint="/checkpoints/sensor-merge-gold",
    )


def append(database: Database, batch_id: int, *, replayed: bool = False) -> BatchWrite:
    """A batch for the table `events`."""
    return replace(upsert(database, batch_id, replayed=replayed), target="events", mode="append", keys=(), order=())


def write(
    what: BatchWrite, rows: Sequence[Row], before: Callable[[StagingTable], object] = lambda staging: None
) -> BatchWritten:
    """Writes the rows as two tasks would; `before` is what happens while they load."""

    def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
        middle = len(rows) // 2
        first = copy_batches([arrow(rows[:middle])], what.url, staging)
        before(staging)
        return (first, copy_batches([arrow(rows[middle:])], what.url, staging))

    return write_batch(what, load)


def arrow(rows: Sequence[Row]) -> pa.RecordBatch:
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def readings(batch_id: int, count: int = 1000) -> list[Row]:
    """Rows of one batch: distinct positions, 100 sensors, each several times."""
    start = batch_id * count
    return [(f"s{pos % 100}", 0, pos, pos / 8) for pos in range(start, start + count)]


def arrow_columns(schema: pa.Schema) -> tuple[StagedColumn, ...]:
    """The staging columns for Arrow batches that did not come from Spark."""
    kinds = {
        pa.int8(): "smallint",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.bool_(): "boolean",
        pa.date32(): "date",
        pa.binary(): "bytea",
        pa.string(): TEXT,
    }

    def kind(field: pa.Field) -> str:
        if pa.types.is_timestamp(field.type):
            return "timestamp with time zone" if field.type.tz else "timestamp without time zone"
        return kinds[field.type]

    return tuple(StagedColumn(field.name, kind(field)) for field in schema)
