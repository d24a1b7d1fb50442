"""A checkpoint as it was when batch N had been committed, made of the entries that Spark wrote.

    metadata            another query id: a sink remembers the present one past N
    offsets, commits    N and older
    sources/K           files: the list up to the entry that offsets/N names; Kafka, rate: as it is
    state               versions up to N + 1, which batch N wrote, and the files that they name
    .crc                with its file, where that is copied as it is

A cut is a value: `CutStorage` shows it to any reader of checkpoints while nothing is written yet. A file of an
unknown kind is neither left out nor copied in silence: `CannotCut` names it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from typing import BinaryIO

from surestart.facts.checkpoint.batch_logs import OffsetLogEntry, parse_offset_log
from surestart.facts.checkpoint.file_list import LONGEST
from surestart.facts.checkpoint.log_file import LOG_LIMIT, VERSION, FormatError, parse_object, split_log_lines
from surestart.facts.checkpoint.log_folder import is_batch_name, is_leftover
from surestart.facts.checkpoint.positions import FilesPosition, NumberPosition
from surestart.facts.checkpoint.source_folder import read_source_folder
from surestart.facts.checkpoint.store_files import FOLDERS, SNAPSHOT_LIMIT, read_named_files
from surestart.facts.checkpoint.store_folder import STATE_FILE
from surestart.facts.storage.read_budget import read_lines
from surestart.facts.storage.storage import FILE, FOLDER, FolderEntry, Storage, StorageOf

METADATA = "metadata"
_OURS = ("offsets", "commits", "sources", "state")
_IDLE = ("receivers", "__tmp_path_dir")
_SCHEMA_LOG = "_schema_log_"
_STATE_SCHEMA = re.compile(r"(0|[1-9][0-9]{0,17})_[0-9a-fA-F-]{1,64}")


class CannotCut(Exception):
    """Why no checkpoint can be made of this one that ends with the batch."""


@dataclass(frozen=True)
class Shortened:
    """The list of a file source up to entry `last`, taken from the lines of `origin`."""

    origin: str
    last: int


@dataclass(frozen=True)
class Cut:
    """copied: files as they are, with their bytes.
    shortened: lists that nobody has kept as they were then.
    folders: as in the origin, also those that are empty.
    left_out: what in the origin's folder is no part of a checkpoint."""

    batch: int
    query_id: str
    copied: Mapping[str, int]
    shortened: Mapping[str, Shortened] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def metadata(self) -> bytes:
        return json.dumps({"id": self.query_id}, separators=(",", ":")).encode()

    @property
    def size(self) -> int:
        return sum(self.copied.values())


def read_cut(storage: Storage, batch: int, query_id: str) -> Cut:
    """Reads names, the offsets of the batch and what RocksDB's snapshots name. Raises CannotCut."""
    root = {entry.name: entry for entry in _listed(storage, "")}
    copied: dict[str, int] = {}
    for log in ("offsets", "commits"):
        _take_log(storage, log, batch, copied)
    shortened: dict[str, Shortened] = {}
    folders = [name for name in _OURS if name in root and root[name].kind == FOLDER]
    _take_sources(storage, _positions(storage, batch), copied, shortened, folders)
    if "state" in folders:
        _take_state(storage, batch, copied, folders)
    known = {METADATA, *_OURS, *_IDLE}
    strange = [name for name in sorted(root) if name not in known and not is_leftover(name)]
    logs = [name for name in strange if name.startswith(_SCHEMA_LOG)]
    for name in logs:
        _take_schema_log(storage, name, copied, folders)
    left_out = tuple(name for name in strange if name not in logs)
    return Cut(batch, query_id, copied, shortened, tuple(sorted(folders)), left_out)


def _take_log(storage: Storage, log: str, batch: int, copied: dict[str, int]) -> None:
    entries = {entry.name: entry for entry in _listed(storage, log)}
    if str(batch) not in entries:
        raise CannotCut(f"{log}/{batch} is not kept")
    if log == "offsets" and batch and str(batch - 1) not in entries:
        # Spark reads both at a start (MicroBatchExecution.populateStartOffsets).
        raise CannotCut(f"{log}/{batch - 1} is not kept, which a start after batch {batch} reads")
    for name in entries:
        if is_batch_name(name) and int(name) <= batch:
            _copy(log, entries, name, copied)


def _positions(storage: Storage, batch: int) -> Mapping[str, object]:
    try:
        with storage.open_file(f"offsets/{batch}") as file:
            entry: OffsetLogEntry = parse_offset_log(batch, file.read(LOG_LIMIT + 1))
    except (OSError, FormatError) as error:
        raise CannotCut(f"offsets/{batch} cannot be read ({error})") from error
    return {source.id: source.position for source in entry.sources}


