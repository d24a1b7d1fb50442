"""State as one JSON object, written while the rows are read: a store may hold more than fits into memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.stage_progress import watermark_ms
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_types import Struct, type_text
from surestart.facts.state.check_files import CheckedStores
from surestart.facts.state.read_rows import ShownRows, StateRow
from surestart.report.text.state import json_struct

SCHEMA_VERSION = 1


def write_json(write: Callable[[str], object], checkpoint: Checkpoint, stores: Sequence[ShownRows]) -> None:
    """ASCII only; schema: state.schema.json."""
    for part in _parts(checkpoint, stores):
        write(part)


def _parts(checkpoint: Checkpoint, stores: Sequence[ShownRows]) -> Iterator[str]:
    mark = watermark_ms(checkpoint)
    head = {
        "schema_version": SCHEMA_VERSION,
        "location": checkpoint.location,
        "provider": checkpoint.state.provider,
        "format_v2": checkpoint.state.format_v2,
        "batch": stores[0].look.batch if stores else None,
        "version": stores[0].look.version if stores else None,
        "watermark_ms": mark,
        "watermark_age_ms": None if mark is None else int(time.time() * 1000) - mark,
    }
    yield f'{json.dumps(head, indent=1)[:-2]},\n "stores": ['
    for number, store in enumerate(stores):
        yield ",\n  {" if number else "\n  {"
        yield f"{json.dumps(_about(store))[1:-1]},\n   "
        yield '"rows": ['
        for place, row in enumerate(store):
            yield ",\n    " if place else "\n    "
            yield json.dumps(_row(row, store))
        yield f"],\n   {json.dumps(_end(store))[1:-1]}}}"
    yield "\n ]\n}\n"


def _about(store: ShownRows) -> dict[str, Any]:
    look = store.look
    return {
        "operator": look.operator.id,
        "operator_name": look.operator.name,
        "store": look.store,
        "variable": look.variable or None,
        "partitions": list(look.partitions),
        "key_columns": _columns(look.schema.key),
        "value_columns": _columns(look.schema.value),
    }


def _columns(kind: Struct) -> list[dict[str, str]]:
    return [{"name": field.name, "type": type_text(field.type)} for field in kind.fields]


def _row(row: StateRow, store: ShownRows) -> dict[str, Any]:
    schema = store.look.schema
    return {
        "partition": row.partition,
        "key": json_struct(row.key, schema.key),
        "value": json_struct(row.value, schema.value),
    }


def _end(store: ShownRows) -> dict[str, Any]:
    failure = None if store.failure is None else str(store.failure)
    return {"shown": store.shown, "more": store.more, "notes": store.notes, "not_read": failure}


def checked_object(checkpoint: Checkpoint, found: Sequence[tuple[StateOperator, CheckedStores]]) -> dict[str, Any]:
    """Of `--check`: which versions are whole, and what is damaged."""
    return {
        "schema_version": SCHEMA_VERSION,
        "location": checkpoint.location,
        "operators": [
            {
                "operator": operator.id,
                "operator_name": operator.name,
                "files": checked.files,
                "stores": [{"store": store.store, "whole_versions": list(store.loadable)} for store in checked.stores],
                "damaged": [{"path": path, "why": why} for path, why in checked.damaged],
                "unknown": [{"path": path, "why": why} for path, why in checked.unknown],
            }
            for operator, checked in found
        ],
    }
