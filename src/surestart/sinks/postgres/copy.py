"""Loads Arrow batches into a staging table by COPY; runs on executors, one transaction per task.

    Arrow batch ──postgres_binary──> bytes ──COPY … FROM STDIN (FORMAT binary)──> staging table

A task answers with the number of rows and the id of its transaction. Spark may run a task twice (a lost executor,
speculation); both copies may reach staging, but only one answer reaches the driver, which then drops the rows of the
other transaction by their xmin.

Arrow batches in PostgreSQL's binary COPY format, whole columns at a time.

    header    PGCOPY \\n \\xff \\r \\n \\0   flags int32   extension int32
    row       number of fields int16, then per field: length int32 (-1: null), the value
    trailer   -1 int16

Everything is big-endian; times count microseconds and dates count days from 2000-01-01.
https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT

    row = block | text | block | …      block: neighbouring fields of fixed size, one numpy record per row, with the
                                        length of the text that follows; Arrow joins the pieces row by row

No Python object is made per value. Measured, 500,000 rows of seven columns: docs/decisions/0006."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surestart.errors import SurestartError, UsageError
from surestart.facts.postgres.connection import (
    as_values,
    driver,
    error_in_four_parts,
    from_values,
    name,
    open_connection,
)
from surestart.facts.postgres.types import StagedColumn, staged
from surestart.facts.postgres.url import Secret
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame
from surestart.spark.every_line import collect_batches
from surestart.typed import in_the_code

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


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


HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)

_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
_NULL = struct.pack(">i", -1)

# Staging type -> how numpy stores its value. Text and bytea have their own length per value.
_FIXED = {
    "boolean": "u1",
    "smallint": ">i2",
    "integer": ">i4",
    "bigint": ">i8",
    "real": ">f4",
    "double precision": ">f8",
    "date": ">i4",
    "timestamp with time zone": ">i8",
    "timestamp without time zone": ">i8",
}


@dataclass
class _Block:
    """Neighbouring values of fixed size: numpy's type and the values, or the one value of all rows."""

    rows: int
    parts: list[tuple[str, np.ndarray[Any, Any] | int]] = field(default_factory=list)

    def add(self, kind: str, values: np.ndarray[Any, Any] | int) -> None:
        self.parts.append((kind, values))

    def bytes(self) -> pa.Array:
        """One binary value per row."""
        import numpy as np
        import pyarrow as pa

        # Without padding: the fields of a record lie side by side, as in PostgreSQL's row.
        records = np.empty(self.rows, [(f"f{number}", kind) for number, (kind, _) in enumerate(self.parts)])
        for number, (_, values) in enumerate(self.parts):
            records[f"f{number}"] = values
        ends = np.arange(self.rows + 1, dtype=np.int64) * records.dtype.itemsize
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.view(np.uint8))]
        return pa.Array.from_buffers(pa.large_binary(), self.rows, buffers)


def encode(batch: pa.RecordBatch, kinds: tuple[str, ...]) -> memoryview:
    """The rows of the batch, without header and trailer. kinds: the staging column's type, for each column."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute
    block = _Block(batch.num_rows)
    block.add(">i2", len(kinds))
    pieces: list[pa.Array] = []
    for column, kind in zip(batch.columns, kinds, strict=True):
        if kind not in _FIXED:
            block.add(">i4", pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False))
            pieces += [block.bytes(), column.cast(pa.large_binary())]
            block = _Block(batch.num_rows)
        elif column.null_count:
            # Where it is null the row has no value at all, so it is as long as it likes, as text is.
            pieces += [block.bytes()] if block.parts else []
            block = _Block(batch.num_rows)
            _add_fixed(block, column, kind)
            pieces.append(pc.if_else(column.is_valid(), block.bytes(), pa.scalar(_NULL, pa.large_binary())))
            block = _Block(batch.num_rows)
        else:
            _add_fixed(block, column, kind)
    pieces += [block.bytes()] if block.parts else []
    # A null text has no bytes, whatever lies in its slot: Arrow does not promise that it is empty.
    nothing = pa.scalar(b"", pa.large_binary())
    rows = pc.binary_join_element_wise(*pieces, nothing, null_handling="replace", null_replacement="")
    _, ends, data = rows.buffers()
    return memoryview(data if data is not None else b"")[: _last(ends, batch.num_rows)]


def _add_fixed(block: _Block, column: pa.Array, kind: str) -> None:
    import numpy as np

    block.add(">i4", np.dtype(_FIXED[kind]).itemsize)
    block.add(_FIXED[kind], _numbers(column, kind))


def _numbers(column: pa.Array, kind: str) -> np.ndarray[Any, Any]:
    import numpy as np
    import pyarrow as pa

    offset = 0
    if kind.startswith("timestamp"):
        zone = column.type.tz
        column = column.cast(pa.timestamp("us", zone)).cast(pa.int64())
        offset = _MICROSECONDS_TO_2000
    elif kind == "date":
        column = column.cast(pa.int32())
        offset = _DAYS_TO_2000
    filled = column.fill_null(False if kind == "boolean" else 0) if column.null_count else column
    values = np.asarray(filled.to_numpy(zero_copy_only=False))
    return values - values.dtype.type(offset) if offset else values


def _last(ends: pa.Buffer, rows: int) -> int:
    import numpy as np

    return int(np.frombuffer(ends, np.int64)[rows])
