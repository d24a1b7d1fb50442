"""How Spark puts a row into RocksDB: a byte for the form (0), then the row; keys that are scanned in pieces.

plain           0 │ row
with a prefix   bytes of the first piece (4) │ 0 │ row of the first columns │ 0 │ row of the others
in order        bytes of the first piece (4) │ 0 │ row of the columns that sort │ 0 │ row of the others
                each that sorts: a mark (negative 0, null 2), and the number in big endian
with a time     8 bytes of the time, its sign turned │ 0 │ row          or behind the row
a list          bytes of the value (4) │ 0 │ row, again and again, with what the merge puts between them
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from surestart.facts.checkpoint.log_file import Torn, UnknownForm
from surestart.facts.checkpoint.state_operator import NO_PREFIX, PREFIX, RANGE, TIME_FIRST, TIME_LAST, StoreSchema
from surestart.facts.checkpoint.state_types import Atom, Field, Struct
from surestart.facts.state.unsafe_row import RowDecoder

_FORM = 0
_NEGATIVE, _NULL = 0, 2
_SORTED = {"byte": "b", "short": "h", "int": "i", "long": "q", "float": "f", "double": "d"}
_TURNED = {"float": ("i", "f"), "double": ("q", "d")}
_BINARY = Atom("binary", "binary")

Key = Callable[[bytes], tuple[Any, ...]]


def key_decoder(schema: StoreSchema, prefix: int) -> Key:
    """prefix: how many columns stand in front, as the operator says it, where the schema does not."""
    kind, ahead = schema.layout.kind, schema.layout.prefix
    if not kind:
        kind, ahead = (PREFIX, prefix) if prefix else ("", len(schema.key.fields) - 1)
    fields = schema.key.fields
    if kind in (TIME_FIRST, TIME_LAST):
        return _timed(fields, kind == TIME_FIRST)
    if kind == RANGE:
        return _ordered(fields, schema.layout.ordered)
    if kind not in (NO_PREFIX, PREFIX, ""):
        raise UnknownForm(f"its keys are laid out as {kind[:40]}")
    whole = RowDecoder(schema.key)
    first, second = RowDecoder(Struct(fields[:ahead])), RowDecoder(Struct(fields[ahead:]))

    def decode(key: bytes) -> tuple[Any, ...]:
        # A row has a multiple of 8 bytes: the number of bytes tells one piece from two, where nothing else does.
        if kind == NO_PREFIX or (not kind and len(key) % 8 == 1):
            return whole.decode(_row(key))
        one, two = _pieces(key)
        return first.decode(_row(one)) + second.decode(_row(two))

    return decode


def value_decoder(schema: StoreSchema, between: int) -> Callable[[bytes], Iterator[tuple[Any, ...]]]:
    """Each value of the key: a list has several. between: how many bytes stand between two of them."""
    decoder = RowDecoder(schema.value)

    def decode(value: bytes) -> Iterator[tuple[Any, ...]]:
        if value[:1] == bytes([_FORM]):
            yield decoder.decode(_row(value))
            return
        at = 0
        while at < len(value):
            size = int.from_bytes(value[at : at + 4], "little")
            if at + 4 + size > len(value):
                raise Torn(f"a value of {size} bytes lies at byte {at} of {len(value)}")
            yield decoder.decode(_row(value[at + 4 : at + 4 + size]))
            at += 4 + size + between

    return decode


def without_checksums(value: bytes, between: bytes) -> bytes:
    """The value without a checksum and a length in front of each piece (Spark 4.1 and newer, where that is set)."""
    pieces, at = [], 0
    while at < len(value):
        size = int.from_bytes(value[at + 4 : at + 8], "little")
        if at + 8 + size > len(value):
            raise Torn(f"a value of {size} bytes lies at byte {at} of {len(value)}")
        pieces.append(value[at + 8 : at + 8 + size])
        at += 8 + size + len(between)
    return between.join(pieces)


def _row(data: bytes) -> bytes:
    if data[:1] != bytes([_FORM]):
        raise UnknownForm(f"a row is of the form {data[:1].hex() or 'of no byte'}")
    return data[1:]


def _pieces(key: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(key[:4], "little")
    if len(key) < 4 or size > len(key) - 4:
        raise Torn(f"the first piece of a key has {size} of its {len(key)} bytes")
    return key[4 : 4 + size], key[4 + size :]


def _ordered(fields: tuple[Field, ...], ordered: tuple[int, ...]) -> Key:
    others = [place for place in range(len(fields)) if place not in ordered]
    if any(not 0 <= place < len(fields) for place in ordered):
        raise Torn("the key sorts by a column that it does not have")
    sorting = RowDecoder(Struct(tuple(Field(fields[place].name, _BINARY) for place in ordered)))
    remaining = RowDecoder(Struct(tuple(fields[place] for place in others)))

    def decode(key: bytes) -> tuple[Any, ...]:
        one, two = _pieces(key)
        found: dict[int, Any] = {}
        for place, data in zip(ordered, sorting.decode(_row(one)), strict=True):
            found[place] = _sorted_value(data, fields[place])
        if others:
            found |= zip(others, remaining.decode(_row(two)), strict=True)
        return tuple(found[place] for place in range(len(fields)))

    return decode


def _sorted_value(data: Any, field: Field) -> Any:
    kind = field.type.kind if isinstance(field.type, Atom) else ""
    if kind not in _SORTED:
        raise UnknownForm(f"its keys sort by {field.name}, whose order is not known here")
    if not isinstance(data, bytes) or not data:
        raise Torn(f"a key has no {field.name}")
    if data[0] == _NULL:
        return None
    try:
        if data[0] == _NEGATIVE and kind in _TURNED:
            whole, real = _TURNED[kind]
            (turned,) = struct.unpack(f">{whole}", data[1:])
            return struct.unpack(f">{real}", struct.pack(f">{whole}", ~turned))[0]
        return struct.unpack(f">{_SORTED[kind]}", data[1:])[0]
    except struct.error as error:
        raise Torn(f"{field.name} of a key has {len(data)} bytes") from error


def _timed(fields: tuple[Field, ...], first: bool) -> Key:
    rest = RowDecoder(Struct(fields[:-1]))

    def decode(key: bytes) -> tuple[Any, ...]:
        if len(key) < 9:
            raise Torn(f"a key with a time has {len(key)} bytes")
        time, row = (key[:8], key[8:]) if first else (key[-8:], key[:-8])
        return (*rest.decode(_row(row)), int.from_bytes(time, "big") - (1 << 63))

    return decode
