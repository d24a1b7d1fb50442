"""The rows of a checkpoint's state: which operator, which store, which version, and one partition after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain as one_after_another
from typing import Any

from surestart.facts.checkpoint.batch_logs import CommitLogEntry, OffsetLogEntry
from surestart.facts.checkpoint.log_file import FormatError, NotInState, Torn, TornFile, UnknownForm
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import DEFAULT_STORE, StoreSchema
from surestart.facts.checkpoint.state_types import Struct
from surestart.facts.checkpoint.state_versions import expected_partitions
from surestart.facts.checkpoint.store_files import ROCKSDB, StoreVersions
from surestart.facts.state.hdfs_rows import RowReading, read_hdfs_rows
from surestart.facts.state.rocksdb_form import key_decoder, value_decoder, without_checksums
from surestart.facts.state.rocksdb_rows import open_rocksdb
from surestart.facts.state.unsafe_row import RowDecoder
from surestart.facts.storage.storage import Storage

# Of a store without a schema that can be read.
UNREAD = StoreSchema(Struct(()), Struct(()))
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
MERGE_VERSION = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
CHECKSUMS = "spark.sql.streaming.stateStore.rowChecksum.enabled"


@dataclass(frozen=True)
class StateRow:
    """key and value: in the order of the schema's columns."""

    partition: int
    key: tuple[Any, ...]
    value: tuple[Any, ...]


RowTest = Callable[[StateRow], bool]


@dataclass(frozen=True)
class StoreLook:
    """What is looked at: one store, or one variable of it, at one version, in these partitions."""

    operator: StateOperator
    store: str
    version: int
    partitions: tuple[int, ...]
    schema: StoreSchema

    @property
    def batch(self) -> int:
        """The one that wrote the version."""
        return self.version - 1

    @property
    def variable(self) -> str:
        return "" if self.schema.family == DEFAULT_STORE else self.schema.family


def choose_version(checkpoint: Checkpoint, batch: int | None) -> int:
    """The version that the batch wrote, else the newest that is committed. Raises NotInState where there is none."""
    if batch is not None and batch < 0:
        raise NotInState(f"batch {batch}", ("batches from 0 on",))
    planned = checkpoint.latest_planned
    if batch is not None and planned is not None and checkpoint.logs_listed and batch > planned:
        raise NotInState(f"batch {batch} yet", (f"batches up to {planned}",))
    if batch is not None:
        return batch + 1
    if checkpoint.latest_committed is None:
        raise NotInState("a committed batch")
    return checkpoint.latest_committed + 1


def choose_operators(checkpoint: Checkpoint, number: int | None) -> tuple[StateOperator, ...]:
    """The operator of that number, else all of them."""
    operators = {operator.id: operator for operator in checkpoint.state.operators}
    if not operators:
        raise NotInState("any state")
    if number is not None and number not in operators:
        raise NotInState(f"operator {number}", tuple(map(str, sorted(operators))))
    return tuple(operators.values()) if number is None else (operators[number],)


def stores_of(operator: StateOperator) -> tuple[str, ...]:
    """The stores that are there, and those that the operator names: a store that is gone would look like one without
    rows. The newest joins name four stores and keep them in one."""
    found = {store for _, store in operator.stores}
    return tuple(sorted(found if DEFAULT_STORE in found else found | {*operator.store_names}))


def choose_stores(
    checkpoint: Checkpoint,
    operator: StateOperator,
    store: str | None,
    variable: str | None,
    partition: int | None,
    version: int,
) -> tuple[StoreLook, ...]:
    """The store of that name, else all of them; each variable of transformWithState by itself. NotInState names what is
    not there, and what there is."""
    stores = stores_of(operator)
    if store is not None and store not in stores:
        raise NotInState(f"store {store} in operator {operator.id}", stores)
    found = [_looks(checkpoint, operator, name, partition, version) for name in stores if store in (None, name)]
    looks = tuple(look for several in found for look in several)
    if variable is None:
        return looks
    chosen = tuple(look for look in looks if look.schema.family == variable)
    if not chosen:
        families = tuple(dict.fromkeys(look.schema.family for look in looks))
        raise NotInState(f"variable {variable} in operator {operator.id}", families)
    return chosen


def _looks(
    checkpoint: Checkpoint, operator: StateOperator, store: str, partition: int | None, version: int
) -> list[StoreLook]:
    """One look for each partition that is there, and one for the first that is missing. Not for all that are missing:
    a damaged file may say that there are millions."""
    there = {number for number, name in operator.stores if name == store}
    count = expected_partitions(checkpoint, operator) or operator.partitions
    missing = next((number for number in range(count) if number not in there), None)
    partitions = (*sorted(there), *(() if missing is None else (missing,)))
    if partition is not None and partition not in there and not 0 <= partition < count:
        raise NotInState(f"partition {partition} of operator {operator.id}", tuple(map(str, partitions)))
    chosen = partitions if partition is None else (partition,)
    return [StoreLook(operator, store, version, chosen, one) for one in operator.schemas.get(store, ()) or (UNREAD,)]


def read_state_rows(
    storage: Storage, checkpoint: Checkpoint, wanted: StoreLook, look: RowReading
) -> Iterator[StateRow]:
    """One row after the other, a partition at a time; a file is opened when its first row is asked for.

    Raises Torn, UnknownForm or NotInState where a row cannot be read; the rows before it have been given."""
    look.row_checksums = pinned_settings(checkpoint).get(CHECKSUMS, "").lower() == "true"
    return one_after_another.from_iterable(
        _of_partition(storage, checkpoint, wanted, partition, look) for partition in wanted.partitions
    )


