"""state/: operators, partitions, stores, and the versions there. Batch V loads version V, which batch V-1 wrote.

state/0/_metadata/metadata            operator name, stores, number of partitions     (Spark 4.0+)
state/0/_metadata/v2/<batch>          the same for transformWithState and newer joins
state/0/0/_metadata/schema            key and value schema
state/0/0/[store/]  5.delta 5.snapshot                     HDFS-backed provider
                    5.zip 5.changelog SSTs/                RocksDB
                    5_<uuid>.zip 5_<uuid>.changelog        RocksDB, checkpoint format v2: the uuid is in commits/4
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from surestart.checkpoint.log_file import (
    EMPTY,
    NOT_A_FILE,
    STALE_CRC,
    UNREADABLE,
    LogFault,
    crc_disagrees,
)
from surestart.checkpoint.state_operator import OperatorNotes, read_operator_notes, read_state_schema
from surestart.checkpoint.storage import FILE, FOLDER, Storage

DEFAULT_STORE = "default"
_STATE_FILE = re.compile(r"(\d{1,18})(?:_([0-9a-fA-F-]{1,64}))?\.(delta|snapshot|zip|changelog)")
LISTINGS_LOCAL = 20_000
LISTINGS_REMOTE = 256
# Checking a checksum means reading the file: enough for any state that is read in well under a second.
CRC_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class StoreVersions:
    """One store of one partition. full: versions with a snapshot; steps: a delta or changelog; ids: their uuids."""

    full: frozenset[int] = frozenset()
    steps: frozenset[int] = frozenset()
    ids: Mapping[int, frozenset[str]] = field(default_factory=dict)
    files: int = 0
    size: int = 0

    @property
    def latest(self) -> int | None:
        return max(self.full | self.steps, default=None)

    @property
    def oldest(self) -> int | None:
        return min(self.full | self.steps, default=None)

    def missing_for(self, version: int, provider: str) -> str:
        """What a restart that loads `version` would not find, or ""."""
        if version == 0 or version in self.full:
            return ""
        if provider == ROCKSDB and not self.steps:
            return f"snapshot {version}.zip"
        base = max((number for number in self.full if number < version), default=0)
        gap = next((number for number in range(base + 1, version + 1) if number not in self.steps), None)
        return "" if gap is None else f"version {gap}"


HDFS = "hdfs"
ROCKSDB = "rocksdb"


@dataclass(frozen=True)
class StateOperator:
    """stores: (partition, store name) -> versions. partitions: as declared in _metadata, else as found."""

    id: int
    name: str | None
    partitions: int
    declared_partitions: int | None
    store_names: tuple[str, ...]
    stores: Mapping[tuple[int, str], StoreVersions]
    schema: str = ""
    schema_paths: tuple[str, ...] = ()
    size: int = 0


@dataclass(frozen=True)
class State:
    """exists: there is a state folder. provider: hdfs, rocksdb or None when there is no state file."""

    exists: bool | None
    provider: str | None = None
    operators: tuple[StateOperator, ...] = ()
    format_v2: bool = False
    checksum_files: int = 0
    files: int = 0
    size: int = 0
    leftovers: tuple[str, ...] = ()
    faults: tuple[LogFault, ...] = ()
    sampled: str = ""


@dataclass
class _Walk:
    """Counts listings against a budget: a hostile tree would otherwise be walked for hours."""

    storage: Storage
    left: int
    cut: int = 0
    needed: int | None = None
    crc_bytes: int = CRC_BYTES

    def folder(self, path: str) -> list[tuple[str, str, int]]:
        if self.left <= 0:
            self.cut += 1
            return []
        self.left -= 1
        return [(entry.name, entry.kind, entry.size or 0) for entry in self.storage.list_folder(path)]


def read_state(storage: Storage, needed: int | None = None) -> State:
    """Listings grow with operators x partitions x stores, never with the number of files.

    needed: the version that the next batch loads; on a local file system its files are held against their checksums.
    """
    budget = LISTINGS_LOCAL if storage.kind == "local" else LISTINGS_REMOTE
    walk = _Walk(storage, budget, needed=needed if storage.checks_crc else None)
    try:
        names = walk.folder("state")
    except FileNotFoundError:
        return State(exists=False)
    except OSError as error:
        kind = NOT_A_FILE if isinstance(error, NotADirectoryError) else UNREADABLE
        return State(exists=None, faults=(LogFault("state", kind, f"{type(error).__name__}: {error}"),))
    tally = _Tally()
    operators = []
    for name, kind, _ in sorted(names):
        if kind == FOLDER and re.fullmatch(r"\d{1,9}", name):
            try:
                operators.append(_read_operator(walk, int(name), tally))
            except OSError as error:
                tally.faults.append(LogFault(f"state/{name}", UNREADABLE, f"{type(error).__name__}: {error}"))
    return State(
        exists=True,
        provider=tally.provider,
        operators=tuple(sorted(operators, key=lambda operator: operator.id)),
        format_v2=tally.format_v2,
        checksum_files=tally.checksums,
        files=tally.files,
        size=tally.size,
        leftovers=tuple(sorted(tally.leftovers)[:20]),
        faults=tuple(tally.faults),
        sampled=f"state/: {walk.cut} folders not listed" if walk.cut else "",
    )


@dataclass
class _Tally:
    provider: str | None = None
    format_v2: bool = False
    checksums: int = 0
    files: int = 0
    size: int = 0
    unchecked: int = 0
    leftovers: list[str] = field(default_factory=list)
    faults: list[LogFault] = field(default_factory=list)


def _read_operator(walk: _Walk, operator: int, tally: _Tally) -> StateOperator:
    folder = f"state/{operator}"
    stores: dict[tuple[int, str], StoreVersions] = {}
    names = walk.folder(folder)
    partitions = sorted(int(name) for name, kind, _ in names if kind == FOLDER and re.fullmatch(r"\d{1,9}", name))
    before = tally.size
    for partition in partitions:
        for store, versions in _read_partition(walk, f"{folder}/{partition}", tally):
            stores[partition, store] = versions
    notes, schema = OperatorNotes(), ""
    if any(entry == "_metadata" for entry, _, _ in names):
        notes = _noted(read_operator_notes(walk.storage, walk.folder, f"{folder}/_metadata"), tally)
    if partitions:
        first = min((store for _, store in stores), default=DEFAULT_STORE)
        own = "" if first == DEFAULT_STORE else f"/{first}"
        schema = _noted(read_state_schema(walk.storage, f"{folder}/{partitions[0]}{own}/_metadata/schema"), tally)
    declared = notes.partitions
    return StateOperator(
        id=operator,
        name=notes.name,
        partitions=declared if declared is not None else (partitions[-1] + 1 if partitions else 0),
        declared_partitions=declared,
        store_names=notes.stores or tuple(sorted({store for _, store in stores})),
        stores=stores,
        schema=schema,
        schema_paths=notes.schema_paths,
        size=tally.size - before,
    )


_Found = TypeVar("_Found")


def _noted(found: tuple[_Found, LogFault | None], tally: _Tally) -> _Found:
    if found[1] is not None:
        tally.faults.append(found[1])
    return found[0]


def _read_partition(walk: _Walk, folder: str, tally: _Tally) -> Iterator[tuple[str, StoreVersions]]:
    entries = walk.folder(folder)
    own = _versions(walk, folder, entries, tally)
    if own.files:
        yield DEFAULT_STORE, own
    for name, kind, _ in entries:
        if kind == FOLDER and name not in ("SSTs", "logs", "_metadata"):
            yield name, _versions(walk, f"{folder}/{name}", walk.folder(f"{folder}/{name}"), tally)


def _versions(walk: _Walk, folder: str, entries: list[tuple[str, str, int]], tally: _Tally) -> StoreVersions:
    full: set[int] = set()
    steps: set[int] = set()
    ids: dict[int, set[str]] = {}
    files = size = 0
    for name, kind, length in entries:
        if kind != FILE:
            continue
        tally.files += 1
        tally.size += length
        size += length
        match = _STATE_FILE.fullmatch(name)
        if match and length == 0:
            tally.faults.append(LogFault(f"{folder}/{name}", EMPTY, "a state file of 0 bytes"))
        elif match:
            files += 1
            version = int(match.group(1))
            (full if match.group(3) in ("snapshot", "zip") else steps).add(version)
            tally.provider = tally.provider or (HDFS if match.group(3) in ("delta", "snapshot") else ROCKSDB)
            if match.group(2):
                tally.format_v2 = True
                ids.setdefault(version, set()).add(match.group(2).lower())
        elif name.endswith(".crc") and not name.startswith("."):
            tally.checksums += 1
        elif name.endswith(".tmp"):
            tally.leftovers.append(f"{folder}/{name}")
    if walk.needed is not None:
        _check_crcs(walk, folder, {name: length for name, _, length in entries}, full, steps, tally)
    return StoreVersions(
        frozenset(full), frozenset(steps), {version: frozenset(found) for version, found in ids.items()}, files, size
    )


def _check_crcs(
    walk: _Walk, folder: str, names: Mapping[str, int], full: set[int], steps: set[int], tally: _Tally
) -> None:
    """Takes out the versions whose file is not what its checksum was made for: Spark cannot load them."""
    assert walk.needed is not None
    base = max((version for version in full if version <= walk.needed), default=0)
    for name, length in names.items():
        match = _STATE_FILE.fullmatch(name)
        if not match or not base <= int(match.group(1)) <= walk.needed or f".{name}.crc" not in names:
            continue
        if length > walk.crc_bytes:
            tally.unchecked += 1
            continue
        walk.crc_bytes -= length
        data = walk.storage.read_file(f"{folder}/{name}", length + 1)
        why = crc_disagrees(data, walk.storage.read_file(f"{folder}/.{name}.crc", 1 << 20))
        if why:
            tally.faults.append(LogFault(f"{folder}/{name}", STALE_CRC, why))
            (full if match.group(3) in ("snapshot", "zip") else steps).discard(int(match.group(1)))
