"""What surestart reads of a store, in the form in which Spark's own reader gave it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.state.hdfs_rows import RowReading
from surestart.facts.state.read_rows import choose_operators, choose_stores, choose_version, read_state_rows
from surestart.facts.storage.open_storage import open_storage
from tests.state.make_checkpoints import canonical


def rows_of(checkpoint: Path, read: Mapping[str, Any]) -> list[Any]:
    """Sorted, so that both sides compare as multisets."""
    found = read_checkpoint(str(checkpoint))
    (operator,) = choose_operators(found, None)
    version = choose_version(found, read["batch"])
    (look,) = choose_stores(found, operator, read["store"], read["variable"] or None, None, version)
    rows = read_state_rows(open_storage(str(checkpoint)), found, look, RowReading())
    plain = [canonical([list(row.key), list(row.value), row.partition]) for row in rows]
    return sorted(_gathered(plain, read["columns"][1]), key=json.dumps)


def _gathered(rows: list[Any], column: str) -> list[Any]:
    """Spark gives the values of a list, and the entries of a map, in one row."""
    if column not in ("list_value", "map_value"):
        return rows
    found: dict[str, list[Any]] = {}
    for key, value, partition in rows:
        own, item = (key, value) if column == "list_value" else (key[0], [key[1], value])
        found.setdefault(json.dumps([own, partition]), []).append(item)
    sort = (lambda items: items) if column == "list_value" else (lambda items: sorted(items, key=json.dumps))
    return [[own, sort(items), partition] for text, items in found.items() for own, partition in [json.loads(text)]]
