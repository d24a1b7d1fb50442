"""Loads Arrow batches into a staging table by COPY; runs on executors, one transaction per task.

    Arrow batch ──pyarrow.csv──> text ──COPY … FROM STDIN (FORMAT csv)──> staging table

CSV because Arrow writes it in C++ and PostgreSQL then converts to the target's own types and refuses what does not fit.
Null is an empty unquoted field, the empty string is quoted, so the two stay apart.

A task answers with the number of rows and the id of its transaction. Spark may run a task twice (a lost executor,
speculation); both copies may reach staging, but only one answer reaches the driver, which then drops the rows of the
other transaction by their xmin.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surestart.errors import SurestartError, UsageError
from surestart.failpoints import reach
from surestart.sinks.postgres_connection import driver, name, open_connection
from surestart.sinks.postgres_errors import as_values, explained, from_values
from surestart.sinks.postgres_url import Secret

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


@dataclass(frozen=True)
class Staging:
    """Where one attempt at one batch is collected. Only that attempt writes there."""

    schema: str
    table: str
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        return name(self.schema, self.table)


@dataclass(frozen=True)
class Loaded:
    """What one task stored: rows, and the transaction that stored them ("" when there was nothing to store)."""

    rows: int
    transaction: str


def load_from_executors(batch_df: DataFrame, url: Secret, staging: Staging) -> tuple[Loaded, ...]:
    """Every row of the batch is in staging, loaded by the tasks that computed it."""
    rows = load_plan(batch_df, url, staging).collect()
    # Failures come back as values: raised in a task, they would be retried in vain and wrapped in a Spark stack trace.
    failures = [json.loads(row["failure"]) for row in rows if row["failure"]]
    if failures:
        raise from_values(failures[0])
    return tuple(Loaded(row["rows"], row["transaction"]) for row in rows)


def load_plan(batch_df: DataFrame, url: Secret, staging: Staging) -> DataFrame:
    """One row per task: what it stored, or why it could not. Collecting it loads the batch."""
    return textual(batch_df).mapInArrow(_CopyTask(url, staging), "rows long, transaction string, failure string")


def load_from_driver(batch_df: DataFrame, url: Secret, staging: Staging) -> tuple[Loaded, ...]:
    """The same, through the driver's memory: for compute whose executors may not open connections (serverless)."""
    return (copy_batches(textual(batch_df).toArrow().to_batches(), url, staging),)


def copy_batches(batches: Iterable[pa.RecordBatch], url: Secret, staging: Staging) -> Loaded:
    """All rows of the batches are in staging, or none. Connects only when there is a row to store."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Loaded(0, "")
    psycopg = driver()
    failure: SurestartError
    try:
        with open_connection(url, f"surestart {staging.table}", autocommit=False) as connection:
            connection.execute("SET LOCAL synchronous_commit = off")
            found = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
            assert found is not None
            rows = _copy(connection, staging, first, filled)
            connection.commit()
            return Loaded(rows, str(found[0]))
    except psycopg.Error as error:
        failure = explained(error, url, f"loading rows into {staging.schema}.{staging.table}")
    raise failure


def _copy(connection: Any, staging: Staging, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> int:
    columns = ", ".join(name(column) for column in staging.columns)
    rows = 0
    with connection.cursor().copy(f"COPY {staging.sql} ({columns}) FROM STDIN (FORMAT csv)") as copy:
        batch: pa.RecordBatch | None = first
        while batch is not None:
            copy.write(_csv(batch))
            rows += batch.num_rows
            reach("postgres.mid_copy")
            batch = next(others, None)
    return rows


def _csv(batch: pa.RecordBatch) -> memoryview:
    import pyarrow as pa
    from pyarrow import csv

    writer: Any = csv

    columns = [
        # Arrow prints a zoned time in its zone with an offset; as UTC it prints 'Z' and needs no zone database.
        column.cast(pa.timestamp(column.type.unit, "UTC"))
        if pa.types.is_timestamp(column.type) and column.type.tz
        else column
        for column in batch.columns
    ]
    buffer = io.BytesIO()
    table = pa.RecordBatch.from_arrays(columns, names=[str(index) for index in range(len(columns))])
    writer.write_csv(table, buffer, writer.WriteOptions(include_header=False))
    return buffer.getbuffer()


@dataclass(frozen=True)
class _CopyTask:
    url: Secret
    staging: Staging

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        failure = None
        loaded = Loaded(0, "")
        try:
            loaded = copy_batches(batches, self.url, self.staging)
        except SurestartError as error:
            failure = json.dumps(as_values(error))
        yield pa.RecordBatch.from_pydict(
            {
                "rows": pa.array([loaded.rows], pa.int64()),
                "transaction": pa.array([loaded.transaction], pa.string()),
                "failure": pa.array([failure], pa.string()),
            }
        )


def textual(batch_df: DataFrame) -> DataFrame:
    """The columns in forms that CSV can carry: nested ones as JSON, bytes as bytea's \\x notation."""
    if not batch_df.columns:
        raise UsageError(
            "the batch has no columns",
            meaning="There is nothing that could be stored.",
            next="select the target's columns in the stage's transform",
            code="PostgresNoColumns",
        )
    return batch_df.select(*(_as_csv_field(batch_df, field) for field in batch_df.schema.fields))


def _as_csv_field(batch_df: DataFrame, field: StructField) -> Column:
    from pyspark.sql import functions as F

    kind = field.dataType.typeName()
    column = F.col("`" + field.name.replace("`", "``") + "`")
    if kind == "binary":
        column = F.concat(F.lit("\\x"), F.lower(F.hex(column)))
    elif kind in ("struct", "array", "map", "variant"):
        column = F.to_json(column, {"ignoreNullFields": "false"})
    elif kind not in _PLAIN:
        column = column.cast("string")
    return column.alias(field.name)


_PLAIN = frozenset(
    ("string", "byte", "short", "integer", "long", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz")
) | {"decimal"}
