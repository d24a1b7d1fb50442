"""Whether rows of one schema of a table can be read by another of its schemas, as a stream reads them.

a column more, also inside a struct      yes: the stream is planned anew with it
a column less, renamed                   no
another type                             no, but for one that the table widened itself

Columns whose values the table makes itself, by the schema in its log; Delta gives them to no reader of its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Whatever the columns are afterwards: those of the same name may be others.
TAKES_COLUMNS = ("DROP COLUMNS", "RENAME COLUMN", "REPLACE COLUMNS")
# Delta's type widening: the files keep the narrow type, and a reader of the wide one reads them.
_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_DECIMAL = re.compile(r"decimal\((\d{1,3}),(\d{1,3})\)")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def changed_columns(before: str, after: str) -> tuple[str, ...]:
    """Columns of `before` that `after` has not, or has with another type. New columns are not among them."""
    return tuple(_changed(_parse(before), _parse(after), ""))


def _parse(schema_text: str) -> Any:
    try:
        return json.loads(schema_text)
    except (ValueError, RecursionError):
        return None


def _changed(old: Any, new: Any, name: str) -> list[str]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new or _is_wider(old, new) else [name]
    if old.get("type") != new.get("type"):
        return [name]
    match old.get("type"):
        case "struct":
            there = {_name(field): field for field in _fields(new)}
            found = []
            for field in _fields(old):
                path = f"{name}.{_name(field)}" if name else _name(field)
                other = there.get(_name(field))
                found += [path] if other is None else _changed_field(field, other, path)
            return found
        case "array":
            return _changed(old.get("elementType"), new.get("elementType"), name)
        case "map":
            keys = _changed(old.get("keyType"), new.get("keyType"), name)
            return keys or _changed(old.get("valueType"), new.get("valueType"), name)
    return [] if old == new else [name]


def _is_wider(old: Any, new: Any) -> bool:
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before and after:
        more = [int(after[part]) - int(before[part]) for part in (1, 2)]
        return more[0] >= more[1] >= 0
    digits = _DIGITS.get(old)
    if after and digits:
        return int(after[1]) - int(after[2]) >= digits
    return new in _WIDER.get(old, ())


def _changed_field(old: dict[str, Any], new: dict[str, Any], path: str) -> list[str]:
    # With column mapping a name that was dropped and given again is another column.
    physical = "delta.columnMapping.physicalName"
    one, other = (_metadata(field).get(physical) for field in (old, new))
    if one is not None and other is not None and one != other:
        return [path]
    return _changed(old.get("type"), new.get("type"), path)


def _fields(struct: dict[str, Any]) -> list[dict[str, Any]]:
    fields = struct.get("fields")
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _name(field: dict[str, Any]) -> str:
    return str(field.get("name", ""))


def _metadata(field: dict[str, Any]) -> dict[str, Any]:
    found = field.get("metadata")
    return found if isinstance(found, dict) else {}


_EXPRESSION = "delta.generationExpression"
_MAY_BE_GIVEN = "delta.identity.allowExplicitInsert"


def generated_columns(schema_text: str) -> tuple[str, ...]:
    """GENERATED ALWAYS AS (expression): a write that leaves them out has them computed."""
    return tuple(name for name, metadata in _columns(schema_text) if _EXPRESSION in metadata)


def identity_columns(schema_text: str) -> tuple[str, ...]:
    """GENERATED ALWAYS AS IDENTITY: no write may name them, so no row can be written again with its number."""
    return tuple(name for name, metadata in _columns(schema_text) if metadata.get(_MAY_BE_GIVEN) is False)


def may_number_rows(detail: Mapping[str, Any]) -> bool:
    """By DESCRIBE DETAIL: whether some column is GENERATED AS IDENTITY, ALWAYS or by default, or once was."""
    return "identityColumns" in (detail.get("tableFeatures") or ())


def _columns(schema_text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for column in json.loads(schema_text).get("fields", []):
        yield str(column["name"]), dict(column.get("metadata") or {})
