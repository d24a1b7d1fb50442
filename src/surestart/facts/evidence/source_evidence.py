"""What a source still has of what the checkpoint wants to read next, asked with plain file reads.

Delta   another table under the same name? its log back to the position? commits in between that stop a stream?
files   the folder under the paths that were listed? the files of the batch in flight?
Kafka   surestart.verdict.kafka_findings, and here: how long until unread records expire
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from surestart.errors import CannotTell
from surestart.facts.checkpoint.file_list import read_entries
from surestart.facts.checkpoint.log_folder import is_batch_name, is_there
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition
from surestart.facts.checkpoint.snapshot import CheckpointSource
from surestart.facts.delta import Commit, read_delta_log, read_history
from surestart.facts.delta.actions import read_actions
from surestart.facts.delta.listing import NoDeltaLog, read_listing
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import NotRead
from surestart.facts.storage.storage import Storage

# Files of one batch that are looked for, in half a second.
LISTED = 200_000
# A stream that is further behind than this reads them all the same; the doctor looks at the oldest and says how far.
COMMITS, COMMIT_BYTES = 10_000, 64 << 20
# Files of unread commits that were taken out since are looked for by name, so many.
LOOKED_FOR = 5
# They put the same rows into other files.
_REWRITING = ("OPTIMIZE", "REORG", "CLUSTER BY", "UPGRADE UNIFORM")


@dataclass(frozen=True)
class DeltaSourceEvidence:
    """pending: the commits that are not read yet, oldest first, as far as they were looked at.
    schema_before: the table's schema just before them where one of them changes it, '' when it cannot be known.
    mapped: columns may be dropped and renamed (delta.columnMapping.mode).
    gone: (version, path) of files with unread rows that were rewritten since, and that a VACUUM has deleted.
    files_unread: why that is not known."""

    exists: bool = True
    table_id: str = ""
    latest_version: int = -1
    earliest_commit: int = 0
    log_retention: int = 0
    schema_text: str = ""
    schema_before: str = ""
    mapped: bool = False
    pending: tuple[Commit, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    files_unread: str = ""
    problem: str = ""


@dataclass(frozen=True)
class FileSourceEvidence:
    """gone: files of the batch in flight that are not there.
    listed: how many it has.
    outside: a path in the list of seen files that does not lie under the folder."""

    exists: bool = True
    outside: str = ""
    listed: int = 0
    gone: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class NextRead:
    """From where the next batch reads: the start of the batch in flight, else the end of the last one."""

    source: CheckpointSource
    replayed: bool

    @property
    def delta(self) -> DeltaPosition | None:
        position = self.source.start if self.replayed and self.source.start is not None else self.source.end
        return position if isinstance(position, DeltaPosition) else None

    @property
    def opened(self) -> int | None:
        """The version from which Spark reads the log at the start: the newest batch is made once more, also when it is
        committed (MicroBatchExecution.populateStartOffsets). None: that batch began with what the table held."""
        start = self.source.start
        return (
            start.version if isinstance(start, DeltaPosition) and isinstance(self.source.end, DeltaPosition) else None
        )

    @property
    def listed(self) -> tuple[int, int] | None:
        """(first, last) entry of the list of files that the batch in flight reads."""
        start, end = self.source.start, self.source.end
        if not self.replayed or not isinstance(end, FilesPosition):
            return None
        first = start.log_offset + 1 if isinstance(start, FilesPosition) else 0
        return (first, end.log_offset) if first <= end.log_offset else None


def read_delta_source(
    path: str, position: DeltaPosition | None, storage: Storage | None = None, begin: int | None = None
) -> DeltaSourceEvidence:
    """What the table at `path` has from `position` on. begin: the version at which a new checkpoint would begin."""
    try:
        storage = storage or open_storage(path)
        log = read_delta_log(path, storage)
        first = first_version(position) if position is not None else begin
        pending: tuple[Commit, ...] = ()
        before = ""
        same = position is None or position.table_id == log.table_id
        if first is not None and same and first <= log.latest_version:
            pending = _read_unread(path, first, storage)
            changed = any(commit.schema_text is not None for commit in pending)
            # This version can be rebuilt. So a failure is an answer that did not come, and not a schema that is gone.
            rebuilt = changed and first > log.earliest_version
            before = read_delta_log(path, storage, version=first - 1).schema_text if rebuilt else ""
        gone, files_unread = _find_vacuumed(storage, pending)
        return DeltaSourceEvidence(
            table_id=log.table_id,
            latest_version=log.latest_version,
            earliest_commit=log.earliest_commit,
            log_retention=log.log_retention,
            schema_text=log.schema_text,
            schema_before=before,
            mapped=is_mapped(log.properties),
            pending=pending,
            gone=gone,
            files_unread=files_unread,
        )
    except NoDeltaLog:
        return DeltaSourceEvidence(exists=False)
    except CannotTell as problem:
        return DeltaSourceEvidence(problem=problem.what)


def _read_unread(path: str, first: int, storage: Storage | None) -> tuple[Commit, ...]:
    """The commits from that version on, as many as can be read in seconds."""
    files = storage or open_storage(path)
    sizes = read_listing(files).commits
    last, left = first, COMMIT_BYTES
    for version in range(first, first + COMMITS):
        left -= sizes.get(version, 0)
        if version not in sizes or left < 0:
            break
        last = version
    return read_history(path, files, since=first, until=last, limit=COMMITS, with_files=True)


def _find_vacuumed(files: Storage, pending: Sequence[Commit]) -> tuple[tuple[tuple[int, str], ...], str]:
    """Files that unread commits have added, that a later one took out of the table, and that are not there any more.
    Spark reads the commit's own file, whatever the table has instead. VACUUM deletes what was taken out first, so the
    first few tell."""
    rewriting = [one.version for one in pending if one.operation in _REWRITING or (one.changes and one.changes.removed)]
    if not rewriting:
        return (), ""
    added: dict[str, int] = {}
    taken: list[tuple[int, str]] = []
    try:
        for commit in pending:
            for kind, body in read_actions(files, f"_delta_log/{commit.version:020d}.json", ("add", "remove")):
                path = unquote(str(body.get("path", "")))
                if kind == "remove" and path in added:
                    taken.append((added.pop(path), path))
                elif kind == "add" and body.get("dataChange", True) is not False and _is_relative(path):
                    added[path] = commit.version
        return tuple((version, path) for version, path in taken[:LOOKED_FOR] if not is_there(files, path)), ""
    except (OSError, CannotTell) as error:
        return (), error.what if isinstance(error, CannotTell) else f"{type(error).__name__}: {error}"


def _is_relative(path: str) -> bool:
    """A file of a clone is named with its whole path, and belongs to another table."""
    return bool(path) and not path.startswith("/") and ":" not in path.partition("/")[0]


def is_mapped(properties: Mapping[str, str]) -> bool:
    return properties.get("delta.columnMapping.mode", "none") != "none"


def first_version(position: DeltaPosition | None) -> int:
    """The first commit that has to be readable: index -1 stands before its version's first file."""
    return 0 if position is None else position.version