def pinned_settings(checkpoint: Checkpoint) -> Mapping[str, str]:
    """The settings that the newest batch with readable offsets has pinned: they stay the same from batch to batch."""
    entries = [entry for _, entry in sorted(checkpoint.offsets.items()) if isinstance(entry, OffsetLogEntry)]
    return entries[-1].confs if entries else {}


def _of_partition(
    storage: Storage, checkpoint: Checkpoint, wanted: StoreLook, partition: int, look: RowReading
) -> Iterator[StateRow]:
    operator, store = wanted.operator, wanted.store
    folder = f"state/{operator.id}/{partition}" + ("" if store == DEFAULT_STORE else f"/{store}")
    look.held = 0
    if (partition, store) not in operator.stores:
        if checkpoint.state.sampled:
            raise UnknownForm(f"{folder}/ was not looked at: {checkpoint.state.sampled}")
        raise NotInState(f"{folder}/, or no state file is in it")
    if wanted.schema is UNREAD:
        raise UnknownForm(f"store {store} of operator {operator.id} has no schema that can be read")
    of_provider = _of_rocksdb if checkpoint.state.provider == ROCKSDB else _of_hdfs
    try:
        for key, value in of_provider(storage, checkpoint, wanted, partition, folder, look):
            yield StateRow(partition, key, value)
    except TornFile:
        raise
    except Torn as error:
        raise Torn(f"a row of {folder}/ is not of the store's columns: {error}") from error


_Pairs = Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]


def _of_hdfs(
    storage: Storage, checkpoint: Checkpoint, wanted: StoreLook, partition: int, folder: str, look: RowReading
) -> _Pairs:
    versions = wanted.operator.stores[partition, wanted.store]
    keys, values = RowDecoder(wanted.schema.key), RowDecoder(wanted.schema.value)
    settings = pinned_settings(checkpoint)
    for key, value in read_hdfs_rows(storage, folder, versions, wanted.version, look):
        if len(value) % 8 and not settings:
            raise UnknownForm(f"{folder}/ has rows with a checksum or without: no offsets say which")
        # Spark 2.2 wrote four bytes too many behind each value.
        yield keys.decode(key), values.decode(value[: len(value) // 8 * 8])


def _of_rocksdb(
    storage: Storage, checkpoint: Checkpoint, wanted: StoreLook, partition: int, folder: str, look: RowReading
) -> _Pairs:
    settings = pinned_settings(checkpoint)
    if settings.get(ENCODING, "unsaferow").lower() != "unsaferow":
        raise UnknownForm(f"{folder}/ has rows in the encoding {settings[ENCODING][:40]}")
    look.between = b"" if settings.get(MERGE_VERSION, "1") == "2" else b","
    family, prefix = wanted.schema.family, wanted.operator.notes.prefixes.get(wanted.store, 0)
    keys, values = key_decoder(wanted.schema, prefix), value_decoder(wanted.schema, len(look.between))
    opened = open_rocksdb(storage, folder, wanted.version, state_id(checkpoint, wanted, partition), look)
    with opened.stack:
        if family not in opened.families and family != DEFAULT_STORE:
            if opened.of_unknown_families():
                raise NotInState(f"a snapshot in {folder}/ that names the column family {family}")
            return
        front = opened.families.get(family, b"")
        for key, value in opened.rows(front):
            bare = without_checksums(value, look.between) if look.row_checksums else value
            for one in values(bare):
                yield keys(key[len(front) :]), one


def state_id(checkpoint: Checkpoint, wanted: StoreLook, partition: int) -> str:
    """Format 2: the id that the commit gives to the files of this version; "" where it names none."""
    commit = checkpoint.commits.get(wanted.batch)
    if not checkpoint.state.format_v2:
        return ""
    ids = commit.state_ids.get(wanted.operator.id, ()) if isinstance(commit, CommitLogEntry) else ()
    names = wanted.operator.store_names
    number = names.index(wanted.store) if wanted.store in names else 0
    return ids[partition][number].lower() if partition < len(ids) and number < len(ids[partition]) else ""


def loadable(versions: StoreVersions, provider: str) -> tuple[int, ...]:
    """Versions that a start could load, newest first."""
    found = sorted(versions.full | versions.steps, reverse=True)
    return tuple(version for version in found if not versions.missing_for(version, provider))


@dataclass
class ShownRows:
    """One store's rows, read while they are walked through. more, notes and failure are known behind the last one."""

    look: StoreLook
    storage: Storage
    checkpoint: Checkpoint
    limit: int | None = None
    wanted: RowTest | None = None
    notes: list[str] = field(default_factory=list)
    shown: int = 0
    more: bool = False
    failure: FormatError | NotInState | OSError | None = None

    def __iter__(self) -> Iterator[StateRow]:
        look = RowReading(few=self.limit if self.wanted is None else None, notes=self.notes)
        try:
            for row in read_state_rows(self.storage, self.checkpoint, self.look, look):
                if self.wanted is not None and not self.wanted(row):
                    continue
                if self.shown == self.limit:
                    self.more = True
                    return
                self.shown += 1
                yield row
        except (FormatError, NotInState, OSError) as error:
            self.failure = error
