"""A table's log as one value: identity, versions, properties, and the last batch of every writer.

A snapshot is the newest checkpoint plus the commits after it. A short log whose commits are all there is replayed
from commit 0 instead: that needs no pyarrow and is as quick.

The same facts from `DESCRIBE HISTORY <table>`, for a Unity Catalog table whose files nobody may open.

    version  timestamp  operation         operationParameters          userMetadata
    12       …          STREAMING UPDATE  {queryId, epochId, …}        null
    13       …          MERGE             {predicate, …}               {"surestart": {"query_id": …, "batch_id": 7, …}}

History is kept for delta.logRetentionDuration (30 days unless set), the transactions themselves for ever: a writer that
is not in an incomplete history may still be known to the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from surestart.errors import CannotTell
from surestart.facts.delta.actions import Action, damaged, integer, log_unreadable, read_actions
from surestart.facts.delta.checkpoint_parquet import PyarrowMissing, read_checkpoint_actions
from surestart.facts.delta.commit import Commit, build_commit, read_mark, texts
from surestart.facts.delta.listing import LogListing, commit_name, read_listing
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import Storage
from surestart.typed import typed

STATE_KINDS = ("protocol", "metaData", "txn")
COMMIT_KINDS = ("commitInfo", "txn", "metaData", "protocol")
_SHORT_LOG_COMMITS = 400
_SHORT_LOG_BYTES = 16 << 20
_DAY = 86_400_000
# Features that a reader has to know and that leave the commits where they are, with what they say of writers. Of any
# other the protocol has readers keep away (delta.io, PROTOCOL.md, "Table Features").
_READER_VERSION = 3
_PLAIN_FEATURES = (
    "columnMapping", "deletionVectors", "geospatial", "geospatial-dev", "timestampNtz", "typeWidening",
    "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck", "variantShredding", "variantShredding-preview",
    "variantType", "variantType-preview",
)  # fmt: skip
_CATALOG_FEATURES = ("catalog", "coordinatedCommits")
_UNITS = {"microsecond": 0.001, "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": _DAY}
_UNITS["week"] = 7 * _DAY


@dataclass(frozen=True, slots=True)
class Transaction:
    """The highest batch that one writer (application id) has written into the table."""

    version: int
    last_updated: int | None = None


@dataclass(frozen=True)
class DeltaLog:
    """What a table's log says. Times are milliseconds since 1970."""

    location: str
    table_id: str
    latest_version: int
    earliest_commit: int  # oldest commit file of the unbroken run up to the latest: what a stream can still read
    earliest_version: int  # oldest version whose whole state can be rebuilt: what RESTORE and time travel can reach
    schema_text: str = ""
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    created: int | None = None
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    commits: tuple[Commit, ...] = ()  # those that had to be read anyway, oldest first; read_history gives more
    catalog_managed: bool = False  # only the catalog may have the newer commits: the latest version is a lower bound
    unknown_features: tuple[str, ...] = ()  # that a reader has to know: what is read here may not be all there is

    @property
    def transaction_retention(self) -> int | None:
        """How long a writer's last batch is remembered, or None: for ever."""
        return duration(self.properties.get("delta.setTransactionRetentionDuration", ""))

    @property
    def log_retention(self) -> int:
        return log_retention(self.properties)

    @property
    def deleted_file_retention(self) -> int:
        return deleted_file_retention(self.properties)

    def transaction(self, app_id: str, now: int) -> Transaction | None:
        """What Delta would know at that time: an entry past its retention is forgotten, and so is one without a time
        once any retention is set (InMemoryLogReplay.getTransactions)."""
        found, retention = self.transactions.get(app_id), self.transaction_retention
        if found is None or retention is None:
            return found
        return None if found.last_updated is None or found.last_updated <= now - retention else found


def read_delta_log(path: str, storage: Storage | None = None, version: int | None = None) -> DeltaLog:
    """The log of the table at `path`, as of `version` or of now. Raises CannotTell when it cannot be known."""
    files = bounded(storage or open_storage(path))
    return read_twice(files, lambda listing: _read(files, listing, version))


_Answer = TypeVar("_Answer")


def read_twice(files: Storage, read: Callable[[LogListing], _Answer]) -> _Answer:
    """Delta's own clean-up may delete old commits between the listing and the read; the next listing shows it."""
    try:
        return read(read_listing(files))
    except FileNotFoundError:
        try:
            return read(read_listing(files, again=True))
        except FileNotFoundError as error:
            raise log_unreadable(files.location, error) from error


