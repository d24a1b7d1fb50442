"""The rows of a data frame as Arrow batches in the driver, on every line of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


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
