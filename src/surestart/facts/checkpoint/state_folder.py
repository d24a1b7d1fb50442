"""state/: operators, partitions, stores, and the versions there. Batch V loads version V, which batch V-1 wrote.

state/0/_metadata/metadata            operator name, stores, number of partitions     (Spark 4.0+)
state/0/_metadata/v2/<batch>          the same for transformWithState and newer joins
state/0/0/_metadata/schema            key and value schema
state/0/0/[store/]  5.delta 5.snapshot                     HDFS-backed provider
                    5.zip 5.changelog SSTs/                RocksDB; store_files
                    5_<uuid>.zip 5_<uuid>.changelog        RocksDB, checkpoint format v2: the uuid is in commits/4
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

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
from surestart.facts.checkpoint.log_folder import FAULTS, is_batch_name, is_leftover, is_there
from surestart.facts.checkpoint.state_operator import (
    DEFAULT_STORE,
    STORES,
    OperatorNotes,
    StoreSchema,
    keeps_one_partition,
    read_operator_notes,
    read_state_schema,
    schema_path,
    store_schema_text,
)
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
LISTINGS_LOCAL = 50_000
LISTINGS_REMOTE = 1_024
# Checking a checksum means reading the file: enough for any state that is read in well under a second.
CRC_BYTES = 32 * 1024 * 1024
# A snapshot's own file is some kB: enough for ten thousand partitions.
SNAPSHOT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class StateOperator:
    """stores: (partition, store name) -> versions.
    partitions: as declared in _metadata, else as found; 1 where all rows are of one partition, whatever is declared.
    schemas: of each store, one for each column family.
    torn_schema: the first that no start can read."""

    id: int
    name: str | None
    partitions: int
    declared_partitions: int | None
    store_names: tuple[str, ...]
    stores: Mapping[tuple[int, str], StoreVersions]
    schemas: Mapping[str, tuple[StoreSchema, ...]] = field(default_factory=dict)
    notes: OperatorNotes = field(default_factory=OperatorNotes)
    size: int = 0
    torn_schema: LogFault | None = None

    @property
    def schema(self) -> str:
        """Of the first store that has one, such as "key(k string) value(n bigint)"."""
        return next((store_schema_text(found) for _, found in sorted(self.schemas.items()) if found), "")

    @property
    def schema_paths(self) -> tuple[str, ...]:
        return self.notes.schema_paths


@dataclass(frozen=True)
class StateFolder:
    """exists: there is a state folder.
    provider: hdfs, rocksdb or None when there is no state file."""

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


def read_state(storage: Storage, needed: int | None = None) -> StateFolder:
    """Listings grow with operators x partitions x stores, never with the number of files.

    needed: the version that the next batch loads. The snapshot that it begins with is held against the files that it
    names, and on a local file system against its checksum.
    """
    budget = LISTINGS_LOCAL if storage.kind == "local" else LISTINGS_REMOTE
    walk = _Walk(storage, budget, needed=needed, crcs=storage.checks_crc)
    try:
        names = walk.folder("state")
    except FileNotFoundError:
        return StateFolder(exists=False)
    except OSError as error:
        return StateFolder(exists=None, faults=(LogFault("state", UNREADABLE, f"{type(error).__name__}: {error}"),))
    tally = _Tally()
    operators = []
    listed = [int(name) for name, kind, _ in names if kind == FOLDER and _is_number(name)]
    if lacking := _left_out(storage, 1 + max(listed, default=-1)):
        tally.faults.append(LogFault("state", UNREADABLE, f"{lacking} is there, and the listing of state/ lacks it"))
    # Spark counts its operators from 0, and each writes with every batch.
    first_gap = next(number for number in range(len(listed) + 1) if number not in set(listed))
    if any(first_gap <= int(name) for name, _, _ in names if _is_number(name)):
        why = f"state/{first_gap} is not a folder or is not there, and a later operator is"
        tally.faults.append(LogFault(f"state/{first_gap}", UNREADABLE, why))
    for name, kind, _ in sorted(names):
        if kind == FOLDER and _is_number(name):
            try:
                operators.append(_read_operator(walk, int(name), tally))
            except OSError as error:
                tally.faults.append(LogFault(f"state/{name}", UNREADABLE, f"{type(error).__name__}: {error}"))
    return StateFolder(
        exists=True,
        provider=tally.provider,
        operators=tuple(sorted(operators, key=lambda operator: operator.id)),
        format_v2=tally.format_v2,
        checksum_files=tally.checksums,
        files=tally.files,
        size=tally.size,
        leftovers=tuple(sorted(tally.leftovers)[:20]),
        faults=tuple(tally.faults),
        sampled=f"state/: {walk.cut} folders not listed or snapshots not opened" if walk.cut else "",
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
    if not names and (lacking := _left_out(walk.storage, operator)):
        raise OSError(f"{lacking} is there, and the listing of {folder}/ lacks it")
    partitions = sorted(int(name) for name, kind, _ in names if kind == FOLDER and _is_number(name))
    before = tally.size
    for partition in partitions:
        for store, versions in _read_partition(walk, f"{folder}/{partition}", tally):
            stores[partition, store] = versions
    notes = OperatorNotes()
    if any(entry == "_metadata" for entry, _, _ in names):
        notes = _noted(read_operator_notes(walk.storage, walk.folder, f"{folder}/_metadata"), tally)
    schemas = {}
    torn = None
    for store in sorted({store for _, store in stores} or {DEFAULT_STORE})[:STORES] if partitions else ():
        path = schema_path(operator, partitions[0], store, notes.schema_paths)
        found = read_state_schema(walk.storage, path)
        schemas[store] = _noted(found, tally)
        if torn is None and found[1] is not None and found[1].kind == TORN:
            torn = found[1]
    declared = notes.partitions
    count = partitions[-1] + 1 if partitions else 0
    if declared is not None and not (count == 1 and any(keeps_one_partition(found) for found in schemas.values())):
        count = declared
    return StateOperator(
        id=operator,
        name=notes.name,
        partitions=count,
        declared_partitions=declared,
        store_names=notes.stores or tuple(sorted({store for _, store in stores})),
        stores=stores,
        schemas=schemas,
        notes=notes,
        size=tally.size - before,
        torn_schema=torn,
    )


def _left_out(storage: Storage, operator: int) -> str:
    """A file of an operator that its listing does not show, or "". A stateful query without its operators would look
    like one that never had state."""
    for path in (f"state/{operator}/_metadata/metadata", f"state/{operator}/0/_metadata/schema"):
        try:
            if is_there(storage, path):
                return path
        except OSError as error:
            return f"{path} ({type(error).__name__}: {error})"
    return ""


def _is_number(name: str) -> bool:
    return len(name) < 10 and is_batch_name(name)


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
        if kind == FOLDER and name not in (*FOLDERS, "_metadata") and not STATE_FILE.fullmatch(name):
            yield name, _versions(walk, f"{folder}/{name}", walk.folder(f"{folder}/{name}"), tally)


def _versions(walk: _Walk, folder: str, entries: list[tuple[str, str, int]], tally: _Tally) -> StoreVersions:
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
    if walk.needed is not None:
        names = {name: length for name, _, length in entries}
        base = max((version for version in full if version <= walk.needed), default=0)
        if walk.crcs:
            _check_crcs(walk, folder, names, base, steps, broken, tally)
        if base and base not in broken:
            rows = _check_snapshot(walk, folder, names, below, base, broken, tally)
        for one in ids.get(walk.needed, ()):
            lacking[walk.needed, one] = _lacking(walk, folder, names, below, one)
    kept = {version: frozenset(found) for version, found in ids.items()}
    return StoreVersions(frozenset(full), frozenset(steps), kept, broken, lacking, files, size, rows)


def _lacking(walk: _Walk, folder: str, names: Mapping[str, int], below: Mapping[str, int], own: str) -> str:
    """Format 2: what is missing of the needed version of this id, or ""."""
    from surestart.facts.checkpoint.open_file import unpacked

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
    if not base or missing:
        return missing
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
    walk: _Walk,
    folder: str,
    names: Mapping[str, int],
    below: Mapping[str, int],
    base: int,
    broken: dict[int, str],
    tally: _Tally,
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
    walk: _Walk,
    folder: str,
    names: Mapping[str, int],
    base: int,
    steps: set[int],
    broken: dict[int, str],
    tally: _Tally,
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
            tally.unchecked += 1
            continue
        walk.crc_bytes -= length
        data = walk.storage.read_file(f"{folder}/{name}", length + 1)
        crc = walk.storage.read_file(f"{folder}/.{name}.crc", 1 << 20)
        charge(walk.storage, len(crc) // 16, f"{folder}/.{name}.crc")
        if len(data) < length or len(crc) < names[f".{name}.crc"]:
            raise OSError(f"{folder}/{name} or its checksum was cut off while it was read")
        if why := crc_disagrees(data, crc):
            lose(name, match, why)


def size_disagrees(storage: Storage, path: str, size: int) -> str:
    """Why Spark 4.1 and newer would refuse a state file of that size, by the checksum file of its own; or ""."""
    try:
        noted = parse_object(storage.read_file(f"{path}.crc", 1 << 16).decode("utf-8", "replace"), path)["mainFileSize"]
    except (FormatError, KeyError):
        return "its checksum file is damaged itself"
    return "" if noted == size else f"it has {size} bytes, and its checksum was made for {str(noted)[:20]}"
