"""A stage diagnosed: checkpoint x source x sink x code, put together into findings and one verdict.

    declaration ─┐
    checkpoint ──┼─> what the next start does ──┐
    sinks ───────┼─> accepts, skips, duplicates ┼─> findings, worst first ──> verdict
    sources ─────┼─> what is still there ───────┤
    history ─────┘   what has changed ──────────┘

Values in, values out; `read_stage` is the part that reads. Nothing here writes and nothing imports pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource, read_checkpoint
from surestart.facts.delta.unread_commits import TableReading
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.facts.evidence.read_sinks import read_sinks
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.facts.evidence.source_evidence import (
    DeltaSourceEvidence,
    FileSourceEvidence,
    NextRead,
    first_version,
    read_delta_source,
    read_file_source,
)
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.storage import Storage
from surestart.spark.spark_lines import DEFAULT, LINES, find_line
from surestart.verdict.acceptance import SinkAcceptance, diagnose_acceptance, next_batch_of, settle_suspicions
from surestart.verdict.ask_kafka import ask_topics
from surestart.verdict.change import Change
from surestart.verdict.change_safety import classify_changes, find_added, find_changes
from surestart.verdict.delta_source_findings import find_delta_source, open_where_not_said
from surestart.verdict.inspection import SINK_NOT_NAMED, Inspection, find_unknown_spark, steps_of
from surestart.verdict.next_start import NextStart, Outcome, start_on
from surestart.verdict.restart import predict_all
from surestart.verdict.shape_traces import find_in_table
from surestart.verdict.shapes import diagnose_checkpoint, diagnose_recognised_replay
from surestart.verdict.sink_audit import audit_sinks
from surestart.verdict.source_findings import ASKED_BY_SPARK, find_file_source, left_to_spark, not_declared
from surestart.words.finding import Acceptance, Finding, Severity, Verdict, verdict_of, worst_first
from surestart.words.next_commands import Commands

# Called with a table and with the first version that is not read yet, if any version was read.
AskDelta = Callable[[SourceDeclaration, int | None], DeltaSourceEvidence]
AskSource = Callable[[SourceDeclaration, Checkpoint], tuple[Finding, ...]]
SourceEvidence = DeltaSourceEvidence | FileSourceEvidence | tuple[Finding, ...]
_UNFINISHED = "REMEDY_UNFINISHED"
_FIRST_START = ("CHECKPOINT_ABSENT", "NEVER_STARTED")
_WORST = (Acceptance.SKIPS, Acceptance.DUPLICATES, Acceptance.CANNOT_TELL, Acceptance.ACCEPTS)


@dataclass(frozen=True)
class Evidence:
    """What was read for one stage.

    sinks: by target.
    sources: in the declaration's order; for Kafka, the findings that were made of the cluster's answers.
    history: former runs, oldest first, as plain values.
    settled: target -> the version at which the newest remedy left it.
    reading: how its input table is read after a remedy."""

    declaration: StageDeclaration
    checkpoint: Checkpoint
    sinks: Mapping[str, SinkEvidence]
    sources: tuple[SourceEvidence, ...] = ()
    history: tuple[Mapping[str, object], ...] = ()
    settled: Mapping[str, int] = field(default_factory=dict)
    reading: TableReading | None = None


@dataclass(frozen=True)
class Diagnosis:
    """findings: worst first.
    start: on the Spark line that would run it.
    starts: on each line."""

    evidence: Evidence
    environment: str
    start: NextStart
    starts: tuple[NextStart, ...]
    sinks: tuple[SinkAcceptance, ...]
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict
    acceptance: Acceptance
    asked_at: int

    @property
    def stage(self) -> str:
        return self.evidence.declaration.stage

    def with_findings(self, more: Iterable[Finding]) -> Diagnosis:
        """The same diagnosis with more findings, and the verdict that follows."""
        findings = ranked((*more, *self.findings))
        return replace(self, findings=findings, verdict=verdict_of(findings))

    @property
    def inspection(self) -> Inspection:
        """The same as an Inspection, for reports that show one checkpoint."""
        return Inspection(
            checkpoint=self.evidence.checkpoint,
            start=self.start,
            starts=self.starts,
            sinks=self.sinks,
            findings=self.findings,
            verdict=self.verdict,
            acceptance=self.acceptance,
            sink_evidence=self.evidence.sinks,
        )


def diagnose(
    evidence: Evidence,
    *,
    environment: str = "",
    spark: str = DEFAULT,
    now: int,
    commands: Commands | None = None,
) -> Diagnosis:
    """The verdict on starting this stage now, on that Spark line."""
    declaration, checkpoint = evidence.declaration, evidence.checkpoint
    commands = commands or Commands(declaration.stage, environment)
    starts = predict_all(checkpoint, declaration)
    start = start_on(starts, spark)
    registered = _last_declaration(evidence.history)
    added = find_added(declaration, registered) if registered else ()
    sinks = _judge_sinks(evidence, start, commands, now, added)
    # What a version that is not known does differently is in `find_unknown_spark`.
    line = (find_line(spark) or LINES[-1]).name
    changes = classify_changes(declaration, checkpoint, registered, line)
    findings = _find_all(evidence, start, sinks, line, commands, now)
    findings += find_changes(_without_repeats(changes, findings), commands)
    if start.outcome is Outcome.FIRST and all(_accepts_plainly(answer) for answer in sinks):
        findings = [_as_note(finding) if finding.code in _FIRST_START else finding for finding in findings]
    found = ranked(findings)
    given = {answer.acceptance for answer in sinks} or {Acceptance.CANNOT_TELL}
    return Diagnosis(
        evidence=evidence,
        environment=environment,
        start=start,
        starts=starts,
        sinks=sinks,
        changes=changes,
        findings=found,
        verdict=verdict_of(found),
        acceptance=next(acceptance for acceptance in _WORST if acceptance in given),
        asked_at=now,
    )


def _find_all(
    evidence: Evidence, start: NextStart, sinks: Sequence[SinkAcceptance], line: str, commands: Commands, now: int
) -> list[Finding]:
    """Of checkpoint, sinks and sources as they are; not yet what has changed since the last run."""
    declaration, checkpoint = evidence.declaration, evidence.checkpoint
    unnamed = None if declaration.sinks else _no_sink(declaration, commands)
    return [
        *find_unknown_spark(start, commands),
        *settle_suspicions(
            diagnose_checkpoint(checkpoint, declaration, spark=line, commands=commands),
            sinks,
            can_start=start.outcome not in (Outcome.FAILS, Outcome.LOOPS, Outcome.CANNOT_TELL),
            stateful=bool(checkpoint.state.operators or declaration.state),
            unnamed=unnamed,
        ),
        *(finding for answer in sinks for finding in answer.findings),
        *(
            finding
            for answer in sinks
            for finding in diagnose_recognised_replay(checkpoint, answer.replay_recognised, commands)
        ),
        *find_in_table(checkpoint, declaration.sinks, commands),
        *_judge_sources(evidence, start, commands, now, sinks),
        *audit_sinks(declaration, commands),
        *([unnamed] if unnamed else ()),
        *_find_open_sinks(declaration, start, commands),
    ]


def read_stage(
    declaration: StageDeclaration,
    *,
    sinks: Mapping[str, SinkEvidence] | None = None,
    ask_source: AskSource | None = None,
    ask_delta: AskDelta | None = None,
    history: Iterable[Mapping[str, object]] = (),
    storage: Storage | None = None,
    settled: Mapping[str, int] | None = None,
    reading: TableReading | None = None,
) -> Evidence:
    """Everything that plain reads can tell. `sinks` hold, by target, what a session or a database has answered already;
    `ask_delta` is called for each table without a path, `ask_source` for Kafka and for kinds that nobody here knows."""
    storage = storage or open_storage(declaration.checkpoint)
    checkpoint = read_checkpoint(declaration.checkpoint, storage)
    first = checkpoint.latest_planned is None
    if declaration.foreign and not declaration.sources:
        # A checkpoint says of which kind a source is, and nothing that could be asked for more. Taken from this reading
        # of it: a second one that was refused would look as if the sources had been taken away.
        kinds = tuple(SourceDeclaration(source.kind, "") for source in checkpoint.sources)
        declaration = replace(declaration, sources=kinds)
    return Evidence(
        declaration=declaration,
        checkpoint=checkpoint,
        sinks=read_sinks(
            declaration.sinks,
            ask_topics(declaration.sinks, next_batch_of(checkpoint), sinks),
            count_rows=first,
            query_id=checkpoint.query_id,
        ),
        sources=tuple(
            ()
            if _is_left_open(declaration, source)
            else _read_source(source, _span(checkpoint, index), checkpoint, storage, ask_source, ask_delta, reading)
            for index, source in enumerate(declaration.sources)
        ),
        history=tuple(history),
        settled=settled or {},
        reading=reading,
    )


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first. A remedy that stands half-way comes before all: the rest is what it has left so far."""
    return worst_first(sorted(findings, key=lambda finding: finding.code != _UNFINISHED))


