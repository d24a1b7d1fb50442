"""A checkpoint as one frozen value: all that its files say, and all that could not be read.

<checkpoint>/metadata          {"id":"<uuid>"}: the query's identity
<checkpoint>/offsets/N         batch N is planned          batch_logs
<checkpoint>/commits/N         batch N is committed        batch_logs
<checkpoint>/sources/K/        the sources' own notes      source_folder
<checkpoint>/state/<operator>  state of aggregations, …    state_folder
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from surestart.facts.checkpoint import positions
from surestart.facts.checkpoint.batch_logs import (
    CommitLogEntry,
    OffsetLogEntry,
    SourceOffset,
    guess_writer_version,
)
from surestart.facts.checkpoint.find_checkpoints import read_signpost
from surestart.facts.checkpoint.log_entries import (
    ENTRIES_REMOTE,
    BatchLogs,
    behind_json,
    check_crc,
    read_logs,
    read_metadata,
)
from surestart.facts.checkpoint.log_file import NOT_A_FILE, UNREADABLE, LogFault
from surestart.facts.checkpoint.log_folder import LogFolder, is_leftover, is_there
from surestart.facts.checkpoint.positions import NumberPosition, Position
from surestart.facts.checkpoint.source_folder import SchemaLog, SourceFolder, read_schema_log, read_source_folders
from surestart.facts.checkpoint.state_folder import StateFolder, read_state
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, FolderEntry, Storage

# A default checkpoint keeps 100 batches.
ENTRIES_LOCAL = 128
_NO_STATE = StateFolder(exists=False)
ROOT_NAMES = frozenset({"metadata", "offsets", "commits", "sources", "state", "receivers", "__tmp_path_dir"})


@dataclass(frozen=True)
class CheckpointSource:
    """One source of the query.

    start and end: the positions of the newest planned batch."""

    id: str
    kind: str
    start: Position | None
    end: Position | None
    folder: SourceFolder | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says. offsets and commits hold the newest entries only.

    folder_modified: when a name was added to it or taken from it.
    newest_modified: when the newest of what is there was written.
    sampled: what was not read."""

    location: str
    storage: str
    checks_crc: bool
    exists: bool | None
    query_id: str | None
    metadata_fault: LogFault | None
    offsets_folder: LogFolder
    commits_folder: LogFolder
    offsets: Mapping[int, OffsetLogEntry | LogFault] = field(default_factory=dict)
    commits: Mapping[int, CommitLogEntry | LogFault] = field(default_factory=dict)
    crc_faults: Mapping[str, LogFault] = field(default_factory=dict)
    sources: tuple[CheckpointSource, ...] = ()
    sources_exist: bool | None = False
    schema_logs: tuple[SchemaLog, ...] = ()
    state: StateFolder = _NO_STATE
    leftovers: tuple[str, ...] = ()
    leftover_count: int = 0
    strange: tuple[str, ...] = ()
    other_faults: tuple[LogFault, ...] = ()
    sampled: tuple[str, ...] = ()
    files: int = 0
    size: int = 0
    metadata_modified: float | None = None
    folder_modified: float | None = None
    newest_modified: float | None = None
    metadata_trailing: str = ""

    @property
    def logs_listed(self) -> bool:
        """Whether it is known which batches there are: what a listing that was refused lacks, nobody has deleted."""
        return self.exists is not None and None not in (self.offsets_folder.exists, self.commits_folder.exists)

    @property
    def latest_planned(self) -> int | None:
        return self.offsets_folder.last

    @property
    def latest_committed(self) -> int | None:
        return self.commits_folder.last

    @property
    def in_flight(self) -> int | None:
        """The batch that is planned and not committed."""
        planned, committed = self.latest_planned, self.latest_committed
        return planned if planned is not None and (committed is None or committed < planned) else None

    @property
    def next_batch(self) -> int | None:
        """The batch that the next start runs first, by the restart rule, as far as the listings tell."""
        if self.in_flight is not None:
            return self.in_flight
        return 0 if self.latest_planned is None else self.latest_planned + 1

    @property
    def control_batches(self) -> Mapping[int, str]:
        """Batches that an operation on the checkpoint planned, among those that were read: they bring the sink no row,
        and it may not know them."""
        return {
            batch: entry.control
            for batch, entry in self.offsets.items()
            if isinstance(entry, OffsetLogEntry) and entry.control
        }

    @property
    def latest_offsets(self) -> OffsetLogEntry | LogFault | None:
        return None if self.latest_planned is None else self.offsets.get(self.latest_planned)

    @property
    def latest_commit(self) -> CommitLogEntry | LogFault | None:
        return None if self.latest_committed is None else self.commits.get(self.latest_committed)

    @property
    def confs(self) -> Mapping[str, str]:
        """The settings that are pinned: a restart uses these, whatever the session says."""
        entry = self.latest_offsets
        return entry.confs if isinstance(entry, OffsetLogEntry) else {}

    @property
    def formats(self) -> dict[str, int | None]:
        offsets, commit = self.latest_offsets, self.latest_commit
        return {
            "offsets": offsets.version if isinstance(offsets, OffsetLogEntry) else None,
            "commits": commit.version if isinstance(commit, CommitLogEntry) else None,
        }

    @property
    def spark_version(self) -> str | None:
        """Which Spark wrote the newest batch, as far as its pinned settings tell, such as "4.0-4.1"."""
        return guess_writer_version(self.confs, visible_checksums=self.state.checksum_files > 0)

    @property
    def faults(self) -> tuple[LogFault, ...]:
        """Every file that is not what Spark writes."""
        found = [self.metadata_fault] if self.metadata_fault else []
        found += [*self.offsets_folder.faults, *self.commits_folder.faults]
        named = {fault.path for fault in found}
        found += [
            value
            for value in (*self.offsets.values(), *self.commits.values())
            if isinstance(value, LogFault) and value.path not in named
        ]
        for source in self.sources:
            found += source.folder.faults if source.folder else ()
        return tuple(dict.fromkeys((*found, *self.state.faults, *self.other_faults, *self.crc_faults.values())))