def read_file_source(folder: str, span: NextRead, checkpoint: Storage) -> FileSourceEvidence:
    """Whether the landing folder is the one that was listed, and whether the batch in flight finds its files."""
    if "://" in folder and not folder.startswith("file:"):
        return FileSourceEvidence(problem="the landing folder is on a store that was not looked at")
    root = _local(folder)
    log = span.source.folder.file_log if span.source.folder else None
    last_path = _local(log.last_path) if log and log.last_path else ""
    outside = last_path if last_path and not _lies_in(last_path, root) else ""
    try:
        if not stat.S_ISDIR(Path(root).stat().st_mode):
            return FileSourceEvidence(exists=False, outside=outside)
        # One that may not be listed shows no new file, and Spark's start ends there.
        next(iter(open_storage(root).list_folder("")), None)
    except (FileNotFoundError, NotADirectoryError):
        return FileSourceEvidence(exists=False, outside=outside)
    except (OSError, ValueError) as error:
        return FileSourceEvidence(outside=outside, problem=f"the landing folder cannot be looked at: {error}")
    if span.listed is None:
        return FileSourceEvidence(outside=outside)
    try:
        paths = read_listed_paths(checkpoint, span.source.id, *span.listed)
        gone = tuple(path for path in paths if not _exists(_local(path)))
    except (OSError, ValueError) as error:
        return FileSourceEvidence(outside=outside, problem=f"the files of the batch in flight are not known: {error}")
    return FileSourceEvidence(outside=outside, listed=len(paths), gone=gone)


def read_listed_paths(checkpoint: Storage, source: str, first: int, last: int, limit: int = LISTED) -> list[str]:
    """The paths in entries first..last of the file source's own list (sources/K/n, every tenth n.compact); raises
    NotRead when there are more than `limit`."""
    present = {entry.name: entry.size for entry in checkpoint.list_folder(f"sources/{source}")}
    compacts = sorted(int(name[:-8]) for name in present if name.endswith(".compact") and is_batch_name(name[:-8]))
    paths: list[str] = []
    number = first
    while number <= last:
        # Compacted meanwhile: the newest compact file at or above it holds the entry, and all before it.
        holder = None if str(number) in present else next((one for one in compacts if one >= number), None)
        if holder is None and str(number) not in present:
            raise ValueError(f"entry {number} is missing")
        name, end = (str(number), number) if holder is None else (f"{holder}.compact", min(holder, last))
        for _, path in read_entries(checkpoint, f"sources/{source}/{name}", end, number, present[name]):
            paths.append(path)
            if len(paths) > limit:
                raise NotRead(f"the batch in flight reads more than {limit:,} files; they were not looked for")
        number = end + 1
    return paths


def _local(path: str) -> str:
    """The path on this machine; the list of seen files holds URL-encoded `file:///…`."""
    return unquote("/" + path.removeprefix("file:").lstrip("/")) if path.startswith("file:") else path


def _exists(path: str) -> bool:
    """Raises OSError where it cannot be told: a file that nobody may look at is not gone."""
    try:
        # Ten times as fast as Path.stat, and a batch may have a hundred thousand files.
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def _lies_in(path: str, folder: str) -> bool:
    # Unlike Path.resolve, not raising for a link that leads to itself.
    real = os.path.realpath(folder)
    return path.startswith((folder.rstrip("/") + "/", real + "/"))
