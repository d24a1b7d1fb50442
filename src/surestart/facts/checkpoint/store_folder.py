"""One store of a partition: its versions, held against the checksums and the snapshots that a start would load.

5.delta 5.snapshot                     HDFS-backed provider
5.zip 5.changelog SSTs/                RocksDB; store_files
5_<uuid>.zip 5_<uuid>.changelog        RocksDB, checkpoint format v2: the uuid is in commits/4
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def read_versions(
    walk: StateWalk, folder: str, entries: list[tuple[str, str, int]], tally: StateTally
) -> StoreVersions:
    full: set[int] = set()
    steps: set[int] = set()
    ids: dict[int, set[str]] = {}
    files = size = 0
    below: dict[str, int] = {}
    for inner, kind, _ in entries:
        if kind == FOLDER and inner in FOLDERS:
            below |= {
                f"{inner}/{name}": length for name, is_a, length in walk.folder(f"{folder}/{inner}") if is_a == FILE
            }
    tally.files += len(below)
    tally.size += sum(below.values())
    size += sum(below.values())
    for name, kind, length in entries:
        if kind != FILE:
            if STATE_FILE.fullmatch(name) and len(tally.faults) < FAULTS:
                tally.faults.append(
                    LogFault(f"{folder}/{name}", UNREADABLE, f"{folder}/{name} is not a file: not opened")
                )
            continue
        tally.files += 1
        tally.size += length
        size += length
        match = STATE_FILE.fullmatch(name)
        if match and length == 0:
            if len(tally.faults) < FAULTS:
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
    broken: dict[int, str] = {}
    lacking: dict[tuple[int, str], str] = {}
    rows: tuple[int, int] | None = None
    torn: frozenset[int] = frozenset()
    if walk.needed is not None:
        names = {name: length for name, _, length in entries}
        base = max((version for version in full if version <= walk.needed), default=0)
        if walk.crcs:
            _check_crcs(walk, folder, names, base, steps, broken, tally)
        if walk.storage.kind == "local":
            torn = _check_ends(walk, folder, names, base, steps, broken, tally)
        if base and base not in broken:
            rows = _check_snapshot(walk, folder, names, below, base, broken, tally)
        for one in ids.get(walk.needed, ()):
            lacking[walk.needed, one] = _lacking(walk, folder, names, below, one)
    kept = {version: frozenset(found) for version, found in ids.items()}
    return StoreVersions(frozenset(full), frozenset(steps), torn, kept, broken, lacking, files, size, rows)


def _lacking(walk: StateWalk, folder: str, names: Mapping[str, int], below: Mapping[str, int], own: str) -> str:
    """Format 2: what is missing of the needed version of this id, or ""."""
    assert walk.needed is not None
    there = {name.lower(): name for name, length in names.items() if length and STATE_FILE.fullmatch(name)}
    lineage: dict[int, str] = {}
    changes = there.get(f"{walk.needed}_{own}.changelog", "")
    if changes and f"{walk.needed}_{own}.zip" not in there:
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
    base, missing = find_base(walk.needed, own, lineage, there)
    if missing:
        return missing
    if walk.storage.kind == "local":
        ids = {**lineage, walk.needed: own}
        for number in range(walk.needed, int(base.partition("_")[0] or 0), -1):
            name = there[f"{number}_{ids[number].lower()}.changelog"]
            if why := _cut_off(walk, f"{folder}/{name}", names[name]):
                return f"a whole {name} ({why})"
    if not base:
        return ""
    data = walk.snapshot(f"{folder}/{base}", names[base])
    if data is None:
        return ""
    try:
        why = lacks(read_notes(walk.storage, data, f"{folder}/{base}").files, below)
    except FormatError as error:
        if error.kind == VERSION:
            raise OSError(error.detail) from error
        why = error.detail
    return f"what snapshot {base} names ({why})" if why else ""


def _check_snapshot(
    walk: StateWalk,
    folder: str,
    names: Mapping[str, int],
    below: Mapping[str, int],
    base: int,
    broken: dict[int, str],
    tally: StateTally,
) -> tuple[int, int] | None:
    """The newest RocksDB snapshot that a start would load names its files: all of them have to be there. Of several of
    one version (format 2: one for each attempt) one that is whole is enough: which of them is loaded is not known.

    The version and its number of rows, where it is whole and says it."""
    whys = []
    for name, length in names.items():
        match = STATE_FILE.fullmatch(name)
        if not match or match.group(3) != "zip" or int(match.group(1)) != base or length == 0:
            continue
        data = walk.snapshot(f"{folder}/{name}", length)
        if data is None:
            return None
        try:
            notes = read_notes(walk.storage, data, f"{folder}/{name}")
            why = lacks(notes.files, below)
        except FormatError as error:
            if error.kind == VERSION:
                raise OSError(error.detail) from error
            why = error.detail
        if not why:
            return None if notes.rows is None else (base, notes.rows)
        tally.faults.append(LogFault(f"{folder}/{name}", TORN, why))
        whys.append(f"what snapshot {name} names ({why})")
    if whys:
        broken[base] = whys[0]
    return None


def _check_crcs(
    walk: StateWalk,
    folder: str,
    names: Mapping[str, int],
    base: int,
    steps: set[int],
    broken: dict[int, str],
    tally: StateTally,
) -> None:
    """Takes out the versions whose file is not what its checksum was made for: Spark cannot load them."""
    assert walk.needed is not None

    def lose(name: str, match: re.Match[str], why: str) -> None:
        tally.faults.append(LogFault(f"{folder}/{name}", STALE_CRC, why))
        if match.group(3) in ("snapshot", "zip"):
            broken[int(match.group(1))] = f"a whole {name} ({why})"
        else:
            steps.discard(int(match.group(1)))

    for name, length in names.items():
        match = STATE_FILE.fullmatch(name)
        if not match or not base <= int(match.group(1)) <= walk.needed:
            continue
        if f"{name}.crc" in names and (why := size_disagrees(walk.storage, f"{folder}/{name}", length)):
            lose(name, match, why)
            continue
        if f".{name}.crc" not in names:
            continue
        if length > walk.crc_bytes:
            continue
        walk.crc_bytes -= length
        data = walk.storage.read_file(f"{folder}/{name}", length + 1)
        crc = walk.storage.read_file(f"{folder}/.{name}.crc", 1 << 20)
        charge(walk.storage, len(crc) // 16, f"{folder}/.{name}.crc")
        if len(data) < length or len(crc) < names[f".{name}.crc"]:
            raise OSError(f"{folder}/{name} or its checksum was cut off while it was read")
        if why := crc_disagrees(data, crc):
            lose(name, match, why)


def _check_ends(
    walk: StateWalk,
    folder: str,
    names: Mapping[str, int],
    base: int,
    steps: set[int],
    broken: dict[int, str],
    tally: StateTally,
) -> frozenset[int]:
    """Takes out the versions whose file is cut off: there may be no checksum that says so. Gives the steps among them.
    Format 2 may have several files of a version, and `_lacking` asks of those that are needed."""
    assert walk.needed is not None
    torn = set()
    for name, length in names.items():
        match = STATE_FILE.fullmatch(name)
        if not match or not length or match.group(2) or match.group(3) == "zip":
            continue
        version = int(match.group(1))
        full = match.group(3) == "snapshot"
        if not base <= version <= walk.needed or version in broken or not (full or version in steps):
            continue
        if why := _cut_off(walk, f"{folder}/{name}", length):
            tally.faults.append(LogFault(f"{folder}/{name}", TORN, why))
            if full:
                broken[version] = f"a whole {name} ({why})"
            else:
                steps.discard(version)
                torn.add(version)
    return frozenset(torn)


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