def _judge_sinks(
    evidence: Evidence, start: NextStart, commands: Commands, now: int, added: Sequence[SinkDeclaration]
) -> tuple[SinkAcceptance, ...]:
    declaration, checkpoint = evidence.declaration, evidence.checkpoint
    next_batch = next_batch_of(checkpoint)
    if start.outcome is Outcome.CANNOT_TELL:
        # Any answer would be a guess.
        why = next_batch.unknown or "which batch comes next is not known"
        return tuple(SinkAcceptance(sink, Acceptance.CANNOT_TELL, why, None) for sink in declaration.sinks)
    if declaration.foreign:
        found = [steps_of(sink, evidence.sinks[sink.target], checkpoint.query_id) for sink in declaration.sinks]
        declaration = replace(declaration, sinks=tuple(sink for steps in found for sink in steps))
    return diagnose_acceptance(
        declaration,
        next_batch,
        evidence.sinks,
        now,
        commands=commands,
        settled=evidence.settled,
        added=added,
    )


def _judge_sources(
    evidence: Evidence, start: NextStart, commands: Commands, now: int, sinks: Sequence[SinkAcceptance]
) -> list[Finding]:
    findings: list[Finding] = []
    held = bool(sinks) and not evidence.declaration.open_sinks and all(_passes_over(one, evidence) for one in sinks)
    for index, (source, found) in enumerate(zip(evidence.declaration.sources, evidence.sources, strict=False)):
        span = _span(evidence.checkpoint, index)
        if _is_left_open(evidence.declaration, source):
            said = left_to_spark(source, commands) if source.target else not_declared(source.kind, commands)
            findings.append(said)
        elif isinstance(found, tuple):
            findings += found
        elif isinstance(found, DeltaSourceEvidence):
            told = find_delta_source(source, span, found, commands, now, evidence.reading)
            findings += open_where_not_said(source, told, commands) if evidence.declaration.foreign else told
        else:
            findings += find_file_source(source, span, found, commands, held)
    return findings