def _take_sources(
    storage: Storage,
    positions: Mapping[str, object],
    copied: dict[str, int],
    shortened: dict[str, Shortened],
    folders: list[str],
) -> None:
    if "sources" not in folders:
        return
    for entry in _listed(storage, "sources"):
        path = f"sources/{entry.name}"
        if entry.kind != FOLDER:
            raise CannotCut(f"{path} is not a folder of a source")
        folders.append(path)
        entries = {one.name: one for one in _listed(storage, path)}
        for name in [name for name, one in entries.items() if one.kind == FOLDER]:
            if name == "rocksdb":
                raise CannotCut(
                    f"{path} is Auto Loader's own database of files: what of it belongs to a batch only Databricks "
                    "can read"
                )
            if not name.startswith(_SCHEMA_LOG):
                raise CannotCut(f"what {path}/{name} is, is not known")
            _take_schema_log(storage, f"{path}/{name}", copied, folders)
        names = {
            name: one
            for name, one in entries.items()
            if one.kind == FILE and not is_leftover(name) and not name.endswith(".crc")
        }
        if names:
            _take_source(storage, path, entries, names, positions.get(entry.name), copied, shortened)


def _take_source(
    storage: Storage,
    path: str,
    entries: Mapping[str, FolderEntry],
    names: Mapping[str, FolderEntry],
    position: object,
    copied: dict[str, int],
    shortened: dict[str, Shortened],
) -> None:
    strange = [name for name in names if not is_batch_name(name.removesuffix(".compact"))]
    if strange:
        raise CannotCut(f"what {path}/{strange[0]} is, is not known")
    found = read_source_folder(storage, path.partition("/")[2])
    if found.kind in ("kafka", "rate"):
        # Where it began: written once, and the same at every batch.
        for name in names:
            _copy(path, entries, name, copied)
        return
    if found.kind != "files":
        raise CannotCut(f"what the source of {path} keeps there is not known")
    if isinstance(position, FilesPosition | NumberPosition):
        last = position.log_offset if isinstance(position, FilesPosition) else position.value
        _take_list(path, entries, names, last, copied, shortened)
    elif position is not None and getattr(position, "kind", "") != "none yet":
        raise CannotCut(f"{path} is a list of files, and the batch's position is none in it")


def _take_list(
    path: str,
    entries: Mapping[str, FolderEntry],
    names: Mapping[str, FolderEntry],
    last: int,
    copied: dict[str, int],
    shortened: dict[str, Shortened],
) -> None:
    """Takes the list up to entry `last`. A compacted file holds all entries before it. Spark keeps one from before each
    batch that can still be asked for; where it has not, the next compacted file is shortened to entry `last`."""
    numbers = {int(name.partition(".")[0]): name for name in sorted(names)}
    compacts = sorted(number for number, name in numbers.items() if name.endswith(".compact"))
    base = max((number for number in compacts if number <= last), default=0)
    if all(number in numbers for number in range(base, last + 1)):
        for number, name in numbers.items():
            if number <= last:
                _copy(path, entries, name, copied)
        return
    later = next((number for number in compacts if number > last), None)
    if later is None:
        lacking = next(number for number in range(base, last + 1) if number not in numbers)
        raise CannotCut(f"{path}/{lacking} is not there, and no later file holds that entry")
    shortened[f"{path}/{last}.compact"] = Shortened(f"{path}/{later}.compact", last)


def _take_schema_log(storage: Storage, path: str, copied: dict[str, int], folders: list[str]) -> None:
    folders.append(path)
    entries = {entry.name: entry for entry in _listed(storage, path)}
    if any(is_batch_name(name) and int(name) > 0 for name in entries):
        raise CannotCut(f"{path} says that the table's schema has changed: which one the batch read is not told")
    for name in entries:
        if is_batch_name(name):
            _copy(path, entries, name, copied)


def _take_state(storage: Storage, batch: int, copied: dict[str, int], folders: list[str]) -> None:
    for operator in _listed(storage, "state"):
        if operator.kind == FOLDER:
            _take_folder(storage, f"state/{operator.name}", batch, copied, folders)
        elif not is_leftover(operator.name):
            raise CannotCut(f"what state/{operator.name} is, is not known")


def _take_folder(storage: Storage, path: str, batch: int, copied: dict[str, int], folders: list[str]) -> None:
    """Takes the folder of an operator, a partition or a store, with all that is below it."""
    folders.append(path)
    entries = {entry.name: entry for entry in _listed(storage, path)}
    notes = "_metadata" in path.split("/") or "_stateSchema" in path.split("/")
    for name, entry in entries.items():
        if entry.kind == FOLDER and name in FOLDERS:
            folders.append(f"{path}/{name}")
        elif entry.kind == FOLDER:
            _take_folder(storage, f"{path}/{name}", batch, copied, folders)
        elif is_leftover(name) or name.endswith(".crc"):
            continue
        elif (number := _number(name, notes)) is None:
            raise CannotCut(f"what {path}/{name} is, is not known")
        elif number <= (batch if notes else batch + 1):
            _copy(path, entries, name, copied)
            if name.endswith(".zip"):
                _take_named(storage, path, name, entry, copied)


