"""Arrow batches in PostgreSQL's binary COPY format, whole columns at a time.

    header    PGCOPY \\n \\xff \\r \\n \\0   flags int32   extension int32
    row       number of fields int16, then per field: length int32 (-1: null), the value
    trailer   -1 int16

Everything is big-endian; times count microseconds and dates count days from 2000-01-01.
https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT

    row = block | text | block | …      block: neighbouring fields of fixed size, one numpy record per row, with the
                                        length of the text that follows; Arrow joins the pieces row by row

No Python object is made per value. Measured, 500,000 rows of seven columns: docs/decisions/0006.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

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