def _passes_over(answer: SinkAcceptance, evidence: Evidence) -> bool:
    """Whether the sink has the batch in flight, and Spark runs none of it. A function of its owner is called all the
    same, and may read the batch."""
    if not answer.replay_recognised or answer.sink.kind in FILE_SINKS:
        return answer.replay_recognised
    query_id = evidence.checkpoint.query_id or ""
    last = evidence.sinks[answer.sink.target].last_commit_of(answer.sink.app_id(query_id) or query_id)
    return last is not None and last.operation == "STREAMING UPDATE"


def _is_left_open(declaration: StageDeclaration, source: SourceDeclaration) -> bool:
    """Whether a source stays open, for a stream that others run: nobody has declared it, or only Spark can ask
    there."""
    return declaration.foreign and (not source.target or source.kind in ASKED_BY_SPARK)


def _find_open_sinks(declaration: StageDeclaration, start: NextStart, commands: Commands) -> Iterator[Finding]:
    """A replay writes again wherever the function writes, and no log of a table shows where else that is."""
    if declaration.open_sinks and declaration.sinks and start.outcome is Outcome.REPLAYS:
        yield Finding(
            "SINKS_NOT_ALL_KNOWN",
            Severity.CANNOT_TELL,
            f"batch {start.batch} is in flight; a function writes it to "
            f"{', '.join(sink.target for sink in declaration.sinks[:3])}, and whether elsewhere too nobody has said",
            "Where its writes carry (query id, batch id), the batch is known. Another table, a database or a topic "
            "may get its rows twice.",
            commands.doctor(
                "once the function was read: other_sinks goes from surestart.toml, or its other sinks come in"
            ),
            "take that line away unread.",
        )