@dataclass
class _State:
    """What holds after a log's actions. Each line is taken once."""

    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)

    def take(self, kind: str, body: Action) -> None:
        if kind == "protocol":
            self.protocol = body
        elif kind == "metaData":
            self.metadata = body
        elif kind == "txn" and (number := integer(body.get("version"))) is not None and number >= 0:
            # Databricks begins a run with an empty commit of batch -1: what was written before stands.
            self.transactions[str(body.get("appId"))] = Transaction(number, integer(body.get("lastUpdated")))

    def taking(self, actions: Iterable[tuple[str, Action]]) -> Iterator[tuple[str, Action]]:
        for kind, body in actions:
            self.take(kind, body)
            yield kind, body


def _read(files: Storage, listing: LogListing, version: int | None) -> DeltaLog:
    latest = listing.latest if version is None else version
    start, state = read_base(files, listing, latest, STATE_KINDS, _State)
    commits = []
    for number in range(start, latest + 1):
        actions = read_actions(files, commit_name(number), COMMIT_KINDS, listing.commits.get(number, -1))
        commits.append(build_commit(number, state.taking(actions)))
    protocol, metadata = state.protocol, state.metadata
    if not metadata or not protocol:
        raise damaged(
            f"{files.location}/_delta_log", f"has no {'metaData' if not metadata else 'protocol'} up to {latest}"
        )
    features = {*_names(protocol.get("readerFeatures")), *_names(protocol.get("writerFeatures"))}
    reader_version = integer(protocol.get("minReaderVersion")) or 1
    return DeltaLog(
        location=files.location,
        table_id=str(metadata.get("id", "")),
        latest_version=latest,
        earliest_commit=listing.earliest_commit,
        earliest_version=listing.earliest_version,
        schema_text=str(metadata.get("schemaString", "")),
        partition_columns=tuple(_names(metadata.get("partitionColumns"))),
        properties=texts(metadata.get("configuration")),
        features=tuple(sorted(features)),
        created=integer(metadata.get("createdTime")),
        transactions=state.transactions,
        commits=tuple(commits),
        catalog_managed=any(name.startswith(_CATALOG_FEATURES) for name in features) or listing.staged > listing.latest,
        unknown_features=_unknown_features(reader_version, _names(protocol.get("readerFeatures"))),
    )


class TakesActions(Protocol):
    """What a log's actions are gathered in."""

    def take(self, kind: str, body: Action) -> None: ...


_Gathered = TypeVar("_Gathered", bound=TakesActions)


def read_base(
    files: Storage, listing: LogListing, version: int, columns: tuple[str, ...], fresh: Callable[[], _Gathered]
) -> tuple[int, _Gathered]:
    """The first commit that has to be replayed to reach `version`, and what the checkpoint before it holds."""
    if version > listing.latest or version < 0:
        raise _gone(files, listing, version)
    unbroken = listing.unbroken_to(version)
    if unbroken == 0 and _is_short(listing, version):
        return 0, fresh()
    usable = [item for item in listing.checkpoints if unbroken - 1 <= item.version <= version]
    first_error: CannotTell | None = None
    for checkpoint in usable[:3]:
        try:
            gathered = fresh()
            for kind, body in read_checkpoint_actions(files, checkpoint, columns):
                gathered.take(kind, body)
            return checkpoint.version + 1, gathered
        except PyarrowMissing as error:
            first_error = first_error or error
            break
        except CannotTell as error:
            # Delta too falls back to an older checkpoint when the newest is torn.
            first_error = first_error or error
    if unbroken == 0:
        return 0, fresh()
    raise first_error or _gone(files, listing, version)