def read_checkpoint(location: str, storage: Storage | None = None, *, entries: int | None = None) -> Checkpoint:
    """Reads a checkpoint wherever it lies. Writes nothing, needs no Spark, raises only for an impossible location."""
    storage = bounded(storage or open_storage(location))
    root = _list_root(storage)
    if isinstance(root, Checkpoint):
        return root
    query_id, metadata_fault, metadata_data = read_metadata(storage, root)
    logs = read_logs(storage)
    count = entries or (ENTRIES_LOCAL if storage.kind == "local" else ENTRIES_REMOTE)
    recent = slice(0, min(count, ENTRIES_REMOTE))
    logs.read_offsets(storage, recent)
    logs.read_commits(storage, recent)
    if metadata_data:
        check_crc(storage, "metadata", metadata_data, logs.crc_faults)
    folders = read_source_folders(storage)
    known = folders if isinstance(folders, tuple) else ()
    state = read_state(storage, logs.needed_state)
    # Last, with what the budget has left: the older entries show traces only.
    older = slice(recent.stop, count)
    logs.read_commits(storage, older)
    logs.read_offsets(storage, older)
    schema_logs, schema_faults = _read_schema_logs(storage, root)
    sizes = [entry.size or 0 for entry in root.values() if entry.kind == FILE]
    leftovers = _leftovers(root, logs, known, state)
    return Checkpoint(
        location=storage.location,
        storage=storage.kind,
        checks_crc=storage.checks_crc,
        exists=True,
        query_id=query_id,
        metadata_fault=metadata_fault,
        offsets_folder=logs.offsets_folder,
        commits_folder=logs.commits_folder,
        offsets=dict(sorted(logs.offsets.items())),
        commits=dict(sorted(logs.commits.items())),
        crc_faults=logs.crc_faults,
        sources=_sources(logs, known),
        sources_exist=None if isinstance(folders, LogFault) else folders is not None,
        schema_logs=(*(log for folder in known for log in folder.schema_logs), *schema_logs),
        state=state,
        leftovers=leftovers,
        leftover_count=len(leftovers) + logs.hidden_leftovers,
        strange=_strange(root, logs, leftovers),
        other_faults=(*([folders] if isinstance(folders, LogFault) else []), *schema_faults, *_odd_folders(root)),
        sampled=_sampled(logs, known, state),
        files=len(sizes)
        + sum(len(folder.ids) for folder in logs.folders)
        + sum(folder.files for folder in known)
        + state.files,
        size=sum(sizes) + sum(one.size for one in logs.folders) + sum(one.size for one in known) + state.size,
        metadata_trailing="" if metadata_fault or not metadata_data else behind_json(metadata_data),
        metadata_modified=root["metadata"].modified if "metadata" in root else None,
        folder_modified=_own_time(storage),
        newest_modified=_newest(root, logs),
    )


def _list_root(storage: Storage) -> dict[str, FolderEntry] | Checkpoint:
    """What lies in the folder. Where nothing is there, or the folder cannot be listed: a checkpoint without content."""
    try:
        root = {entry.name: entry for entry in storage.list_folder("")}
        if "metadata" not in root and is_there(storage, "metadata"):
            root = {entry.name: entry for entry in storage.list_folder("")}
            if "metadata" not in root:
                raise OSError("metadata is there, and the listing of the folder lacks it")
    except FileNotFoundError:
        return _absent(storage, exists=False)
    except NotADirectoryError:
        signpost = read_signpost(Path(storage.location)) if storage.kind == "local" else None
        said = f", and says that the checkpoint {signpost.says}" if signpost else ""
        return _absent(
            storage, exists=True, fault=LogFault("", NOT_A_FILE, f"there is a file where the folder should be{said}")
        )
    except OSError as error:
        return _absent(storage, exists=None, fault=LogFault("", UNREADABLE, f"{type(error).__name__}: {error}"))
    return root