def _span(checkpoint: Checkpoint, index: int) -> NextRead:
    """Offsets of version 1 match sources by place; so do those of version 2 while no source has a name."""
    found = (
        checkpoint.sources[index] if index < len(checkpoint.sources) else CheckpointSource(str(index), "", None, None)
    )
    planned = checkpoint.latest_planned
    return NextRead(found, replayed=planned is not None and checkpoint.latest_committed != planned)


def _read_source(
    source: SourceDeclaration,
    span: NextRead,
    checkpoint: Checkpoint,
    storage: Storage,
    ask_source: AskSource | None,
    ask_delta: AskDelta | None,
    reading: TableReading | None,
) -> SourceEvidence:
    if source.kind == "delta":
        begin = (reading or TableReading(source.options)).begin
        if source.path:
            return read_delta_source(source.path, span.delta, begin=begin)
        if ask_delta is not None:
            return ask_delta(source, begin if span.delta is None else first_version(span.delta))
        return DeltaSourceEvidence(problem="its files cannot be opened by name; a session can tell")
    if source.kind == "files":
        return read_file_source(source.path or source.target, span, storage)
    if source.kind in ("rate", "memory"):
        return ()
    if ask_source is not None:
        return ask_source(source, checkpoint)
    return FileSourceEvidence(problem=f"a source of kind {source.kind!r} is not known here and was not asked")


def _no_sink(declaration: StageDeclaration, commands: Commands) -> Finding:
    return Finding(
        SINK_NOT_NAMED,
        Severity.CANNOT_TELL,
        f"no sink of {declaration.stage} is declared, so nobody asked which batches it holds",
        "A checkpoint is half of the truth: a rewound one looks whole. Whether the sink accepts, skips or duplicates "
        "the next batch is known only from both.",
        commands.doctor("once surestart.toml names its sink"),
        "treat a whole checkpoint as a safe restart.",
    )


def _accepts_plainly(answer: SinkAcceptance) -> bool:
    return answer.acceptance is Acceptance.ACCEPTS and not answer.findings


def _as_note(finding: Finding) -> Finding:
    """The finding as a note. A missing checkpoint may be a lost one; when every sink was asked and is empty, it is a
    first start."""
    return replace(finding, severity=Severity.INFO)


def _last_declaration(history: Sequence[Mapping[str, object]]) -> Mapping[str, object] | None:
    for run in reversed(history):
        found = run.get("declaration")
        if isinstance(found, Mapping):
            return found
    return None


def _without_repeats(changes: Iterable[Change], findings: Sequence[Finding]) -> list[Change]:
    """The checkpoint's own findings name a changed number or kind of sources already."""
    said = {"SOURCE_COUNT_CHANGED", "SOURCE_KIND_CHANGED"} & {finding.code for finding in findings}
    return [change for change in changes if not (said and change.of_sources)]
