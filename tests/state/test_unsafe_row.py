"""Rows of any schema come back as they were written, and bytes of anything are a row, or torn."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.facts.checkpoint.log_file import Torn, UnknownForm
from surestart.facts.checkpoint.state_types import Array, Atom, Field, Map, Struct, Type, read_type, type_text
from surestart.facts.state.unsafe_row import RowDecoder
from tests.state import spark_row

ATOMS = {
    "boolean": st.booleans(),
    "byte": st.integers(-128, 127),
    "short": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=20),
    "binary": st.binary(max_size=20),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(datetime.UTC)),
}
SMALL, LARGE = Atom("decimal(9,2)", "decimal", 9, 2), Atom("decimal(38,6)", "decimal", 38, 6)
DECIMALS = {SMALL: st.decimals(-9_999_999, 9_999_999, places=2), LARGE: st.decimals(-(10**31), 10**31, places=6)}


def values_of(kind: Type) -> st.SearchStrategy[Any]:
    if isinstance(kind, Struct):
        return st.tuples(*(st.none() | values_of(field.type) for field in kind.fields))
    if isinstance(kind, Array):
        return st.lists(st.none() | values_of(kind.element), max_size=4)
    if isinstance(kind, Map):
        return st.lists(st.tuples(values_of(kind.key), st.none() | values_of(kind.value)), max_size=3)
    return DECIMALS[kind] if kind.kind == "decimal" else ATOMS[kind.kind]


def struct_of(types: list[Type]) -> Struct:
    return Struct(tuple(Field(f"c{place}", kind) for place, kind in enumerate(types)))


ATOM = st.sampled_from([*(Atom(kind, kind) for kind in ATOMS), SMALL, LARGE])
TYPES = st.recursive(
    ATOM,
    lambda inner: inner.map(Array) | st.builds(Map, ATOM, inner) | st.lists(inner, max_size=3).map(struct_of),
    max_leaves=5,
)
SCHEMAS = st.lists(TYPES, max_size=70).map(struct_of) | st.lists(TYPES, max_size=4).map(struct_of)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_row_of_any_schema_comes_back(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    values = data.draw(values_of(schema))

    assert same(RowDecoder(schema).decode(spark_row.row(values, schema)), values)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_bytes_of_anything_are_a_row_or_torn(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    whole = spark_row.row(data.draw(values_of(schema)), schema)
    places = st.integers(0, max(len(whole) * 8 - 1, 0))
    broken = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for bit in data.draw(st.lists(places, max_size=4)):
        if bit // 8 < len(broken):
            broken[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(Torn):
        RowDecoder(schema).decode(bytes(broken))


def test_a_decimal_keeps_its_places() -> None:
    schema = struct_of([SMALL, LARGE])
    values = (decimal.Decimal("1.50"), decimal.Decimal("-0.000001"))

    assert [str(value) for value in RowDecoder(schema).decode(spark_row.row(values, schema))] == ["1.50", "-0.000001"]


def test_a_row_that_names_one_piece_again_and_again_is_torn() -> None:
    """A kilobyte would else become gigabytes: each of its elements is all of it."""
    kind: Type = Atom("binary", "binary")
    for _ in range(3):
        kind = Array(kind)
    schema = struct_of([kind])
    count = 1_000
    size = 8 + (count + 63) // 64 * 8 + 8 * count
    pointing = size.to_bytes(4, "little") + bytes(4)
    own = count.to_bytes(8, "little") + bytes((count + 63) // 64 * 8) + pointing * count
    row = bytes(8) + size.to_bytes(4, "little") + (16).to_bytes(4, "little") + own

    with pytest.raises(Torn, match="longer together"):
        RowDecoder(schema).decode(row)


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_value_beyond_its_row_is_torn_and_not_cut(kind: str) -> None:
    schema = struct_of([Atom(kind, kind)])
    whole = spark_row.row(("abcdefgh" if kind == "string" else b"abcdefgh",), schema)
    longer = whole[:8] + (9).to_bytes(4, "little") + whole[12:]

    with pytest.raises(Torn, match="9 bytes lies at byte 16 of 24"):
        RowDecoder(schema).decode(longer)


def test_times_beyond_the_calendar_stay_numbers() -> None:
    schema = struct_of([Atom("timestamp", "timestamp"), Atom("date", "date")])
    row = bytes(8) + (2**62).to_bytes(8, "little") + (2**31 - 1).to_bytes(8, "little")

    assert RowDecoder(schema).decode(row) == (f"{2**62} µs", f"{2**31 - 1} days")


def test_a_type_of_a_newer_spark_is_named_and_not_guessed() -> None:
    schema = struct_of([read_type("geography")])
    assert type_text(schema.fields[0].type) == "geography"

    with pytest.raises(UnknownForm, match="geography"):
        RowDecoder(schema)