def _number(name: str, notes: bool) -> int | None:
    """The version of a state file; of notes the batch that wrote them, -1 for those that are written once."""
    match = (_STATE_SCHEMA if notes else STATE_FILE).fullmatch(name)
    if match:
        return int(match[1])
    if notes and is_batch_name(name):
        return int(name)
    return -1 if notes and name in ("metadata", "schema") else None


def _take_named(storage: Storage, path: str, name: str, entry: FolderEntry, copied: dict[str, int]) -> None:
    """Takes the files that a RocksDB snapshot names. A missing file or a torn snapshot raises nothing here: it matters
    in the newest snapshot only, and there the doctor finds it when it reads the cut."""
    if (entry.size or 0) > SNAPSHOT_LIMIT:
        raise CannotCut(f"{path}/{name} has {entry.size:,} bytes: no snapshot that is known")
    try:
        named = read_named_files(storage, storage.read_file(f"{path}/{name}", SNAPSHOT_LIMIT), f"{path}/{name}")
    except FormatError as error:
        if error.kind == VERSION:
            raise CannotCut(error.detail) from error
        return
    wanted = {f"{path}/{one}" for one in named} - copied.keys()
    for folder in {one.rpartition("/")[0] for one in wanted}:
        entries = {one.name: one for one in _listed(storage, folder)}
        for one in entries:
            if f"{folder}/{one}" in wanted:
                _copy(folder, entries, one, copied)


def _copy(folder: str, entries: Mapping[str, FolderEntry], name: str, copied: dict[str, int]) -> None:
    """With the checksum that was made for it: hidden, as Hadoop's local file system has it, or Spark's own (4.1)."""
    if entries[name].kind != FILE:
        raise CannotCut(f"{folder}/{name} is not a file")
    for one in (name, f".{name}.crc", f"{name}.crc", f".{name}.crc.crc"):
        if one in entries and entries[one].kind == FILE:
            copied[f"{folder}/{one}"] = entries[one].size or 0


def _listed(storage: Storage, path: str) -> list[FolderEntry]:
    try:
        return list(storage.list_folder(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CannotCut(f"{path or storage.location} cannot be listed ({type(error).__name__}: {error})") from error


def shortened_lines(storage: Storage, which: Shortened) -> Iterator[bytes]:
    """The list's version, then each line of an entry that stays, as Spark wrote it, without what ends a line."""
    with storage.open_file(which.origin) as file:
        for index, line in enumerate(read_lines(file, LONGEST)):
            if index == 0 or (line and _entry_number(line, which.origin, index) <= which.last):
                yield bytes(line)


def _entry_number(line: bytes, path: str, index: int) -> int:
    try:
        number = parse_object(split_log_lines(bytes(line), path)[0], path)["batchId"]
    except (FormatError, KeyError) as error:
        raise CannotCut(f"line {index + 1} of {path} is not an entry of a list of files") from error
    if type(number) is not int:
        raise CannotCut(f"line {index + 1} of {path} is not an entry of a list of files")
    return number


@dataclass(frozen=True)
class CutStorage(StorageOf):
    """The cut as a checkpoint that can be read, while its files still lie in the other storage."""

    cut: Cut
    _made: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        if path and path not in self.cut.folders:
            raise FileNotFoundError(path)
        prefix = f"{path}/" if path else ""
        for entry in self.storage.list_folder(path):
            name = f"{prefix}{entry.name}"
            if name in (self.cut.folders if entry.kind == FOLDER else self.cut.copied):
                yield entry
        for name in self._ours():
            if name.rpartition("/")[0] == path:
                yield FolderEntry(name.rpartition("/")[2], FILE, len(self._content(name)))

    def read_file(self, path: str, limit: int) -> bytes:
        if path in self._ours():
            return self._content(path)[:limit]
        return self.storage.read_file(self._known(path), limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        if path in self._ours():
            return closing(io.BytesIO(self._content(path)))
        return self.storage.open_file(self._known(path))

    def _ours(self) -> tuple[str, ...]:
        return (METADATA, *self.cut.shortened)

    def _content(self, path: str) -> bytes:
        if path not in self._made:
            lines = [] if path == METADATA else list(shortened_lines(self.storage, self.cut.shortened[path]))
            self._made[path] = b"\n".join(lines) if lines else self.cut.metadata
        return self._made[path]

    def _known(self, path: str) -> str:
        if path not in self.cut.copied:
            raise FileNotFoundError(path)
        return path
