"""Spark's column types, from the JSON in which a schema is stored.

"long"  "decimal(10,2)"                                               an atom
{"type":"struct","fields":[{"name":"a","type":…,"nullable":true},…]}  a struct
{"type":"array","elementType":…}   {"type":"map","keyType":…,"valueType":…}   {"type":"udt","sqlType":…}
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from surestart.facts.checkpoint.log_file import Torn

# Deeper than any schema that people write; Python's own limit is a thousand calls.
DEPTH = 60
# A kind of storage that is not known here.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Atom:
    """name as Spark prints it, such as "bigint".

    kind: how it is stored.
    precision and scale: of a decimal."""

    name: str
    kind: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Array:
    element: Type


@dataclass(frozen=True)
class Map:
    key: Type
    value: Type


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class Struct:
    fields: tuple[Field, ...]


Type = Atom | Array | Map | Struct

# JSON name -> (what Spark SQL calls it, how it is stored)
_ATOMS = {
    "null": ("void", "void"),
    "void": ("void", "void"),
    "boolean": ("boolean", "boolean"),
    "byte": ("tinyint", "byte"),
    "short": ("smallint", "short"),
    "integer": ("int", "int"),
    "long": ("bigint", "long"),
    "float": ("float", "float"),
    "double": ("double", "double"),
    "string": ("string", "string"),
    "binary": ("binary", "binary"),
    "date": ("date", "date"),
    "timestamp": ("timestamp", "timestamp"),
    "timestamp_ntz": ("timestamp_ntz", "timestamp_ntz"),
    "interval": ("interval", "interval"),
    "calendarinterval": ("interval", "interval"),
}


def read_type(value: Any, depth: int = 0) -> Type:
    """The type that the JSON value names. A name that is not known here is that of a newer Spark."""
    if depth > DEPTH:
        raise Torn(f"a schema is nested more than {DEPTH} deep")
    if isinstance(value, str):
        return _atom(value)
    if not isinstance(value, dict):
        raise Torn("a schema has a type that is neither a name nor an object")
    kind = value.get("type")
    try:
        if kind == "struct":
            return Struct(tuple(_field(item, depth + 1) for item in value["fields"]))
        if kind == "array":
            return Array(read_type(value["elementType"], depth + 1))
        if kind == "map":
            return Map(read_type(value["keyType"], depth + 1), read_type(value["valueType"], depth + 1))
        if kind == "udt":
            return read_type(value["sqlType"], depth + 1)
    except (KeyError, TypeError) as error:
        raise Torn(f"a schema lacks a part of its {kind} ({error})") from error
    return Atom(str(kind)[:40], UNKNOWN)


def _field(item: Any, depth: int) -> Field:
    return Field(str(item["name"]), read_type(item["type"], depth), item.get("nullable") is not False)


def _atom(name: str) -> Atom:
    if name in _ATOMS:
        return Atom(*_ATOMS[name])
    if match := re.fullmatch(r"decimal\((\d{1,2}),(-?\d{1,2})\)", name):
        return Atom(name, "decimal", int(match[1]), int(match[2]))
    if name.startswith(("string ", "string(", "char(", "varchar(")):
        return Atom(name, "string")
    if name.startswith("interval "):
        months = "month" in name or name == "interval year"
        return Atom(name, "months" if months else "microseconds")
    if re.fullmatch(r"time(\(\d\))?", name):
        return Atom(name, "time")
    return Atom(name[:40], UNKNOWN)


def type_text(kind: Type) -> str:
    """As Spark SQL spells it, structs to their last field."""
    if isinstance(kind, Atom):
        return kind.name
    if isinstance(kind, Array):
        return f"array<{type_text(kind.element)}>"
    if isinstance(kind, Map):
        return f"map<{type_text(kind.key)},{type_text(kind.value)}>"
    return f"struct<{','.join(f'{field.name}:{type_text(field.type)}' for field in kind.fields)}>"


def columns_text(struct: Struct) -> str:
    return ", ".join(f"{field.name} {type_text(field.type)}" for field in struct.fields)
