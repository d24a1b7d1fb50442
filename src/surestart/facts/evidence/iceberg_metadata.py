"""The metadata file of an Iceberg table: its snapshots, and which batch of which query made each.
No manifest is read, so no Avro.

    metadata/v7.metadata.json                a table of a folder; version-hint.text names one of the newest
    metadata/00007-<uuid>.metadata.json      a table of a catalog, which alone knows which file is the current one
      current-snapshot-id, snapshots[]: parent-snapshot-id, summary {spark.sql.streaming.queryId, …epochId}
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surestart.facts.checkpoint.log_file import parse_object
from surestart.facts.checkpoint.log_folder import is_there
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import texts
from surestart.facts.storage.read_budget import NotRead, charge
from surestart.facts.storage.storage import FILE, Storage

FOLDER_NAME = "metadata"
# A thousand snapshots take about a megabyte.
MOST_BYTES = 64 << 20
QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
_FILE = re.compile(r"(?:v(?P<version>[0-9]{1,9})|(?P<number>[0-9]{1,9})-[0-9a-fA-F-]{36})(?P<gz>\.gz)?\.metadata\.json")
_OLD_GZ = re.compile(r"v(?P<version>[0-9]{1,9})\.metadata\.json\.gz")


@dataclass(frozen=True)
class Snapshot:
    """query: of the stream that made it, "" for another writer. epoch: which of its batches."""

    id: int
    parent: int | None
    timestamp: int | None
    summary: Mapping[str, str]

    @property
    def query(self) -> str:
        return self.summary.get(QUERY, "")

    @property
    def epoch(self) -> int | None:
        return integer(self.summary.get(EPOCH))


@dataclass(frozen=True)
class IcebergMetadata:
    """snapshots: by their ids, as the file lists them.
    current: the id of the newest; None for an empty table.
    refs: branches and tags by name."""

    table_id: str
    current: int | None
    snapshots: Mapping[int, Snapshot]
    refs: Mapping[str, Any]


def is_iceberg(files: Storage) -> bool:
    """Whether a table's metadata lies there. Raises OSError."""
    try:
        return any(_version(entry.name) is not None for entry in files.list_folder(FOLDER_NAME))
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_iceberg_metadata(files: Storage) -> IcebergMetadata | None:
    """The newest metadata file; None where there is none. Raises FileNotFoundError where the folder of metadata is not,
    OSError or FormatError for what cannot be read or is none of Iceberg's."""
    name = _newest(files)
    if name is None:
        return None
    metadata = _read(files, name)
    snapshots = _snapshots(metadata)
    current = integer(metadata.get("current-snapshot-id"))
    current = None if current == -1 else current
    if current is not None and current not in snapshots:
        raise OSError("the current snapshot is not among the snapshots of the metadata")
    refs = metadata.get("refs")
    table_id = str(metadata.get("table-uuid") or "")
    return IcebergMetadata(table_id, current, snapshots, refs if isinstance(refs, Mapping) else {})


def _version(name: str) -> int | None:
    match = _FILE.fullmatch(name) or _OLD_GZ.fullmatch(name)
    return None if match is None else int(match["version"] or match.groupdict().get("number") or 0)


def _newest(files: Storage) -> str | None:
    """The name of the newest metadata file, None where there is none."""
    found: dict[str, tuple[int, float]] = {}
    hint = False
    for entry in files.list_folder(FOLDER_NAME):
        version = _version(entry.name)
        if version is not None and entry.kind == FILE:
            found[entry.name] = (version, entry.modified or 0.0)
        hint = hint or entry.name == "version-hint.text"
    if hint:
        _hold_against_hint(files, found)
    if not found:
        return None
    # Of two with one number the later: the other is of a commit that lost its race.
    newest = max(found, key=lambda name: found[name])
    if newest.startswith("v"):
        behind = f"v{found[newest][0] + 1}.metadata.json"
        if is_there(files, f"{FOLDER_NAME}/{behind}"):
            raise OSError(f"{FOLDER_NAME}/{behind} is there, and the listing of the folder lacks it")
    return newest


def _hold_against_hint(files: Storage, found: Mapping[str, tuple[int, float]]) -> None:
    text = files.read_file(f"{FOLDER_NAME}/version-hint.text", 64).decode("utf-8", "replace").strip()
    if text.isascii() and text.isdigit() and not any(version >= int(text) for version, _ in found.values()):
        raise OSError(f"version-hint.text names version {text}, and no metadata file of it is there")


def _read(files: Storage, name: str) -> dict[str, Any]:
    path = f"{FOLDER_NAME}/{name}"
    data = files.read_file(path, MOST_BYTES + 1)
    if ".gz" in name:
        data = _unpacked(data, path)
    if len(data) > MOST_BYTES:
        raise NotRead(f"{path} has more than {MOST_BYTES >> 20} MB")
    charge(files, data.count(b'"') // 2, path)
    return parse_object(data.decode("utf-8", "replace"), path)


def _unpacked(data: bytes, path: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise OSError(f"{path} is no whole gzip file: {error}") from error


def _snapshots(metadata: Mapping[str, Any]) -> dict[int, Snapshot]:
    listed = metadata.get("snapshots")
    if not isinstance(metadata.get("format-version"), int) or not isinstance(listed or [], list):
        raise OSError("its metadata file is none of Iceberg's")
    found = {}
    for one in listed or []:
        name = integer(one.get("snapshot-id")) if isinstance(one, Mapping) else None
        if name is None:
            raise OSError("a snapshot of its metadata has no id")
        found[name] = Snapshot(
            name, integer(one.get("parent-snapshot-id")), integer(one.get("timestamp-ms")), texts(one.get("summary"))
        )
    return found
