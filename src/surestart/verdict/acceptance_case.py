"""One sink, the batch that comes next, and all that is known of both. Each judgement of acceptance looks at this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from surestart.declaration import SinkDeclaration, StageDeclaration
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.evidence.sink_evidence import SinkEvidence, app_ids
from surestart.verdict.shape_traces import traces_of_later_batches
from surestart.words.finding import Acceptance, Finding, Severity
from surestart.words.next_commands import Commands

# Options that let a new checkpoint begin past what an older one has read.
START_OPTIONS = ("startingversion", "startingtimestamp", "startingoffsets", "startingoffsetsbytimestamp")
WRITTEN_WITHIN_MS = 5_000
FROM_THE_BEGINNING = ("earliest", "0")


@dataclass(frozen=True)
class NextBatch:
    """What the next start runs first.

    query_id None: a new identity is made.
    replayed: it was planned before.
    planned_at: when each batch was planned, in ms since 1970.
    idle: batches that no source gave a row for.
    control: batches that an operation on the checkpoint planned, which bring no row to any sink.
    committed_at: when the newest commit file was written, where the table's clock is the same one.
    committed_by: the same in ms, on any storage, where its files are as old as their batches; None for a copy.
    ended: between which times the newest committed batch ended, in ms by the clock of the driver that planned it.
    rewound: the checkpoint shows that later batches have run.
    on_this_machine: whoever wrote it had this machine's clock.
    unknown: why nobody can say which batch comes next, or under which id; then all the rest is a guess."""

    batch: int
    query_id: str | None
    replayed: bool = False
    planned_at: Mapping[int, int] = field(default_factory=dict, compare=False)
    idle: frozenset[int] = field(default=frozenset(), compare=False)
    committed_at: float | None = field(default=None, compare=False)
    rewound: bool = field(default=False, compare=False)
    control: frozenset[int] = frozenset()
    committed_by: int | None = field(default=None, compare=False)
    ended: tuple[int, int] | None = field(default=None, compare=False)
    on_this_machine: bool = field(default=False, compare=False)
    unknown: str = ""

    def gap(self, known: int) -> bool:
        """Whether a batch of rows lies between the last one that a sink knows and this one."""
        return any(batch not in self.control for batch in range(known + 1, self.batch))


def next_batch_of(checkpoint: Checkpoint) -> NextBatch:
    """By Spark's rule (MicroBatchExecution.populateStartOffsets): the last planned batch runs again unless exactly that
    batch is the last committed one."""
    planned, unknown = checkpoint.latest_planned, _why_unknown(checkpoint)
    if planned is None:
        return NextBatch(0, checkpoint.query_id, unknown=unknown)
    entries = {batch: one for batch, one in checkpoint.offsets.items() if isinstance(one, OffsetLogEntry)}
    known = NextBatch(
        planned,
        checkpoint.query_id,
        replayed=True,
        planned_at={batch: entry.timestamp_ms for batch, entry in entries.items() if entry.timestamp_ms},
        idle=frozenset(
            batch
            for batch, entry in entries.items()
            if (before := entries.get(batch - 1)) and _positions(before) == _positions(entry)
        ),
        committed_at=checkpoint.commits_folder.last_modified if checkpoint.storage == "local" else None,
        rewound=bool(traces_of_later_batches(checkpoint)),
        control=frozenset(checkpoint.control_batches),
        committed_by=_committed_by(checkpoint),
        ended=_ended(checkpoint),
        on_this_machine=_on_this_machine(checkpoint),
        unknown=unknown,
    )
    if checkpoint.latest_committed == planned:
        return replace(known, batch=planned + 1, replayed=False)
    return known


def _why_unknown(checkpoint: Checkpoint) -> str:
    if not checkpoint.logs_listed:
        return "which batch comes next is not known"
    if checkpoint.query_id is None and checkpoint.metadata_fault is not None:
        return "the query id cannot be read"
    return ""


def _committed_by(checkpoint: Checkpoint) -> int | None:
    """Spark writes offsets/N in the second in which it plans batch N. In a copy the files' times say nothing."""
    entry, planned = checkpoint.latest_offsets, checkpoint.offsets_folder.last_modified
    committed = checkpoint.commits_folder.last_modified
    if not isinstance(entry, OffsetLogEntry) or not entry.timestamp_ms or planned is None or committed is None:
        return None
    return int(committed * 1000) if abs(planned * 1000 - entry.timestamp_ms) <= WRITTEN_WITHIN_MS else None


