"""state/: operators, partitions, stores, and the versions there. Batch V loads version V, which batch V-1 wrote.

state/0/_metadata/metadata            operator name, stores, number of partitions     (Spark 4.0+)
state/0/_metadata/v2/<batch>          the same for transformWithState and newer joins
state/0/0/_metadata/schema            key and value schema
state/0/0/[store/]                    a store's files: store_folder
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from surestart.facts.checkpoint.log_file import TORN, UNREADABLE, LogFault
from surestart.facts.checkpoint.log_folder import is_batch_name, is_there
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
from surestart.facts.checkpoint.store_files import FOLDERS, StoreVersions
from surestart.facts.checkpoint.store_folder import STATE_FILE, StateTally, StateWalk, read_versions
from surestart.facts.storage.storage import FOLDER, Storage

LISTINGS_LOCAL = 50_000
LISTINGS_REMOTE = 1_024


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


def read_state(storage: Storage, needed: int | None = None) -> StateFolder:
    """Listings grow with operators x partitions x stores, never with the number of files.

    needed: the version that the next batch loads. The snapshot that it begins with is held against the files that it
    names, and on a local file system against its checksum.
    """
    budget = LISTINGS_LOCAL if storage.kind == "local" else LISTINGS_REMOTE
    walk = StateWalk(storage, budget, needed=needed, crcs=storage.checks_crc)
    try:
        names = walk.folder("state")
    except FileNotFoundError:
        return StateFolder(exists=False)
    except OSError as error:
        return StateFolder(exists=None, faults=(LogFault("state", UNREADABLE, f"{type(error).__name__}: {error}"),))
    tally = StateTally()
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


def _read_operator(walk: StateWalk, operator: int, tally: StateTally) -> StateOperator:
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
        store_names=notes.stores or _store_names({store for _, store in stores}),
        stores=stores,
        schemas=schemas,
        notes=notes,
        size=tally.size - before,
        torn_schema=torn,
    )


# What a join of two streams keeps, but for the newest form, which has one store. Spark 3.5 writes their names nowhere.
_OF_A_JOIN = frozenset(
    f"{side}-{kept}" for side in ("left", "right") for kept in ("keyToNumValues", "keyWithIndexToValue")
)


def _store_names(found: set[str]) -> tuple[str, ...]:
    return tuple(sorted(found | _OF_A_JOIN if found & _OF_A_JOIN else found))


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


def _noted(found: tuple[_Found, LogFault | None], tally: StateTally) -> _Found:
    if found[1] is not None:
        tally.faults.append(found[1])
    return found[0]


def _read_partition(walk: StateWalk, folder: str, tally: StateTally) -> Iterator[tuple[str, StoreVersions]]:
    entries = walk.folder(folder)
    own = read_versions(walk, folder, entries, tally)
    if own.files:
        yield DEFAULT_STORE, own
    for name, kind, _ in entries:
        if kind == FOLDER and name not in (*FOLDERS, "_metadata") and not STATE_FILE.fullmatch(name):
            yield name, read_versions(walk, f"{folder}/{name}", walk.folder(f"{folder}/{name}"), tally)
