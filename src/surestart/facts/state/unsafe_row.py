"""Spark's row in memory and in state files, read by its schema (UnsafeRow, UnsafeArrayData, UnsafeMapData).

    row      one bit for each null, in words of 8 bytes │ 8 bytes for each field │ what does not fit into 8 bytes
    array    number of elements (8) │ bits for nulls │ the elements, of 1, 2, 4 or 8 bytes │ what does not fit
    map      bytes of the keys' array (8) │ array of the keys │ array of the values

What does not fit has its distance from the begin of its row or array, and its length, in its 8 bytes. All of it little
endian, but a large decimal. Every distance and length is held against the bytes that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from surestart.facts.checkpoint.log_file import Torn, UnknownForm
from surestart.facts.checkpoint.state_types import UNKNOWN, Array, Atom, Map, Struct, Type

LONG_DIGITS = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE = datetime(1970, 1, 1)
_DAY = date(1970, 1, 1).toordinal()
_EXACT = Context(prec=60)
_LONG = struct.Struct("<q")
_PAIR = struct.Struct("<II")


class Entries(list[tuple[Any, Any]]):
    """A map: its keys and values in the order in which they are stored. A key may be a list, which no dict takes."""


class _Bytes:
    """One row's bytes, and how many may be looked at below it: pieces that are named twice do not add up for ever."""

    __slots__ = ("data", "left")

    def __init__(self, data: bytes, depth: int) -> None:
        self.data = data
        self.left = (len(data) + 64) * depth


# Of the bytes, where the 8 bytes (or fewer) of the value are, and the begin and length of what they count from.
_Reader = Callable[[_Bytes, int, int, int], Any]


class RowDecoder:
    """Rows of one schema."""

    def __init__(self, schema: Struct) -> None:
        self._read = _struct(schema.fields)
        self._depth = 2 + _depth(schema)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The values of the row's fields; Torn when its bytes are not of this schema."""
        try:
            values: tuple[Any, ...] = self._read(_Bytes(data, self._depth), 0, len(data))
        except struct.error as error:
            raise Torn(f"a row of {len(data)} bytes ends within a value") from error
        return values


def _depth(kind: Type) -> int:
    below: Sequence[Type] = ()
    if isinstance(kind, Struct):
        below = [field.type for field in kind.fields]
    elif isinstance(kind, Array):
        below = [kind.element]
    elif isinstance(kind, Map):
        below = [kind.key, kind.value]
    return 1 + max(map(_depth, below), default=0)


def _words(count: int) -> int:
    return (count + 63) // 64 * 8


def _nulls(row: _Bytes, at: int, count: int, end: int) -> int:
    size = _words(count)
    if at + size > end:
        raise Torn(f"a row has no room for {count} values")
    return int.from_bytes(row.data[at : at + size], "little")


def _struct(fields: Sequence[Any]) -> Callable[[_Bytes, int, int], tuple[Any, ...]]:
    readers = [_reader(field.type) for field in fields]
    head = _words(len(readers))
    least = head + 8 * len(readers)

    def read(row: _Bytes, base: int, size: int) -> tuple[Any, ...]:
        if size < least:
            raise Torn(f"a row of {size} bytes has no room for {len(readers)} fields")
        nulls = _nulls(row, base, len(readers), base + size)
        at = base + head
        values = []
        for index, reader in enumerate(readers):
            values.append(None if nulls >> index & 1 else reader(row, at + 8 * index, base, size))
        return tuple(values)

    return read


def _piece(row: _Bytes, at: int, base: int, size: int) -> tuple[int, int]:
    """Where the value lies whose distance and length are at `at`, and its length."""
    length, distance = _PAIR.unpack_from(row.data, at)
    if distance + length > size:
        raise Torn(f"a value of {length} bytes lies at byte {distance} of {size}")
    row.left -= length + 8
    if row.left < 0:
        raise Torn("the values of a row are longer together than the row")
    return base + distance, length


def _reader(kind: Type) -> _Reader:
    if isinstance(kind, Atom):
        return _FIXED[kind.kind][1] if kind.kind in _FIXED else _variable(kind)
    if isinstance(kind, Struct):
        inner = _struct(kind.fields)
        return lambda row, at, base, size: inner(row, *_piece(row, at, base, size))
    if isinstance(kind, Map):
        pairs = _map(kind)
        return lambda row, at, base, size: pairs(row, *_piece(row, at, base, size))
    elements = _array(kind.element)
    return lambda row, at, base, size: elements(row, *_piece(row, at, base, size))


