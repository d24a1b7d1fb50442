"""A value of a state row as JSON and as text: one rule for both."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from surestart.facts.checkpoint.state_types import Array, Map, Struct, Type
from surestart.facts.state.read_rows import StateRow
from surestart.words.inert import inert

LINE_LIMIT = 2_000


def json_value(value: Any, kind: Type) -> Any:
    """A struct as an object, a map as a list of its entries, binary in hexadecimal, a decimal as text."""
    if value is None:
        return None
    if isinstance(kind, Struct):
        return json_struct(value, kind)
    if isinstance(kind, Array):
        return [json_value(item, kind.element) for item in value]
    if isinstance(kind, Map):
        return [{"key": json_value(key, kind.key), "value": json_value(item, kind.value)} for key, item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def json_struct(values: tuple[Any, ...], kind: Struct) -> dict[str, Any]:
    """A struct as an object, by the names of its columns. If two columns have one name, the later one has its place
    added."""
    found: dict[str, Any] = {}
    for place, (field, value) in enumerate(zip(kind.fields, values, strict=True)):
        found[field.name if field.name not in found else f"{field.name} ({place})"] = json_value(value, field.type)
    return found


def text_of(values: tuple[Any, ...], kind: Struct) -> str:
    """The value on one line, cut before it floods a terminal."""
    return inert(json.dumps(json_struct(values, kind), ensure_ascii=False), LINE_LIMIT)


def has_key(kind: Struct, asked: Sequence[str], row: StateRow) -> bool:
    """Whether each text that is asked for is a value in the row's key: of any column, or of COLUMN=TEXT."""
    found = list(_leaves(json_struct(row.key, kind), ""))
    names = {name for name, _ in found}

    def meets(text: str) -> bool:
        name, equals, value = text.partition("=")
        if equals and name in names:
            return (name, value) in found
        return any(text == own for _, own in found)

    return all(map(meets, asked))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else key)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
