"""Columns whose values the table makes itself, by the schema in its log; Delta gives them to no reader of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

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