def _variable(kind: Atom) -> _Reader:
    if kind.kind == "decimal":
        return _decimal(kind)
    if kind.kind == "interval":
        return _interval
    if kind.kind == UNKNOWN:
        raise UnknownForm(f"a column is of the type {kind.name}")

    def read(row: _Bytes, at: int, base: int, size: int) -> Any:
        begin, length = _piece(row, at, base, size)
        found = row.data[begin : begin + length]
        return found.decode("utf-8", "replace") if kind.kind == "string" else found

    return read


def _decimal(kind: Atom) -> _Reader:
    scale = -kind.scale

    def short(row: _Bytes, at: int, base: int, size: int) -> Decimal:
        return Decimal(_LONG.unpack_from(row.data, at)[0]).scaleb(scale, _EXACT)

    def long(row: _Bytes, at: int, base: int, size: int) -> Decimal:
        begin, length = _piece(row, at, base, size)
        if length > 16:
            raise Torn(f"a decimal has {length} bytes")
        return Decimal(int.from_bytes(row.data[begin : begin + length], "big", signed=True)).scaleb(scale, _EXACT)

    return short if kind.precision <= LONG_DIGITS else long


def _interval(row: _Bytes, at: int, base: int, size: int) -> str:
    begin, length = _piece(row, at, base, size)
    if length != 16:
        raise Torn(f"an interval has {length} bytes")
    months, days, micros = struct.unpack_from("<iiq", row.data, begin)
    return f"{months} months {days} days {micros} microseconds"


def _array(element: Type) -> Callable[[_Bytes, int, int], list[Any]]:
    reader = _reader(element)
    width = _FIXED[element.kind][0] if isinstance(element, Atom) and element.kind in _FIXED else 8

    def read(row: _Bytes, base: int, size: int) -> list[Any]:
        if size < 8:
            raise Torn(f"an array has {size} bytes")
        (count,) = _LONG.unpack_from(row.data, base)
        head = 8 + _words(max(count, 0))
        if count < 0 or head + count * width > size:
            raise Torn(f"an array of {size} bytes has no room for {count} elements")
        nulls = _nulls(row, base + 8, count, base + size)
        at = base + head
        return [None if nulls >> index & 1 else reader(row, at + width * index, base, size) for index in range(count)]

    return read


def _map(kind: Map) -> Callable[[_Bytes, int, int], Entries]:
    keys, values = _array(kind.key), _array(kind.value)

    def read(row: _Bytes, base: int, size: int) -> Entries:
        if size < 8:
            raise Torn(f"a map has {size} bytes")
        (length,) = _LONG.unpack_from(row.data, base)
        if not 0 <= length <= size - 8:
            raise Torn(f"the keys of a map have {length} of its {size} bytes")
        found = keys(row, base + 8, length), values(row, base + 8 + length, size - 8 - length)
        if len(found[0]) != len(found[1]):
            raise Torn(f"a map has {len(found[0])} keys and {len(found[1])} values")
        return Entries(zip(*found, strict=True))

    return read


def _of(code: str, made: Callable[[Any], Any] = lambda value: value) -> tuple[int, _Reader]:
    form = struct.Struct(f"<{code}")
    return form.size, lambda row, at, base, size: made(form.unpack_from(row.data, at)[0])


def timestamp(micros: int) -> datetime | str:
    """Beyond Python's calendar: the number itself."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} µs"


def _local(micros: int) -> datetime | str:
    try:
        return _NAIVE + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} µs"


def day(number: int) -> date | str:
    try:
        return date.fromordinal(_DAY + number)
    except (OverflowError, ValueError):
        return f"{number} days"


_FIXED: dict[str, tuple[int, _Reader]] = {
    "void": (8, lambda row, at, base, size: None),
    "boolean": _of("B", bool),
    "byte": _of("b"),
    "short": _of("h"),
    "int": _of("i"),
    "long": _of("q"),
    "float": _of("f"),
    "double": _of("d"),
    "date": _of("i", day),
    "timestamp": _of("q", timestamp),
    "timestamp_ntz": _of("q", _local),
    "months": _of("i", lambda value: f"{value} months"),
    "microseconds": _of("q", lambda value: f"{value} µs"),
    "time": _of("q", lambda value: f"{value} ns of the day"),
}
