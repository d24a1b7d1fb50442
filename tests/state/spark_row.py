"""Writes Spark's rows and state files as the documents of UnsafeRow and LZ4BlockOutputStream describe them, by itself:
what reads them is held against it."""

from __future__ import annotations

import datetime
import decimal
import struct
from typing import Any

from surestart.facts.checkpoint.state_types import Array, Atom, Map, Struct, Type

FIXED = {
    "boolean": ("B", 1), "byte": ("b", 1), "short": ("h", 2), "int": ("i", 4), "long": ("q", 8), "float": ("f", 4),
    "double": ("d", 8), "date": ("i", 4), "timestamp": ("q", 8),
}  # fmt: skip


def _number(value: Any, kind: Atom) -> Any:
    if kind.kind == "date":
        return (value - datetime.date(1970, 1, 1)).days
    if kind.kind == "timestamp":
        return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    return value


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _bits(values: list[Any]) -> bytes:
    size = (len(values) + 63) // 64 * 8
    return sum(1 << place for place, value in enumerate(values) if value is None).to_bytes(size, "little")


def _outside(value: Any, kind: Type) -> bytes:
    """The bytes of a value that does not fit into eight."""
    if isinstance(kind, Struct):
        return row(value, kind)
    if isinstance(kind, Array):
        return array(value, kind.element)
    if isinstance(kind, Map):
        keys = array([key for key, _ in value], kind.key)
        return struct.pack("<q", len(keys)) + keys + array([item for _, item in value], kind.value)
    if kind.kind == "decimal":
        number = int(value.scaleb(kind.scale, decimal.Context(prec=60)))
        return number.to_bytes(max(1, (number.bit_length() + 8) // 8), "big", signed=True)
    return value.encode() if kind.kind == "string" else bytes(value)


def _slots(values: list[Any], kinds: list[Type], head: int, widths: list[int]) -> bytes:
    body, behind = b"", b""
    begin = head + len(b"".join(bytes(width) for width in widths))
    begin += -begin % 8
    for value, kind, width in zip(values, kinds, widths, strict=True):
        if value is None:
            body += bytes(width)
        elif isinstance(kind, Atom) and kind.kind in FIXED:
            body += struct.pack(f"<{FIXED[kind.kind][0]}", _number(value, kind)).ljust(width, b"\0")
        elif isinstance(kind, Atom) and kind.kind == "decimal" and kind.precision <= 18:
            body += struct.pack("<q", int(value.scaleb(kind.scale)))
        else:
            data = _outside(value, kind)
            body += struct.pack("<II", len(data), begin + len(behind))
            behind += _padded(data)
    return _padded(body) + behind


def row(values: tuple[Any, ...], kind: Struct) -> bytes:
    bits = _bits(list(values))
    types = [field.type for field in kind.fields]
    return bits + _slots(list(values), types, len(bits), [8] * len(types))


def array(values: list[Any], kind: Type) -> bytes:
    bits = struct.pack("<q", len(values)) + _bits(values)
    width = FIXED[kind.kind][1] if isinstance(kind, Atom) and kind.kind in FIXED else 8
    return bits + _slots(values, [kind] * len(values), len(bits), [width] * len(values))


def lz4_blocks(data: bytes, block: int = 32 << 10, packed: bool = True) -> bytes:
    """As Java's LZ4BlockOutputStream: stored where LZ4 would not make it smaller."""
    import pyarrow

    from surestart.facts.checkpoint.lz4_blocks import xxh32_plain

    out = b""
    for at in range(0, len(data), block):
        piece = data[at : at + block]
        small = pyarrow.Codec("lz4_raw").compress(piece, asbytes=True) if packed else piece
        method, small = (0x25, small) if len(small) < len(piece) else (0x15, piece)
        checksum = xxh32_plain(piece, 0x9747B28C) & 0x0FFFFFFF
        out += b"LZ4Block" + struct.pack("<BIII", method, len(small), len(piece), checksum) + small
    return out + b"LZ4Block" + struct.pack("<BIII", 0x15, 0, 0, 0)


def records(pairs: list[tuple[bytes, bytes | None]]) -> bytes:
    out = b""
    for key, value in pairs:
        out += struct.pack(">i", len(key)) + key
        out += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return out + struct.pack(">i", -1)
