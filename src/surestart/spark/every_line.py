"""What each line of Spark spells in its own way, under one name; and which side of a join Spark takes for small.

Values inside SQL text. Named parameters would do the same, but Delta's parser drops them on Spark 4.1 and 4.2 (Delta
4.4.0: UNBOUND_SQL_PARAMETER, seen)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from surestart.library_types import Column, DataFrame

if TYPE_CHECKING:
    import pyarrow as pa


def is_valid_utf8(text: Column) -> Column:
    """Whether the bytes of a string column are UTF-8."""
    from pyspark.sql import functions as F

    if hasattr(F, "is_valid_utf8"):
        return F.is_valid_utf8(text)
    # Java puts U+FFFD in the place of what it cannot decode, so such bytes do not come back as they were. A split that
    # finds nothing goes through Java on every line. decode() ends the query over them from 4.0 on, and a client of 3.5
    # may have such a server.
    return F.split(text, "(?!)")[0].cast("binary") == text.cast("binary")


def try_timestamp(text: Column) -> Column:
    """The time that the text names, or null."""
    from pyspark.sql import functions as F

    # Asked of the class: a column takes any name that it does not know for one of a field.
    return text.try_cast("timestamp") if hasattr(type(text), "try_cast") else F.try_to_timestamp(text)


def collect_batches(rows: DataFrame) -> Iterable[pa.RecordBatch]:
    """Every row once, in batches."""
    if hasattr(rows, "toArrow"):
        return rows.toArrow().to_batches()  # type: ignore[no-any-return]
    # Spark 3.5 gives no Arrow to the driver; its tasks can write it, and bytes are collected as ever.
    packed = rows.mapInArrow(_pack, "batches binary").collect()
    return (batch for row in packed for batch in _unpack(row["batches"]))


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        held = pa.BufferOutputStream()
        with pa.ipc.new_stream(held, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"batches": pa.array([held.getvalue().to_pybytes()], pa.binary())})


def _unpack(packed: bytes) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.ipc.open_stream(packed) as stream:
        yield from stream


def large_side(rows: DataFrame) -> DataFrame:
    """The same rows; a join that they are the right side of sorts and merges.

    Spark sends the smaller side of a join to every task when it expects less than 10 MB of it. It goes by the size of
    the files, and positions are a small part of those and compress well: those of ten million rows passed for small,
    and an undo ended after 300 s with `Could not execute broadcast`."""
    return rows.hint("merge")


def sql_value(value: object, kind: str) -> str:
    """The value as an expression of that type. A text goes by its bytes, so nothing in it can end the literal."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, str):
        return f"CAST(CAST(X'{value.encode().hex()}' AS STRING) AS {kind})"
    if isinstance(value, int):
        return f"CAST({int(value)} AS {kind})"
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as a literal")


def select_values(rows: list[dict[str, object]], kinds: dict[str, str]) -> str:
    """A query that gives these rows, with these columns and types."""
    columns = [", ".join(f"{sql_value(row[name], kind)} AS `{name}`" for name, kind in kinds.items()) for row in rows]
    return " UNION ALL ".join(f"SELECT {text}" for text in columns)
