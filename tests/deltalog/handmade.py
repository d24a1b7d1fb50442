"""Delta logs written by hand, byte for byte as the protocol has them: for shapes that no writer makes on request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        ],
    }
)
Action = dict[str, Any]


def commit_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def write_commit(table: Path, version: int, *actions: Action) -> Path:
    """With empty files in the place of those that it adds: whoever asks whether they are there finds them."""
    path = commit_file(table, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in (str(action["add"]["path"]) for action in actions if "add" in action):
        if "/" not in name and len(name) < 100:
            (table / name).touch()
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return path


def create(properties: Mapping[str, str] | None = None, table_id: str = "T", schema: str = SCHEMA) -> list[Action]:
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": dict(properties or {}),
        "createdTime": 1,
    }
    return [info("CREATE TABLE"), {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def info(operation: str, **more: object) -> Action:
    return {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": operation, "operationParameters": {}, **more}}


def txn(app_id: str, version: int, updated: int | None = 1) -> Action:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": updated}}


def add(path: str, rows: int = 10, **more: object) -> Action:
    stats = json.dumps({"numRecords": rows})
    file = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 1, "dataChange": True, "stats": stats}
    return {"add": {**file, **more}}


def remove(path: str, **more: object) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}}


def write_table(table: Path, versions: int, properties: Mapping[str, str] | None = None) -> Path:
    """Version 0 creates it, each later one appends one file of ten rows as batch (version - 1) of query `q`."""
    write_commit(table, 0, *create(properties))
    for version in range(1, versions + 1):
        write_commit(
            table,
            version,
            info("STREAMING UPDATE", operationParameters={"queryId": "q", "epochId": str(version - 1)}),
            txn("q", version - 1),
            add(f"f{version}.parquet"),
        )
    return table
