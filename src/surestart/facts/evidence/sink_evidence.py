"""What a sink says of the batches it holds, whichever way it was asked.

Delta log on storage    evidence_from_log        every writer's last batch; complete
DESCRIBE HISTORY rows   evidence_from_history    a table whose files nobody may open; 30 days unless kept longer
Postgres ledger rows    evidence_from_ledger     one row per (application id, batch), in the rows' own transaction
a file sink's own log   file_sink                batches by number alone, whichever query wrote them
Iceberg's metadata      iceberg_sink             every writer's last batch, as far as its snapshots go back
Kafka's brokers         TopicRecords             when records came, and where: batches it does not know
no record to be read    sink_without_record      Spark and the sink keep none, or it is out of reach of this program
nothing there           sink_missing             the table or the ledger does not exist
not to be had           sink_unreadable          why; never the same as "nothing there"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from surestart.errors import SurestartError
from surestart.facts.checkpoint.log_file import LogFault
from surestart.facts.delta import Commit, DeltaLog, HistoryEvidence, Transaction
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit_notes import find_undos
from surestart.typed import NOTHING, NextStep

LOG = "delta log"
HISTORY = "table history"
LEDGER = "ledger"
TOPIC = "topic"
# Errors whose next command brings what was missing.
_LACKING = ("NotInstalled", "PyarrowMissing", "DatabaseUrlMissing")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)


@dataclass(frozen=True)
class SinkEvidence:
    """transactions: application id -> last batch.
    complete: an id that is absent never wrote, or is forgotten.
    sees_newest: no commit is younger than what is known here.
    batches: what a sink knows by number alone.
    asked: it was asked at all; False where nothing keeps a record that could be read.
    unreached: writers whose last commit is older than what was read of the history, so that what came behind it is not
        known.
    unknown_features: of the table, that a reader has to know.
    helps: what makes it known, where that is to be typed before anything else."""

    source: str
    exists: bool = True
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    complete: bool = True
    sees_newest: bool = True
    commits: tuple[Commit, ...] = ()
    has_rows: bool | None = None
    retention: int | None = None  # ms after which the sink forgets a writer; None: never
    retention_text: str = ""
    table_id: str = ""
    latest_version: int | None = None
    problem: str = ""
    batches: FileBatches | None = None
    asked: bool = True
    unreached: frozenset[str] = frozenset()
    unknown_features: tuple[str, ...] = ()
    topic: TopicRecords | None = None
    helps: NextStep = NOTHING

    @property
    def known(self) -> bool:
        return not self.problem

    def last_batch(self, app_id: str, now: int) -> int | None:
        """The last batch of that writer which the sink would recognise now."""
        found = self.transactions.get(app_id)
        if found is None or self.forgets_at(app_id) <= now:
            return None
        return found.version

    def forgets_at(self, app_id: str) -> float:
        """When the sink forgets that writer, in ms since 1970; infinity for never."""
        found = self.transactions.get(app_id)
        if found is None or self.retention is None:
            return float("inf")
        # Once any retention is set, Delta drops entries without a time at once (InMemoryLogReplay.getTransactions).
        return 0.0 if found.last_updated is None else found.last_updated + self.retention

    def last_commit_of(self, app_id: str) -> Commit | None:
        return next((commit for commit in reversed(self.commits) if app_id in app_ids(commit)), None)

    def identities(self, query: str, step: str) -> dict[str, int]:
        """Streaming identities (query ids) that wrote this query's rows here, with the last batch of each.

        A commit's mark names its query. A query id that no mark names any more may have been this query's.
        """
        suffix = f":{step}" if step else ""
        marks = [commit.mark for commit in self.commits if commit.mark and commit.mark.step == step]
        # What `surestart.once` has written names no query: it may have been this one.
        named = {mark.app_id: mark.query for mark in marks if mark.query}
        ours = {app_id for app_id, name in named.items() if name == query}
        found = {}
        for app_id, transaction in self.transactions.items():
            identity = app_id.removesuffix(suffix)
            # A backfill's or a replay's own id is no UUID: a bounded job, not the stream's identity.
            if not is_query_id(identity) or app_id != identity + suffix:
                continue
            if app_id in ours or app_id not in named:
                found[identity] = transaction.version
        return found

    def newest_identity(self, identities: Mapping[str, int], step: str) -> str:
        """The one of them that wrote last, as far as commits or times tell; else the one with the highest batch."""

        def recency(identity: str) -> tuple[int, int, int]:
            app_id = f"{identity}:{step}" if step else identity
            commit = self.last_commit_of(app_id)
            time = self.transactions[app_id].last_updated
            return (commit.version if commit else -1, time or -1, identities[identity])

        return max(identities, key=recency)


def evidence_from_log(log: DeltaLog, commits: Iterable[Commit] = (), has_rows: bool | None = None) -> SinkEvidence:
    """From a table's own log. A catalog-managed table's newest commits may stand in the catalog alone; what a feature
    that nobody here knows has changed may stand anywhere."""
    return SinkEvidence(
        source=LOG,
        transactions=log.transactions,
        complete=not log.catalog_managed and not log.unknown_features,
        sees_newest=not log.catalog_managed and not log.unknown_features,
        commits=without_undone(tuple(commits) or log.commits),
        has_rows=has_rows,
        retention=log.transaction_retention,
        retention_text=log.properties.get("delta.setTransactionRetentionDuration", ""),
        table_id=log.table_id,
        latest_version=log.latest_version,
        unknown_features=log.unknown_features,
    )


def evidence_from_history(
    history: HistoryEvidence, has_rows: bool | None = None, properties: Mapping[str, str] | None = None
) -> SinkEvidence:
    from surestart.facts.delta.log import duration

    text = (properties or {}).get("delta.setTransactionRetentionDuration", "")
    return SinkEvidence(
        source=HISTORY,
        exists=bool(history.commits),
        transactions=history.transactions,
        complete=history.complete,
        commits=without_undone(history.commits),
        has_rows=has_rows,
        retention=duration(text),
        retention_text=text,
        latest_version=history.commits[-1].version if history.commits else None,
    )


def evidence_from_ledger(rows: Iterable[tuple[str, int]], has_rows: bool | None = None) -> SinkEvidence:
    """From (application id, batch id) rows of the ledger, all of them or the highest batch of each id."""
    transactions: dict[str, Transaction] = {}
    for app_id, batch in rows:
        if app_id not in transactions or transactions[app_id].version < batch:
            transactions[app_id] = Transaction(batch)
    return SinkEvidence(source=LEDGER, transactions=transactions, has_rows=has_rows)


def sink_missing(source: str = LOG) -> SinkEvidence:
    return SinkEvidence(source=source, exists=False, has_rows=False)


def sink_unreadable(error: SurestartError | str, source: str = LOG) -> SinkEvidence:
    if isinstance(error, str):
        return SinkEvidence(source=source, complete=False, problem=error)
    helps = error.next if error.code.endswith(_LACKING) else NOTHING
    return SinkEvidence(source=source, complete=False, problem=error.what, helps=helps)


def sink_without_record() -> SinkEvidence:
    return SinkEvidence(source="", complete=False, sees_newest=False, asked=False)


def app_ids(commit: Commit) -> set[str]:
    """The writers that a commit names, by its mark, its transaction actions or Delta's streaming parameters."""
    found = {app_id for app_id, _ in commit.transactions}
    if commit.mark:
        found.add(commit.mark.app_id)
    elif commit.query_id:
        found.add(commit.query_id)
    return found


