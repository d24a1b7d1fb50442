"""Writes Avro by hand, from the specification: the tests must not take Spark's word for what Spark reads."""

from __future__ import annotations

import json
import struct
from typing import Any


def encode(schema: Any, value: Any) -> bytes:
    """One value in Avro's binary encoding. A union's value is (index of the branch, value)."""
    if isinstance(schema, list):
        index, inner = value
        return number(index) + encode(schema[index], inner)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return b"".join(encode(field["type"], value[field["name"]]) for field in schema["fields"])
    if kind == "array":
        items = b"".join(encode(schema["items"], item) for item in value)
        return (number(len(value)) + items if value else b"") + number(0)
    if kind in ("string", "bytes"):
        raw = value.encode() if isinstance(value, str) else value
        return number(len(raw)) + raw
    if kind in ("int", "long"):
        return number(value)
    if kind in ("double", "float"):
        return struct.pack("<d" if kind == "double" else "<f", value)
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    assert kind == "null", kind
    return b""


def number(value: int) -> bytes:
    """Zig-zag, seven bits a byte."""
    value = ((value << 1) ^ (value >> 63)) & ((1 << 64) - 1)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def confluent(schema_id: int, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "org.example", "fields": list(fields)}


def text(schema: Any) -> str:
    return json.dumps(schema)
