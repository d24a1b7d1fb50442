"""The data files that make up one version of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from surestart.facts.delta.actions import Action, integer, read_actions
from surestart.facts.delta.listing import Listing, commit_name
from surestart.facts.delta.log import read_base, read_twice
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import Storage

_FIELDS = ("path", "partitionValues", "size", "stats", "stats_parsed.numRecords", "deletionVector", "modificationTime")
_COLUMNS = tuple(f"add.{field}" for field in _FIELDS)


@dataclass(frozen=True)
class ActiveFile:
    """path is decoded and relative to the table's folder, or absolute (a shallow clone's files)."""

    path: str
    size: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    rows: int | None = None  # rows in the file, deleted ones included; None when the writer kept no statistics
    deleted_rows: int = 0  # marked by a deletion vector
    deletion_vector: bool = False
    modified: int | None = None

    @property
    def is_absolute(self) -> bool:
        return self.path.startswith("/") or "://" in self.path or self.path.startswith("file:")


def read_active_files(path: str, version: int | None = None, storage: Storage | None = None) -> tuple[ActiveFile, ...]:
    """The files of that version, or of the latest one, ordered by path."""
    files = bounded(storage or open_storage(path))
    return read_twice(files, lambda listing: _read(files, listing, version))


@dataclass
class _Active:
    files: dict[tuple[str, str], Action] = field(default_factory=dict)

    def take(self, kind: str, body: Action) -> None:
        self.files[_key(body)] = body


def _read(files: Storage, listing: Listing, version: int | None) -> tuple[ActiveFile, ...]:
    latest = listing.latest if version is None else version
    start, base = read_base(files, listing, latest, _COLUMNS, _Active)
    active = base.files
    for number in range(start, latest + 1):
        removed: list[Action] = []
        added: list[Action] = []
        for kind, body in read_actions(files, commit_name(number), ("add", "remove"), listing.commits.get(number, -1)):
            (added if kind == "add" else removed).append(body)
        # A commit that gives a file a deletion vector removes and adds the same path; the order of lines is free.
        for body in removed:
            active.pop(_key(body), None)
        for body in added:
            active[_key(body)] = body
    return tuple(sorted((_file(body) for body in active.values()), key=lambda file: file.path))


def _key(body: Action) -> tuple[str, str]:
    """Two actions speak of the same logical file when path and deletion vector agree (PROTOCOL.md, reconciliation)."""
    vector = body.get("deletionVector") or {}
    identity = f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}" if vector else ""
    return str(body.get("path", "")), identity


def _file(body: Action) -> ActiveFile:
    vector = body.get("deletionVector") or {}
    return ActiveFile(
        path=unquote(str(body.get("path", ""))),
        size=integer(body.get("size")) or 0,
        partition_values=dict(body.get("partitionValues") or {}),
        rows=_rows(body),
        deleted_rows=integer(vector.get("cardinality")) or 0,
        deletion_vector=bool(vector),
        modified=integer(body.get("modificationTime")),
    )


def _rows(body: Action) -> int | None:
    parsed = body.get("stats_parsed")
    if isinstance(parsed, dict) and (found := integer(parsed.get("numRecords"))) is not None:
        return found
    stats = body.get("stats")
    if not isinstance(stats, str) or not stats:
        return None
    try:
        values = json.loads(stats)
    except (ValueError, RecursionError):
        return None
    return integer(values.get("numRecords")) if isinstance(values, dict) else None
