"""How many rows the state has at two versions, and how many of them differ: what a stream that goes back gives up.

    RocksDB        numKeys, which a snapshot says of itself
    HDFS-backed    each key of both versions, as long as no more is read than the allowance

What neither says is None, never 0."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from surestart.facts.checkpoint.log_file import FormatError, NotInState, UnknownForm
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import DEFAULT_STORE
from surestart.facts.checkpoint.state_versions import StoreSummary, expected_partitions, summarise
from surestart.facts.checkpoint.store_files import HDFS, StoreVersions
from surestart.facts.state.hdfs_rows import HELD, RowReading, chain, read_hdfs_rows
from surestart.facts.state.read_rows import CHECKSUMS, pinned_settings
from surestart.facts.storage.storage import Storage

# Of both versions of all stores: about a second on one core.
RECORDS, BYTES = 300_000, 32 << 20


@dataclass(frozen=True)
class RowsGivenUp:
    """One store of a query's state, now and at an older batch; -1: before its first one, when it has none.

    rows, then: how many there are; None where the files do not say it.
    came: keys that the older one lacks; None, like the two that follow, where the rows were not compared.
    changed: keys with another value.
    back: keys that only the older one has."""

    query: str
    operator: int
    name: str
    store: str
    batch: int
    rows: int | None = None
    then: int | None = None
    came: int | None = None
    changed: int | None = None
    back: int | None = None


class _Spent(Exception):
    """More would be read than is allowed."""


@dataclass
class Allowance:
    """What is still left to be read of it."""

    records: int = RECORDS
    bytes: int = BYTES

    def take(self, records: int, size: int) -> None:
        self.records -= records
        self.bytes -= size
        if self.records < 0 or self.bytes < 0:
            raise _Spent


def compare_state(
    storage: Storage, query: str, now: Checkpoint, then: Checkpoint | None, allowance: Allowance | None = None
) -> tuple[RowsGivenUp, ...]:
    """now, then: the same query's, each with its newest committed batch; None: it begins anew. storage: holds the files
    of both."""
    left, newest = allowance or Allowance(), now.latest_committed
    batch = -1 if then is None else then.latest_committed
    if newest is None or batch is None:
        return ()
    return tuple(
        _compare(storage, query, operator, store, now, then, (newest + 1, batch + 1), left)
        for operator in now.state.operators
        for store in summarise(operator)
    )


def _compare(
    storage: Storage,
    query: str,
    operator: StateOperator,
    store: StoreSummary,
    now: Checkpoint,
    then: Checkpoint | None,
    versions: tuple[int, int],
    left: Allowance,
) -> RowsGivenUp:
    newer, older = versions
    names = query, operator.id, operator.name or "", store.store, older - 1
    if now.state.provider != HDFS:
        before = 0 if then is None else _counted(then, operator.id, store.store, older)
        return RowsGivenUp(*names, _counted(now, operator.id, store.store, newer), before)
    whole = store.partitions >= (expected_partitions(now, operator) or store.partitions)
    try:
        if not whole or now.state.sampled:
            return RowsGivenUp(*names)
        settings = pinned_settings(now)
        reader = _Reader(storage, left, bool(settings), settings.get(CHECKSUMS, "").lower() == "true")
        below = "" if store.store == DEFAULT_STORE else f"/{store.store}"
        partitions = {
            f"state/{operator.id}/{partition}{below}": kept
            for (partition, name), kept in operator.stores.items()
            if name == store.store
        }
        # Asked before the first of them is read, so that nothing is read half.
        if sum(reader.bytes_of(folder, kept, {newer, older}) for folder, kept in partitions.items()) > left.bytes:
            return RowsGivenUp(*names)
        found = [_of_partition(reader, folder, kept, newer, older) for folder, kept in partitions.items()]
    except (_Spent, FormatError, NotInState, OSError):
        return RowsGivenUp(*names)
    return RowsGivenUp(*names, *map(sum, zip(*found, strict=True)))


def _counted(checkpoint: Checkpoint, operator: int, store: str, version: int) -> int | None:
    """A snapshot of an older version says how many rows there were then: not how many there are."""
    stores = [one for own in checkpoint.state.operators if own.id == operator for one in summarise(own)]
    return next((one.rows for one in stores if one.store == store and one.rows_at == (version, version)), None)


def _of_partition(
    reader: _Reader, folder: str, versions: StoreVersions, newer: int, older: int
) -> tuple[int, int, int, int, int]:
    now, then = reader.rows(folder, versions, newer), reader.rows(folder, versions, older)
    changed = sum(now[key] != value for key, value in then.items() if key in now)
    return len(now), len(then), len(now.keys() - then.keys()), changed, len(then.keys() - now.keys())


@dataclass(frozen=True)
class _Reader:
    """told: the settings that say whether rows have a checksum are known."""

    storage: Storage
    left: Allowance
    told: bool
    row_checksums: bool

    def bytes_of(self, folder: str, versions: StoreVersions, wanted: Collection[int]) -> int:
        """Of the files that these versions are made of."""
        made_of = [chain(versions, version) for version in wanted]
        names = [f"{number}.delta" for _, steps in made_of for number in steps]
        names += [f"{base}.snapshot" for base, _ in made_of]
        sizes = {entry.name: entry.size or 0 for entry in self.storage.list_folder(folder)}
        return sum(sizes.get(name, 0) for name in names)

    def rows(self, folder: str, versions: StoreVersions, version: int) -> dict[bytes, int]:
        """Each key, and a number that stands for its value."""
        look = RowReading(row_checksums=self.row_checksums, held=HELD - self.left.bytes)
        return dict(self._within(read_hdfs_rows(self.storage, folder, versions, version, look)))

    def _within(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, int]]:
        for key, value in rows:
            if len(value) % 8 and not self.told:
                raise UnknownForm("rows with a checksum or without: no offsets say which")
            self.left.take(1, len(key) + len(value))
            yield key, hash(value)