def _read_schema_logs(storage: Storage, root: Mapping[str, FolderEntry]) -> tuple[list[SchemaLog], list[LogFault]]:
    """Those that lie beside the logs, where a Delta source was told to keep its own there."""
    names = [name for name, entry in root.items() if entry.kind == FOLDER and name.startswith("_schema_log_")]
    found = [read_schema_log(storage, name) for name in names]
    return (
        [log for log in found if not isinstance(log, LogFault)],
        [log for log in found if isinstance(log, LogFault)],
    )


def _odd_folders(root: Mapping[str, FolderEntry]) -> list[LogFault]:
    odd = sorted(name for name, entry in root.items() if entry.kind == OTHER and name in ("sources", "state"))
    return [LogFault(name, UNREADABLE, f"{name} is a device, a pipe or a link to nothing") for name in odd]


def _leftovers(
    root: Mapping[str, FolderEntry], logs: BatchLogs, known: Sequence[SourceFolder], state: StateFolder
) -> tuple[str, ...]:
    """Files of writes that did not end."""
    return (
        *(name for name in root if is_leftover(name) and name != ".metadata.crc"),
        *(name for folder in logs.folders for name in folder.leftovers),
        *state.leftovers,
        *(name for folder in known for name in folder.leftovers),
    )


def _strange(root: Mapping[str, FolderEntry], logs: BatchLogs, leftovers: Sequence[str]) -> tuple[str, ...]:
    """Files and folders of a kind that surestart does not know."""
    known = {*ROOT_NAMES, *leftovers, ".metadata.crc"}
    return (
        *sorted(name for name in root if name not in known),
        *(name for folder in logs.folders for name in folder.strays),
    )


def _newest(root: Mapping[str, FolderEntry], logs: BatchLogs) -> float | None:
    times = (*(entry.modified for entry in root.values()), *(folder.last_modified for folder in logs.folders))
    return max((time for time in times if time is not None), default=None)


def _own_time(storage: Storage) -> float | None:
    """When a name was last added to the folder or taken from it; only a local disk says."""
    try:
        return Path(storage.location).stat().st_mtime if storage.kind == "local" else None
    except OSError:
        return None


def _absent(storage: Storage, *, exists: bool | None, fault: LogFault | None = None) -> Checkpoint:
    return Checkpoint(
        location=storage.location,
        storage=storage.kind,
        checks_crc=storage.checks_crc,
        exists=exists,
        query_id=None,
        metadata_fault=None,
        offsets_folder=LogFolder("offsets", exists=exists and False),
        commits_folder=LogFolder("commits", exists=exists and False),
        other_faults=(fault,) if fault else (),
    )


def _sources(logs: BatchLogs, known: tuple[SourceFolder, ...]) -> tuple[CheckpointSource, ...]:
    folders, offsets = {item.id: item for item in known}, logs.offsets
    latest = None if logs.offsets_folder.last is None else offsets.get(logs.offsets_folder.last)
    if not isinstance(latest, OffsetLogEntry):
        return tuple(CheckpointSource(item.id, item.kind, None, None, item) for item in known)
    before = offsets.get(latest.batch - 1)
    starts = {item.id: item.position for item in before.sources} if isinstance(before, OffsetLogEntry) else {}
    found = []
    for item in latest.sources:
        own = folders.pop(item.id, None)
        found.append(_source(item, starts.get(item.id), own))
    return (*found, *(CheckpointSource(item.id, item.kind, None, None, item) for item in folders.values()))


def _source(item: SourceOffset, start: Position | None, folder: SourceFolder | None) -> CheckpointSource:
    end, kind = item.position, item.position.kind
    known_by_folder = folder.kind if folder and folder.kind not in (positions.NONE_YET, positions.UNKNOWN) else ""
    if kind in (positions.NUMBER, positions.NONE_YET, positions.UNKNOWN) and known_by_folder:
        kind = known_by_folder
    return CheckpointSource(item.id, kind, _name_number(start, kind), _name_number(end, kind), folder)


def _name_number(position: Position | None, kind: str) -> Position | None:
    if isinstance(position, NumberPosition) and kind == positions.RATE:
        return NumberPosition(position.value, kind=positions.RATE)
    return position


def _sampled(logs: BatchLogs, known: tuple[SourceFolder, ...], state: StateFolder) -> tuple[str, ...]:
    said = []
    for folder, read in ((logs.offsets_folder, logs.offsets), (logs.commits_folder, logs.commits)):
        if len(folder.ids) > len(read):
            said.append(f"{folder.name}/: {len(read)} newest of {len(folder.ids)} files read, the rest by name only")
    return (*said, *(folder.sampled for folder in known if folder.sampled), *([state.sampled] if state.sampled else []))


def is_checkpoint(checkpoint: Checkpoint) -> bool:
    return not checkpoint.strange or bool(
        checkpoint.query_id
        or checkpoint.metadata_fault
        or checkpoint.offsets_folder.exists
        or checkpoint.commits_folder.exists
        or checkpoint.sources_exist
        or checkpoint.state.exists
    )
