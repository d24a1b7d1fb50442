"""What a source still has of what the checkpoint wants to read next, asked with plain file reads.

Delta   another table under the same name? its log back to the position? commits in between that stop a stream?
files   the folder under the paths that were listed? the files of the batch in flight?
Kafka   surestart.sources.kafka_findings, and here: how long until unread records expire
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from surestart.checkpoint.positions import DeltaPosition, FilesPosition
from surestart.checkpoint.snapshot import Source
from surestart.checkpoint.storage import Storage
from surestart.deltalog import Commit, read_delta_log, read_history
from surestart.deltalog.listing import NoDeltaLog
from surestart.errors import CannotTell

# A stream that is further behind than this reads them all the same; the doctor looks at the oldest ones first.
COMMITS = 500


@dataclass(frozen=True)
class DeltaSourceEvidence:
    """pending: the commits that are not read yet, oldest first, as far as they were looked at.
    schema_before: the table's schema just before them, '' when that version cannot be rebuilt."""

    exists: bool = True
    table_id: str = ""
    latest_version: int = -1
    earliest_commit: int = 0
    log_retention: int = 0
    schema_text: str = ""
    schema_before: str = ""
    pending: tuple[Commit, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class FileSourceEvidence:
    """gone: files of the batch in flight that are not there; listed: how many it has. outside: a path in the list of
    seen files that does not lie under the folder."""

    exists: bool = True
    outside: str = ""
    listed: int = 0
    gone: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Span:
    """From where the next batch reads: the start of the batch in flight, else the end of the last one."""

    source: Source
    replayed: bool

    @property
    def delta(self) -> DeltaPosition | None:
        position = self.source.start if self.replayed and self.source.start is not None else self.source.end
        return position if isinstance(position, DeltaPosition) else None

    @property
    def listed(self) -> tuple[int, int] | None:
        """(first, last) entry of the list of files that the batch in flight reads."""
        start, end = self.source.start, self.source.end
        if not self.replayed or not isinstance(end, FilesPosition):
            return None
        first = start.log_offset + 1 if isinstance(start, FilesPosition) else 0
        return (first, end.log_offset) if first <= end.log_offset else None


def read_delta_source(path: str, position: DeltaPosition | None, storage: Storage | None = None) -> DeltaSourceEvidence:
    """What the table at `path` has from `position` on."""
    try:
        log = read_delta_log(path, storage)
        first = first_version(position)
        pending: tuple[Commit, ...] = ()
        before = ""
        if position is not None and position.table_id == log.table_id and first <= log.latest_version:
            pending = read_history(path, storage, since=first, until=first + COMMITS - 1, with_files=True)
            changed = any(commit.schema_text is not None for commit in pending)
            before = _schema_at(path, first - 1, storage) if changed and first > log.earliest_version else ""
        return DeltaSourceEvidence(
            table_id=log.table_id,
            latest_version=log.latest_version,
            earliest_commit=log.earliest_commit,
            log_retention=log.log_retention,
            schema_text=log.schema_text,
            schema_before=before,
            pending=pending,
        )
    except NoDeltaLog:
        return DeltaSourceEvidence(exists=False)
    except CannotTell as problem:
        return DeltaSourceEvidence(problem=problem.what)


def first_version(position: DeltaPosition | None) -> int:
    """The first commit that has to be readable: index -1 stands before its version's first file."""
    return 0 if position is None else position.version


def read_file_source(folder: str, span: Span, checkpoint: Storage) -> FileSourceEvidence:
    """Whether the landing folder is the one that was listed, and whether the batch in flight finds its files."""
    if "://" in folder and not folder.startswith("file:"):
        return FileSourceEvidence(problem="the landing folder is on a store that was not looked at")
    root = _local(folder)
    log = span.source.folder.file_log if span.source.folder else None
    last_path = _local(log.last_path) if log and log.last_path else ""
    outside = last_path if last_path and not _lies_in(last_path, root) else ""
    if not Path(root).is_dir():
        return FileSourceEvidence(exists=False, outside=outside)
    if span.listed is None:
        return FileSourceEvidence(outside=outside)
    try:
        paths = read_listed_paths(checkpoint, span.source.id, *span.listed)
    except (OSError, ValueError) as error:
        return FileSourceEvidence(outside=outside, problem=f"the list of files seen cannot be read: {error}")
    gone = tuple(path for path in paths if not Path(_local(path)).exists())
    return FileSourceEvidence(outside=outside, listed=len(paths), gone=gone)


def read_listed_paths(checkpoint: Storage, source: str, first: int, last: int, limit: int = 50_000) -> list[str]:
    """The paths in entries first..last of the file source's own list (sources/K/n, every tenth n.compact)."""
    present = {entry.name for entry in checkpoint.list_folder(f"sources/{source}")}
    compacts = sorted(int(name[:-8]) for name in present if re.fullmatch(r"\d{1,18}\.compact", name))
    paths: list[str] = []
    for number in range(first, last + 1):
        if len(paths) >= limit:
            break
        if str(number) in present:
            name = str(number)
        else:
            # Compacted meanwhile: the newest compact file at or above it holds the entry.
            holder = next((compact for compact in compacts if compact >= number), None)
            if holder is None:
                raise ValueError(f"entry {number} is missing")
            name = f"{holder}.compact"
        data = checkpoint.read_file(f"sources/{source}/{name}", 64 << 20)
        for line in data.splitlines()[1:]:
            entry = json.loads(line)
            if entry.get("batchId") == number:
                paths.append(str(entry.get("path", "")))
    return paths


def changed_columns(before: str, after: str) -> tuple[str, ...]:
    """Columns of `before` that `after` has not, or has with another type. New columns are not among them."""
    old, new = _columns(before), _columns(after)
    return tuple(name for name, kind in old.items() if new.get(name) != kind)


def _columns(schema_text: str) -> Mapping[str, object]:
    try:
        fields = json.loads(schema_text).get("fields", [])
        return {str(field["name"]): field.get("type") for field in fields}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}


def _schema_at(path: str, version: int, storage: Storage | None) -> str:
    try:
        return read_delta_log(path, storage, version=version).schema_text
    except CannotTell:
        return ""


def _local(path: str) -> str:
    """The path on this machine; the list of seen files holds URL-encoded `file:///…`."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path


def _lies_in(path: str, folder: str) -> bool:
    real = str(Path(folder).resolve())
    return path.startswith((folder.rstrip("/") + "/", real + "/"))
