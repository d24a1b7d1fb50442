"""`--key TEXT` and `--key COLUMN=TEXT`: which rows are meant, by the columns and types of the keys that are there.

A column is named by its path: `window.start` is a part of the struct `window`. TEXT is read by the column's type: 7 and
07 are one number, 00:05Z and 01:05+01:00 one moment. `null` is NULL. Lists and structs are JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from surestart.facts.checkpoint.log_file import NotInState
from surestart.facts.checkpoint.state_types import Atom, Struct, Type, type_text
from surestart.facts.state.read_rows import RowTest, StateRow
from surestart.report.text.state import json_value

NULL = "null"
# How a text of the type is read.
_SHOWN = {
    "timestamp": "2026-01-31T03:00:00Z",
    "timestamp_ntz": "2026-01-31T03:00:00",
    "date": "2026-01-31",
    "boolean": "true",
    "binary": "0a1b (hexadecimal)",
    "decimal": "1.50",
    "float": "1.5",
    "double": "1.5",
}


class NotOfColumn(Exception):
    """The text is no value of the type of the column."""


@dataclass(frozen=True)
class KeyColumn:
    """path: of places, from the key down."""

    name: str
    type: Type
    path: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{self.name} {type_text(self.type)}"

    def value(self, key: tuple[Any, ...]) -> Any:
        found: Any = key
        for place in self.path:
            found = None if found is None else found[place]
        return found


def key_columns(kind: Struct, before: str = "", path: tuple[int, ...] = ()) -> Iterator[KeyColumn]:
    """Each column and each part of a struct, by the names under which rows are shown."""
    names: set[str] = set()
    for place, field in enumerate(kind.fields):
        name = before + (field.name if field.name not in names else f"{field.name} ({place})")
        names.add(field.name)
        yield KeyColumn(name, field.type, (*path, place))
        if isinstance(field.type, Struct):
            yield from key_columns(field.type, f"{name}.", (*path, place))


def wanted_rows(asked: Sequence[str], keys: Sequence[Struct]) -> list[RowTest | None]:
    """Of each key's schema, what tells its rows; None: the rows of this one cannot be meant, others can.

    NotInState where no key has the column; NotOfColumn where no value of it can be that text."""
    columns = [list(key_columns(kind)) for kind in keys]
    parted = [_parted(text, columns) for text in asked]
    found = [[_tests(name, text, of_one) for name, text in parted] for of_one in columns]
    for place, (name, text) in enumerate(parted):
        if not any(tests[place] for tests in found):
            raise NotOfColumn(_no_value(name, text, columns))
    return [partial(_meets, tests) if all(tests) else None for tests in found]


_Test = tuple[KeyColumn, Any]


def _meets(tests: Sequence[Sequence[_Test]], row: StateRow) -> bool:
    return all(any(_same(column, row.key, value) for column, value in several) for several in tests)


def _same(column: KeyColumn, key: tuple[Any, ...], value: Any) -> bool:
    own = column.value(key)
    # A text column may hold the word itself; and no number that is none equals another.
    return own == value or (own is None and value == NULL) or repr(own) == repr(value)


def _parted(text: str, columns: Sequence[Sequence[KeyColumn]]) -> tuple[str | None, str]:
    """A column's name may hold "=" itself: the longest that fits is meant."""
    names = list(dict.fromkeys(column.name for of_one in columns for column in of_one))
    meant = max((name for name in names if text.startswith(f"{name}=")), key=len, default=None)
    if meant is not None:
        return meant, text[len(meant) + 1 :]
    if "=" in text:
        said = dict.fromkeys(column.text for of_one in columns for column in of_one)
        raise NotInState(f"key column {text.partition('=')[0]}", tuple(said) or ("none",))
    return None, text


def _tests(name: str | None, text: str, columns: Sequence[KeyColumn]) -> list[_Test]:
    """Columns of which the text is a value, with that value. A text without a column's name is no struct as a whole."""
    found = []
    for column in columns:
        if name != column.name and (name is not None or isinstance(column.type, Struct)):
            continue
        try:
            found.append((column, _value(text, column.type)))
        except (ValueError, OverflowError, InvalidOperation, RecursionError):
            continue
    return found


def _value(text: str, kind: Type) -> Any:
    if isinstance(kind, Atom) and kind.kind == "string":
        return text
    if text.strip().lower() == NULL:
        return None
    if not isinstance(kind, Atom):
        return _Shown(kind, json.loads(text))
    return _READ.get(kind.kind, str)(text.strip())


@dataclass(frozen=True, eq=False)
class _Shown:
    """A list or a struct as it is shown."""

    kind: Type
    shown: Any

    def __eq__(self, other: object) -> bool:
        return bool(json_value(other, self.kind) == self.shown)

    __hash__ = None  # type: ignore[assignment]


def _float(text: str) -> float:
    """As four bytes hold it."""
    return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found


def _local(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError(text)
    return found


_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("byte", "short", "int", "long"), int),
    "float": _float,
    "double": float,
    "boolean": _boolean,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": _moment,
    "timestamp_ntz": _local,
    "binary": bytes.fromhex,
}


def _no_value(name: str | None, text: str, columns: Sequence[Sequence[KeyColumn]]) -> str:
    of = {column.text: column for several in columns for column in several if name in (None, column.name)}
    given = ", ".join(of) or "no column"
    kinds = {column.type.kind if isinstance(column.type, Atom) else "" for column in of.values()}
    shown = next((f"; such as {_SHOWN[kind]}" for kind in kinds if kind in _SHOWN), "") if len(kinds) == 1 else ""
    return f"{text!r} is no value of {given}{shown}"
