"""Loads Arrow batches into a staging table by COPY; runs on executors, one transaction per task.

    Arrow batch ──postgres_binary──> bytes ──COPY … FROM STDIN (FORMAT binary)──> staging table

A task answers with the number of rows and the id of its transaction. Spark may run a task twice (a lost executor,
speculation); both copies may reach staging, but only one answer reaches the driver, which then drops the rows of the
other transaction by their xmin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surestart.errors import SurestartError, UsageError
from surestart.facts.postgres.connection import driver, name, open_connection
from surestart.facts.postgres.errors import as_values, error_in_four_parts, from_values
from surestart.facts.postgres.types import StagedColumn, staged
from surestart.facts.postgres.url import Secret
from surestart.failpoints import fail_point
from surestart.sinks.postgres.binary import HEADER, TRAILER, encode
from surestart.spark.every_line import collect_batches
from surestart.typed import in_the_code

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class StagingTable:
    """Where one attempt at one batch is collected; only that attempt writes there. `required` columns hold no null."""

    schema: str
    table: str
    columns: tuple[StagedColumn, ...]
    required: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        return name(self.schema, self.table)


@dataclass(frozen=True)
class LoadedRows:
    """What one task stored: rows, and the transaction that stored them ("" when there was nothing to store)."""

    rows: int
    transaction: str


def load_from_executors(batch_df: DataFrame, url: Secret, staging: StagingTable) -> tuple[LoadedRows, ...]:
    """Every row of the batch is in staging, loaded by the tasks that computed it."""
    rows = load_plan(batch_df, url, staging).collect()
    # Failures come back as values: raised in a task, they would be retried in vain and wrapped in a Spark stack trace.
    failures = [json.loads(row["failure"]) for row in rows if row["failure"]]
    if failures:
        raise from_values(failures[0])
    return tuple(LoadedRows(row["rows"], row["transaction"]) for row in rows)


def load_plan(batch_df: DataFrame, url: Secret, staging: StagingTable) -> DataFrame:
    """One row per task: what it stored, or why it could not. Collecting it loads the batch."""
    return staged(batch_df).mapInArrow(_CopyTask(url, staging), "rows long, transaction string, failure string")


def load_from_driver(batch_df: DataFrame, url: Secret, staging: StagingTable) -> tuple[LoadedRows, ...]:
    """The same, through the driver's memory: for compute whose executors may not open connections (serverless)."""
    return (copy_batches(collect_batches(staged(batch_df)), url, staging),)


def copy_batches(batches: Iterable[pa.RecordBatch], url: Secret, staging: StagingTable) -> LoadedRows:
    """All rows of the batches are in staging, or none. Connects only when there is a row to store."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return LoadedRows(0, "")
    psycopg = driver()
    failure: SurestartError
    try:
        with open_connection(url, f"surestart {staging.table}", autocommit=False) as connection:
            connection.execute("SET LOCAL synchronous_commit = off")
            found = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
            assert found is not None
            rows = _copy(connection, staging, first, filled)
            connection.commit()
            return LoadedRows(rows, str(found[0]))
    except psycopg.Error as error:
        failure = error_in_four_parts(error, url, f"loading rows into {staging.schema}.{staging.table}")
    raise failure


def _copy(connection: Any, staging: StagingTable, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> int:
    columns = ", ".join(name(column.name) for column in staging.columns)
    kinds = tuple(column.kind for column in staging.columns)
    rows = 0
    with connection.cursor().copy(f"COPY {staging.sql} ({columns}) FROM STDIN (FORMAT binary)") as copy:
        copy.write(HEADER)
        batch: pa.RecordBatch | None = first
        while batch is not None:
            _refuse_nulls(batch, staging)
            copy.write(encode(batch, kinds))
            rows += batch.num_rows
            fail_point("postgres.mid_copy")
            batch = next(others, None)
        copy.write(TRAILER)
    return rows


def _refuse_nulls(batch: pa.RecordBatch, staging: StagingTable) -> None:
    # A null key matches nothing and would be inserted again at every batch; a null position is neither newer nor older.
    for column, values in zip(staging.columns, batch.columns, strict=True):
        if column.name in staging.required and values.null_count:
            raise UsageError(
                f"{values.null_count} rows have no value in {column.name}, which is part of the sink's keys or order",
                meaning="Without key or position a row can be neither found again nor called newer. "
                "Nothing of the batch is in the target; the next start replays it.",
                next=in_the_code(
                    "send such rows to quarantine in the stage's transform, then run the same command again"
                ),
                code="PostgresNullKey",
            )


@dataclass(frozen=True)
class _CopyTask:
    url: Secret
    staging: StagingTable

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        failure = None
        loaded = LoadedRows(0, "")
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