def batch_of(commit: Commit, app_id: str) -> int | None:
    for name, version in commit.transactions:
        if name == app_id:
            return version
    return commit.batch_id if app_id in app_ids(commit) else None


@dataclass(frozen=True)
class _Standing:
    """The newest commit that stands, and those before it."""

    commit: Commit
    before: _Standing | None


def without_undone(commits: Iterable[Commit]) -> tuple[Commit, ...]:
    """The commits without those that the undo of a remedy, or a rewind, took back, its own RESTORE included: the table
    is what it was before them. What a rewind took back stands again once that is undone."""
    commits = tuple(commits)
    undos, newest = find_undos(commits), None
    at: dict[int, _Standing | None] = {}
    for commit in commits:
        version = integer(commit.parameters.get("version")) if commit.operation == "RESTORE" else None
        if version is not None and commit.version in undos:
            newest = at.get(max((one for one in at if one <= version), default=-1))
        else:
            newest = _Standing(commit, newest)
        at[commit.version] = newest
    standing: list[Commit] = []
    while newest is not None:
        standing.append(newest.commit)
        newest = newest.before
    return tuple(reversed(standing))


def query_id_of(app_id: str) -> str:
    """Of "<query id>:<step>" the query id; the whole of a constant that has no step."""
    return app_id.partition(":")[0]


def is_query_id(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


@dataclass(frozen=True)
class TopicRecords:
    """since: the time that was asked about, in ms since 1970.
    new: partition -> (first offset since then, end), of those that have any.
    newest: when the newest record of all came; None: there is none.
    one_clock: broker, writers and whoever wrote the checkpoint are this machine."""

    since: int
    new: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    newest: int | None = None
    one_clock: bool = False

    @property
    def count(self) -> int:
        """At most: offsets of transactions' marks count as well."""
        return sum(end - first for first, end in self.new.values())

    def describe(self) -> str:
        shown = ", ".join(
            f"partition {partition} offsets {first} to {end - 1}"
            for partition, (first, end) in sorted(self.new.items())[:6]
        )
        return shown + (f", … {len(self.new)} partitions" if len(self.new) > 6 else "")


@dataclass(frozen=True)
class FileBatches:
    """last: the highest batch, None while there is none.
    missing: batches behind the newest compact file, or from 0, that have no file.
    fault: why a file that is still read is not what Spark writes."""

    last: int | None = None
    compacts: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    fault: LogFault | None = None

    @property
    def whole(self) -> bool:
        return not self.missing and self.fault is None