def _ended(checkpoint: Checkpoint) -> tuple[int, int] | None:
    """The storage's clock may differ from the driver's. How late it found the plan of the newest batch is the most that
    it can be ahead; how far it is behind, that does not say."""
    committed, entry = _committed_by(checkpoint), checkpoint.latest_offsets
    planned = checkpoint.offsets_folder.last_modified
    if committed is None or planned is None or not isinstance(entry, OffsetLogEntry) or not entry.timestamp_ms:
        return None
    if _on_this_machine(checkpoint):
        return committed, committed
    return committed - max(0, int(planned * 1000) - entry.timestamp_ms), committed + WRITTEN_WITHIN_MS


def _on_this_machine(checkpoint: Checkpoint) -> bool:
    return checkpoint.storage == "local" and checkpoint.checks_crc


def _positions(entry: OffsetLogEntry) -> list[tuple[str, str | None]]:
    return [(source.id, source.text) for source in entry.sources]


@dataclass(frozen=True)
class SinkAcceptance:
    """The answer for one sink. table_batch is the last batch that it knows of this identity."""

    sink: SinkDeclaration
    acceptance: Acceptance
    detail: str
    next_batch: int | None
    table_batch: int | None = None
    replay_recognised: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def word(self) -> str:
        """The answer in capitals. A sink that takes the next batch and lacks rows of earlier ones is not "ACCEPTS", and
        one whose rows are not there at all is not undecided."""
        lacking = any(finding.severity is Severity.UNSAFE for finding in self.findings)
        harmless = self.acceptance in (Acceptance.ACCEPTS, Acceptance.CANNOT_TELL)
        return "ROWS MISSING" if lacking and harmless else self.acceptance.value.upper()

    @property
    def settles(self) -> bool:
        """Whether the sink takes the next start without harm and leaves nothing open. Then a suspicion of the
        checkpoint yields."""
        open_or_worse = (Severity.UNSAFE, Severity.CANNOT_TELL)
        return self.acceptance is Acceptance.ACCEPTS and not any(one.severity in open_or_worse for one in self.findings)


@dataclass(frozen=True)
class SinkCase:
    declaration: StageDeclaration
    sink: SinkDeclaration
    next: NextBatch
    evidence: SinkEvidence
    now: int
    commands: Commands
    settled: int | None = None
    added: bool = False

    def answer(self, acceptance: Acceptance, detail: str, *findings: Finding, **more: object) -> SinkAcceptance:
        result = SinkAcceptance(self.sink, acceptance, detail, self.next.batch, findings=findings)
        return replace(result, **more)  # type: ignore[arg-type]

    @property
    def app_id(self) -> str | None:
        return None if self.next.query_id is None else self.sink.app_id(self.next.query_id)

    @property
    def keyed(self) -> bool:
        return is_keyed(self.sink)

    @property
    def may_leave_out(self) -> bool:
        """Whether batches without rows may have left no trace: a user's function may write nothing for them, while
        surestart's sinks and Delta's own commit each. Of a table that nobody has said more of, its commits tell."""
        if self.sink.kind != "delta":
            return self.sink.kind == "foreach-batch"
        own = (commit for commit in self.evidence.commits if self.app_id in app_ids(commit))
        return not any(one.operation == "STREAMING UPDATE" or (one.mark and one.mark.query) for one in own)

    @property
    def explicit_start(self) -> list[str]:
        """Options by which a source begins elsewhere than at its beginning."""
        return [
            name
            for source in self.declaration.sources
            for name, value in source.options
            if name.lower() in START_OPTIONS and value not in FROM_THE_BEGINNING
        ]


def is_keyed(sink: SinkDeclaration) -> bool:
    """A merge or upsert by key gives the same table when rows come again."""
    return bool(sink.keys) and sink.kind in ("delta-merge", "postgres", "foreach-batch", "delta", "iceberg")


def batches_text(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"{first}..{last}"