def read_history(
    path: str,
    storage: Storage | None = None,
    since: int | None = None,
    until: int | None = None,
    limit: int = 1000,
    with_files: bool = False,
    from_zero: bool = False,
) -> tuple[Commit, ...]:
    """The newest `limit` commits of versions since..until whose files are still there, oldest first. from_zero: none of
    them is ever cleaned up, so that a log that begins later was not read as a whole."""
    files = bounded(storage or open_storage(path))
    listing = read_listing(files)
    if from_zero and listing.earliest_commit > max(0, listing.latest - limit + 1):
        raise damaged(f"{files.location}/_delta_log", f"lacks commits before {listing.earliest_commit}")
    last = listing.latest if until is None else min(until, listing.latest)
    first = max(listing.earliest_commit, since or 0, last - limit + 1)
    kinds = (*COMMIT_KINDS, "add", "remove", "cdc") if with_files else COMMIT_KINDS
    commits = []
    for version in range(first, last + 1):
        try:
            actions = read_actions(files, commit_name(version), kinds, listing.commits.get(version, -1))
            commits.append(build_commit(version, actions, with_files))
        except FileNotFoundError:
            if from_zero:
                raise damaged(f"{files.location}/_delta_log", f"lacks commit {version}") from None
            # Deleted by Delta's clean-up since the listing: everything before it is gone as well.
            commits.clear()
    return tuple(commits)


def log_retention(properties: Mapping[str, str]) -> int:
    """How long Delta keeps a commit: behind that a former version cannot be told any more. Delta's default: 30 days."""
    found = duration(properties.get("delta.logRetentionDuration", ""))
    return 30 * _DAY if found is None else found


def deleted_file_retention(properties: Mapping[str, str]) -> int:
    """How long a VACUUM leaves removed files alone. 0 is a choice that people make. Delta's default: 7 days."""
    found = duration(properties.get("delta.deletedFileRetentionDuration", ""))
    return 7 * _DAY if found is None else found


def duration(text: str) -> int | None:
    """Milliseconds of a Delta duration such as 'interval 30 days', or None when it is not one."""
    words = text.lower().replace("interval", " ").split()
    if not words or len(words) % 2:
        return None
    total = 0.0
    for amount, unit in zip(words[::2], words[1::2], strict=True):
        factor = _UNITS.get(unit.removesuffix("s"))
        if factor is None or not re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,9})?", amount):
            return None
        total += float(amount) * factor
    return int(total)


def _is_short(listing: LogListing, version: int) -> bool:
    if version >= _SHORT_LOG_COMMITS:
        return False
    return sum(size for number, size in listing.commits.items() if number <= version) <= _SHORT_LOG_BYTES


def _unknown_features(reader_version: int, named: list[str]) -> tuple[str, ...]:
    if reader_version > _READER_VERSION:
        return (f"minReaderVersion {reader_version}",)
    return tuple(name for name in named if name not in _PLAIN_FEATURES and not name.startswith(_CATALOG_FEATURES))


def _names(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _gone(files: Storage, listing: LogListing, version: int) -> CannotTell:
    return CannotTell(
        f"version {version} of {files.location} cannot be rebuilt; "
        f"readable: {listing.earliest_version}..{listing.latest}",
        meaning="Commits or checkpoints that it needs are missing from _delta_log.",
        next=typed("ls", f"{files.location}/_delta_log"),
        do_not="recreate log files by hand.",
        code="DeltaVersionGone",
    )


@dataclass(frozen=True)
class HistoryEvidence:
    """Commits oldest first, and the last batch of each writer that they name."""

    commits: tuple[Commit, ...]
    transactions: Mapping[str, Transaction]
    complete: bool  # version 0 is among them, so a writer that is absent never wrote


def history_evidence(rows: Iterable[Any]) -> HistoryEvidence:
    """From `DESCRIBE HISTORY` rows: pyspark Rows or mappings, in any order."""
    commits = tuple(sorted((_commit(row) for row in rows), key=lambda commit: commit.version))
    transactions: dict[str, Transaction] = {}
    for commit in commits:
        app_id = commit.mark.app_id if commit.mark else commit.query_id
        if app_id and commit.batch_id is not None:
            transactions[app_id] = Transaction(commit.batch_id, commit.timestamp)
    return HistoryEvidence(commits, transactions, bool(commits) and commits[0].version == 0)


def _commit(row: Any) -> Commit:
    fields: Mapping[str, Any] = row if isinstance(row, Mapping) else row.asDict()
    timestamp = fields.get("timestamp")
    user_metadata = fields.get("userMetadata") or ""
    return Commit(
        version=int(fields["version"]),
        timestamp=int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else integer(timestamp),
        operation=str(fields.get("operation") or ""),
        parameters=texts(fields.get("operationParameters")),
        metrics=texts(fields.get("operationMetrics")),
        user_metadata=user_metadata,
        mark=read_mark(user_metadata),
    )
