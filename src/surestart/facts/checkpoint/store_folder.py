"""One store of a partition: its versions, held against the checksums and the snapshots that a start would load.

5.delta 5.snapshot                     HDFS-backed provider
5.zip 5.changelog SSTs/                RocksDB; store_files
5_<uuid>.zip 5_<uuid>.changelog        RocksDB, checkpoint format v2: the uuid is in commits/4
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from surestart.facts.checkpoint.lineage import find_base, read_lineage
from surestart.facts.checkpoint.log_file import (
    EMPTY,
    STALE_CRC,
    TORN,
    UNREADABLE,
    VERSION,
    FormatError,
    LogFault,
    crc_disagrees,
    parse_object,
)
from surestart.facts.checkpoint.log_folder import FAULTS, is_leftover
from surestart.facts.checkpoint.open_file import unpacked
from surestart.facts.checkpoint.state_records import why_cut_off
from surestart.facts.checkpoint.store_files import (
    FOLDERS,
    HDFS,
    ROCKSDB,
    SNAPSHOT_LIMIT,
    StoreVersions,
    lacks,
    read_notes,
)
from surestart.facts.storage.read_budget import charge
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, Storage

STATE_FILE = re.compile(r"(0|[1-9][0-9]{0,17})(?:_([0-9a-fA-F-]{1,64}))?\.(delta|snapshot|zip|changelog)")
# Checking a checksum means reading the file: enough for any state that is read in well under a second.
CRC_BYTES = 32 * 1024 * 1024
# A snapshot's own file is some kB: enough for ten thousand partitions.
SNAPSHOT_BYTES = 64 * 1024 * 1024
# Of state files whose last bytes do not tell that they are whole: unpacked in about a second.
UNPACKED_BYTES = 4 * 1024 * 1024
# State files whose end is looked at: a network disk takes some milliseconds for each.
ENDS = 2_000


@dataclass
class StateWalk:
    """Counts listings and reads against a budget: a hostile tree would otherwise be walked for hours.

    needed: the version that the next batch loads.
    crcs: Spark holds the files against their checksums there."""

    storage: Storage
    left: int
    cut: int = 0
    needed: int | None = None
    crcs: bool = False
    crc_bytes: int = CRC_BYTES
    snapshot_bytes: int = SNAPSHOT_BYTES
    unpacked_bytes: int = UNPACKED_BYTES
    ends: int = ENDS

    def folder(self, path: str) -> list[tuple[str, str, int]]:
        if self.left <= 0:
            self.cut += 1
            return []
        self.left -= 1
        found = [(entry.name, entry.kind, entry.size or 0) for entry in self.storage.list_folder(path)]
        for name, kind, _ in found:
            # Such as a partition on another disk: Spark follows the link, and nobody here has looked.
            if kind == OTHER and not STATE_FILE.fullmatch(name) and not is_leftover(name):
                raise OSError(f"{path}/{name} is a device, a pipe or a link that leads out: not opened")
        return found

    def may_unpack(self, size: int) -> bool:
        if size > self.unpacked_bytes:
            return False
        self.unpacked_bytes -= size
        return True

    def snapshot(self, path: str, size: int) -> bytes | None:
        """None: there are too many of them, or too large ones, to open them all."""
        if self.left <= 0 or size > SNAPSHOT_LIMIT or size > self.snapshot_bytes:
            self.cut += 1
            return None
        self.left -= 1
        self.snapshot_bytes -= size
        data = self.storage.read_file(path, size + 1)
        if len(data) != size:
            raise OSError(f"{path} gave {len(data)} of {size} bytes")
        return data


@dataclass
class StateTally:
    provider: str | None = None
    format_v2: bool = False
    checksums: int = 0
    files: int = 0
    size: int = 0
    leftovers: list[str] = field(default_factory=list)
    faults: list[LogFault] = field(default_factory=list)


@dataclass
class _Store:
    """The files of one store while they are read.

    names, below: the size of each file in its folder, and in the folders of tables below that.
    full: versions that have a snapshot.
    steps: versions that are changes of the one before.
    torn: versions among the steps whose file is cut off.
    ids: format 2: the ids of the files of a version.
    broken: what keeps a snapshot from being loaded."""

    walk: StateWalk
    folder: str
    tally: StateTally
    names: Mapping[str, int]
    below: Mapping[str, int]
    full: set[int] = field(default_factory=set)
    steps: set[int] = field(default_factory=set)
    torn: set[int] = field(default_factory=set)
    ids: dict[int, set[str]] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)

    def take_in(self, name: str, kind: str, length: int) -> bool:
        """Whether it is a state file that holds something."""
        path, match = f"{self.folder}/{name}", STATE_FILE.fullmatch(name)
        if match and kind != FILE:
            self._note(LogFault(path, UNREADABLE, f"{path} is not a file: not opened"))
        elif match and length == 0:
            self._note(LogFault(path, EMPTY, "a state file of 0 bytes"))
        elif match:
            version = int(match.group(1))
            (self.full if match.group(3) in ("snapshot", "zip") else self.steps).add(version)
            self.tally.provider = self.tally.provider or (HDFS if match.group(3) in ("delta", "snapshot") else ROCKSDB)
            if match.group(2):
                self.tally.format_v2 = True
                self.ids.setdefault(version, set()).add(match.group(2).lower())
            return True
        elif kind == FILE and name.endswith(".crc") and not name.startswith("."):
            self.tally.checksums += 1
        elif kind == FILE and name.endswith(".tmp"):
            self.tally.leftovers.append(path)
        return False

    def _note(self, fault: LogFault) -> None:
        if len(self.tally.faults) < FAULTS:
            self.tally.faults.append(fault)

    def files_of(self, first: int, last: int) -> Iterator[tuple[str, int, re.Match[str], int]]:
        """Name, size, match and version of each state file of these versions."""
        for name, length in self.names.items():
            match = STATE_FILE.fullmatch(name)
            if match and first <= int(match.group(1)) <= last:
                yield name, length, match, int(match.group(1))

    def lose(self, name: str, match: re.Match[str], kind: str, why: str) -> None:
        """Spark cannot load that file, so the version is not there, or what comes after its snapshot is not."""
        version = int(match.group(1))
        self.tally.faults.append(LogFault(f"{self.folder}/{name}", kind, why))
        if match.group(3) in ("snapshot", "zip"):
            self.broken[version] = f"a whole {name} ({why})"
        else:
            self.steps.discard(version)


def read_versions(
    walk: StateWalk, folder: str, entries: list[tuple[str, str, int]], tally: StateTally
) -> StoreVersions:
    below = {
        f"{inner}/{name}": length
        for inner, kind, _ in entries
        if kind == FOLDER and inner in FOLDERS
        for name, is_a, length in walk.folder(f"{folder}/{inner}")
        if is_a == FILE
    }
    store = _Store(walk, folder, tally, {name: length for name, _, length in entries}, below)
    files = [store.take_in(*entry) for entry in entries].count(True)
    own = [length for _, kind, length in entries if kind == FILE]
    size = sum(below.values()) + sum(own)
    tally.files += len(below) + len(own)
    tally.size += size
    lacking: dict[tuple[int, str], str] = {}
    rows: tuple[int, int] | None = None
    if walk.needed is not None:
        base = max((version for version in store.full if version <= walk.needed), default=0)
        if walk.crcs:
            _check_crcs(store, base, walk.needed)
        if walk.storage.kind == "local":
            _check_ends(store, base, walk.needed)
        if base and base not in store.broken:
            rows = _check_snapshot(store, base)
        lacking = {(walk.needed, one): _lacking(store, walk.needed, one) for one in store.ids.get(walk.needed, ())}
    ids = {version: frozenset(found) for version, found in store.ids.items()}
    full, steps, torn = frozenset(store.full), frozenset(store.steps), frozenset(store.torn)
    return StoreVersions(full, steps, torn, ids, store.broken, lacking, files, size, rows)


def _lacking(store: _Store, needed: int, own: str) -> str:
    """Format 2: what is missing of the needed version of this id, or ""."""
    walk, folder, names = store.walk, store.folder, store.names
    there = {name.lower(): name for name, length in names.items() if length and STATE_FILE.fullmatch(name)}
    lineage: dict[int, str] = {}
    changes = there.get(f"{needed}_{own}.changelog", "")
    if changes and f"{needed}_{own}.zip" not in there:
        if walk.left <= 0:
            walk.cut += 1
            return ""
        walk.left -= 1
        try:
            with walk.storage.open_file(f"{folder}/{changes}") as file:
                lineage = read_lineage(unpacked(file))
        except FormatError as error:
            if error.kind == VERSION:
                raise OSError(error.detail) from error
            return f"a whole {changes} ({error.detail})"
    base, missing = find_base(needed, own, lineage, there)
    if missing:
        return missing
    if walk.storage.kind == "local":
        ids = {**lineage, needed: own}
        for number in range(needed, int(base.partition("_")[0] or 0), -1):
            name = there[f"{number}_{ids[number].lower()}.changelog"]
            if why := _cut_off(walk, f"{folder}/{name}", names[name]):
                return f"a whole {name} ({why})"
    found = _lacks(store, base) if base else None
    return f"what snapshot {base} names ({found[0]})" if found and found[0] else ""


def _lacks(store: _Store, name: str) -> tuple[str, int | None] | None:
    """What is missing of the files that this snapshot names, or "", and how many rows it says that it has. None: it was
    not opened."""
    data = store.walk.snapshot(f"{store.folder}/{name}", store.names[name])
    if data is None:
        return None
    try:
        notes = read_notes(store.walk.storage, data, f"{store.folder}/{name}")
    except FormatError as error:
        if error.kind == VERSION:
            raise OSError(error.detail) from error
        return error.detail, None
    return lacks(notes.files, store.below), notes.rows


def _check_snapshot(store: _Store, base: int) -> tuple[int, int] | None:
    """The newest RocksDB snapshot that a start would load names its files: all of them have to be there. Of several of
    one version (format 2: one for each attempt) one that is whole is enough: which of them is loaded is not known.

    The version and its number of rows, where it is whole and says it."""
    whys = []
    for name, length, match, _ in store.files_of(base, base):
        if match.group(3) != "zip" or length == 0:
            continue
        found = _lacks(store, name)
        if found is None:
            return None
        why, rows = found
        if not why:
            return None if rows is None else (base, rows)
        store.tally.faults.append(LogFault(f"{store.folder}/{name}", TORN, why))
        whys.append(f"what snapshot {name} names ({why})")
    if whys:
        store.broken[base] = whys[0]
    return None


def _check_crcs(store: _Store, base: int, needed: int) -> None:
    """Takes out the versions whose file is not what its checksum was made for: Spark cannot load them."""
    walk, names = store.walk, store.names
    for name, length, match, _ in store.files_of(base, needed):
        path, checksum = f"{store.folder}/{name}", f"{store.folder}/.{name}.crc"
        if f"{name}.crc" in names and (why := size_disagrees(walk.storage, path, length)):
            store.lose(name, match, STALE_CRC, why)
            continue
        if f".{name}.crc" not in names or length > walk.crc_bytes:
            continue
        walk.crc_bytes -= length
        data = walk.storage.read_file(path, length + 1)
        crc = walk.storage.read_file(checksum, 1 << 20)
        charge(walk.storage, len(crc) // 16, checksum)
        if len(data) < length or len(crc) < names[f".{name}.crc"]:
            raise OSError(f"{path} or its checksum was cut off while it was read")
        if why := crc_disagrees(data, crc):
            store.lose(name, match, STALE_CRC, why)


def _check_ends(store: _Store, base: int, needed: int) -> None:
    """Takes out the versions whose file is cut off: there may be no checksum that says so. Format 2 may have several
    files of a version, and `_lacking` asks of those that are needed."""
    for name, length, match, version in store.files_of(base, needed):
        if not length or match.group(2) or match.group(3) == "zip":
            continue
        full = match.group(3) == "snapshot"
        if version in store.broken or not (full or version in store.steps):
            continue
        if why := _cut_off(store.walk, f"{store.folder}/{name}", length):
            store.lose(name, match, TORN, why)
            if not full:
                store.torn.add(version)


def _cut_off(walk: StateWalk, path: str, size: int) -> str:
    walk.ends -= 1
    if walk.ends < 0:
        return ""
    with walk.storage.open_file(path) as file:
        return why_cut_off(file, size, path.endswith(".changelog"), walk.may_unpack)


def size_disagrees(storage: Storage, path: str, size: int) -> str:
    """Why Spark 4.1 and newer would refuse a state file of that size, by the checksum file of its own; or ""."""
    try:
        noted = parse_object(storage.read_file(f"{path}.crc", 1 << 16).decode("utf-8", "replace"), path)["mainFileSize"]
    except (FormatError, KeyError):
        return "its checksum file is damaged itself"
    return "" if noted == size else f"it has {size} bytes, and its checksum was made for {str(noted)[:20]}"
