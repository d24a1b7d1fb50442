"""The data files that make up one version of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote
from uuid import UUID

from surestart.facts.delta.actions import Action, integer, read_actions
from surestart.facts.delta.listing import LogListing, commit_name
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
    vector_path: str = (
        ""  # of the file that holds the vector, as `path` is; "" where it stands in the log, or is unknown
    )

    @property
    def is_absolute(self) -> bool:
        return is_whole_path(self.path)


def is_whole_path(path: str) -> bool:
    return path.startswith("/") or "://" in path or path.startswith("file:")


def read_active_files(path: str, version: int | None = None, storage: Storage | None = None) -> tuple[ActiveFile, ...]:
    """The files of that version, or of the latest one, ordered by path."""
    files = bounded(storage or open_storage(path))
    return read_twice(files, lambda listing: _read(files, listing, version))


@dataclass
class _Active:
    files: dict[tuple[str, str], Action] = field(default_factory=dict)

    def take(self, kind: str, body: Action) -> None:
        self.files[_key(body)] = body


def _read(files: Storage, listing: LogListing, version: int | None) -> tuple[ActiveFile, ...]:
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
        vector_path=_vector_path(vector),
    )


# Z85: so the log writes the number of a deletion vector's file (PROTOCOL.md, "Deletion Vector Descriptor Schema").
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LENGTH = 20


def _vector_path(vector: Action) -> str:
    """Of `ab^-aqEH.-t@S}K{vb[*k^` it is ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin."""
    kind, text = vector.get("storageType"), str(vector.get("pathOrInlineDv", ""))
    if kind == "p":
        return unquote(text)
    if kind != "u" or len(text) < _UUID_LENGTH or not set(text[-_UUID_LENGTH:]) <= set(_Z85):
        return ""
    prefix, coded = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    number = 0
    for at in range(0, _UUID_LENGTH, 5):
        word = 0
        for letter in coded[at : at + 5]:
            word = word * 85 + _Z85.index(letter)
        number = number << 32 | word & 0xFFFFFFFF
    return f"{prefix}{'/' if prefix else ''}deletion_vector_{UUID(int=number)}.bin"


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


def read_added_files(path: str, versions: Iterable[int]) -> tuple[str, ...]:
    """The file names of these commits, without folders. Raises FileNotFoundError when the log no longer has one of
    them."""
    files = bounded(open_storage(path))
    return tuple(
        str(body.get("path", "")).rsplit("/", 1)[-1]
        for version in versions
        for _, body in read_actions(files, commit_name(version), ("add",))
        if body.get("dataChange", True) is not False
    )
