"""One checkpoint from every side: what it says, what a start makes of it, what the sink does, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.errors import UsageError
from surestart.facts.checkpoint.snapshot import Checkpoint, is_checkpoint, read_checkpoint
from surestart.facts.evidence.sink_names import NO_SINK, read_sink_name
from surestart.facts.storage.storage import Storage
from surestart.library_types import SparkSession
from surestart.spark.spark_lines import DEFAULT, LINES, NAMES, find_lines
from surestart.typed import surestart
from surestart.verdict.next_start import NextStart, Outcome, start_on
from surestart.verdict.restart import predict_all
from surestart.verdict.shape_traces import find_in_table
from surestart.verdict.shapes import diagnose_checkpoint, diagnose_recognised_replay, stage_of
from surestart.words.finding import Acceptance, Finding, Severity, Verdict, verdict_of, worst_first
from surestart.words.next_commands import THE_TABLE, Commands, ForeignCommands

if TYPE_CHECKING:
    from surestart.facts.evidence.sink_evidence import SinkEvidence
    from surestart.verdict.acceptance import SinkAcceptance


SINK_NOT_NAMED = "SINK_NOT_NAMED"


@dataclass(frozen=True)
class Inspection:
    """starts: one for each Spark line.
    start: the one that the verdict is about.
    sinks: empty when none was named.
    sink_evidence: what they said, by target."""

    checkpoint: Checkpoint
    start: NextStart
    starts: tuple[NextStart, ...]
    sinks: tuple[SinkAcceptance, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict
    acceptance: Acceptance
    sink_evidence: Mapping[str, SinkEvidence] = field(default_factory=dict)


def inspect_checkpoint(
    location: str,
    *,
    sinks: tuple[str, ...] = (),
    spark: str = DEFAULT,
    storage: Storage | None = None,
    now: int | None = None,
    commands: Commands | None = None,
    session: SparkSession | None = None,
) -> Inspection:
    """Reads the checkpoint and the sinks; writes nothing. Without a sink the verdict is at best "cannot tell".
    commands: for a stage that surestart runs; without them the stream is somebody else's. session: what is asked about
    a table that is known by name alone."""
    spark = read_spark(spark)
    line = find_lines(spark)[0].name
    checkpoint = read_checkpoint(location, storage)
    stage = stage_of(checkpoint)
    commands = commands or ForeignCommands.of(location, sinks, () if spark == DEFAULT else ("--spark", spark))
    starts = predict_all(checkpoint)
    start = start_on(starts, spark)
    findings = [
        *find_unknown_spark(start, commands),
        *diagnose_checkpoint(checkpoint, spark=line, commands=commands),
    ]
    named = tuple(name for name in sinks if name != NO_SINK)
    answers: tuple[SinkAcceptance, ...] = ()
    evidence: Mapping[str, SinkEvidence] = {}
    if named:
        answers, evidence = _ask_sinks(
            checkpoint, stage, named, now if now is not None else int(time.time() * 1000), commands, session
        )
    asked_for = NO_SINK not in sinks and checkpoint.exists and is_checkpoint(checkpoint)
    unnamed = _sink_not_named(checkpoint, location) if asked_for and not named else None
    findings = _settled(findings, answers, unnamed, start, checkpoint)
    for answer in answers:
        findings += answer.findings
        findings += diagnose_recognised_replay(checkpoint, answer.replay_recognised, commands)
    findings += find_in_table(checkpoint, (answer.sink for answer in answers), commands)
    findings += [unnamed] if unnamed else []
    ranked = worst_first(findings)
    return Inspection(
        checkpoint=checkpoint,
        start=start,
        starts=starts,
        sinks=answers,
        findings=ranked,
        verdict=verdict_of(ranked),
        acceptance=_worst(answers),
        sink_evidence=evidence,
    )


_ORDER = (Acceptance.SKIPS, Acceptance.DUPLICATES, Acceptance.CANNOT_TELL, Acceptance.ACCEPTS)


def _worst(answers: tuple[SinkAcceptance, ...]) -> Acceptance:
    given = {answer.acceptance for answer in answers} or {Acceptance.CANNOT_TELL}
    return next(acceptance for acceptance in _ORDER if acceptance in given)


def read_spark(spark: str) -> str:
    """The line that a person has named, by a version of Spark or of Databricks; as it was said where that may be
    several. Raises for one that is not known."""
    found = find_lines(spark)
    if found:
        return spark if len(found) > 1 else found[0].name
    runtimes = sorted(number for line in LINES for number in line.runtimes)
    clients = sorted(number for line in LINES for number in line.clients)
    raise UsageError(
        f"{spark!r} is not a known version of Spark ({', '.join(NAMES)}), of Databricks Runtime "
        f"({runtimes[0]} to {runtimes[-1]}) or of serverless compute (serverless-{clients[0]} to -{clients[-1]})",
        meaning="What a restart does differs between these lines and is known for them only.",
        next=surestart("inspect", "--help", note=f"then with --spark {DEFAULT}, or --spark 15.4 for a runtime"),
        code="SparkUnknown",
    )


def find_unknown_spark(start: NextStart, commands: Commands) -> tuple[Finding, ...]:
    """The start is on a version of Spark whose restart rule nobody has tried, or on one of several that differ."""
    lines = find_lines(start.spark)
    if len(lines) == 1:
        return ()
    alike = start.outcome is not Outcome.CANNOT_TELL
    if lines:
        what = f"{start.spark!r} is a client; its server may be Spark {', '.join(line.name for line in lines)}"
    else:
        what = f"Spark {start.spark!r} would start it; known are {', '.join(NAMES)}"
    return (
        Finding(
            "SPARK_UNKNOWN",
            Severity.ATTENTION if alike else Severity.CANNOT_TELL,
            what,
            "Every known line does the same with this checkpoint; that this one does too is likely and not known."
            if alike
            else f"What the next start does differs between {'these' if lines else 'the known'} lines, so it cannot be "
            "told.",
            commands.doctor(),
            "go back to an older Spark once this one has written a batch.",
        ),
    )


def _settled(
    findings: list[Finding],
    answers: tuple[SinkAcceptance, ...],
    unnamed: Finding | None,
    start: NextStart,
    checkpoint: Checkpoint,
) -> list[Finding]:
    if not answers and all(finding.severity is not Severity.UNSAFE for finding in findings):
        # Nothing to settle. Importing the reader of Delta logs takes a third of the time, and most inspections name no
        # sink.
        return findings
    from surestart.verdict.acceptance import settle_suspicions

    can_start = start.outcome not in (Outcome.FAILS, Outcome.LOOPS, Outcome.CANNOT_TELL)
    stateful = bool(checkpoint.state.operators)
    return settle_suspicions(findings, answers, can_start=can_start, stateful=stateful, unnamed=unnamed)


def _ask_sinks(
    checkpoint: Checkpoint,
    stage: str,
    names: tuple[str, ...],
    now: int,
    commands: Commands,
    session: SparkSession | None,
) -> tuple[tuple[SinkAcceptance, ...], Mapping[str, SinkEvidence]]:
    from surestart.facts.evidence.read_sinks import read_sinks
    from surestart.facts.evidence.session_evidence import read_named_sinks
    from surestart.sinks.postgres.sink import read_ledgers
    from surestart.verdict.acceptance import diagnose_acceptance, next_batch_of
    from surestart.verdict.ask_kafka import ask_topics

    declared = [read_sink_name(name) for name in names]
    first = checkpoint.latest_planned is None
    next_batch = next_batch_of(checkpoint)
    given = read_ledgers(declared)
    given = {**read_named_sinks(declared, session), **ask_topics(declared, next_batch, given)}
    evidence = read_sinks(declared, given, count_rows=first, query_id=checkpoint.query_id)
    sinks = [one for sink in declared for one in steps_of(sink, evidence[sink.target], checkpoint.query_id)]
    declaration = StageDeclaration(
        stage=stage,
        query=stage,
        checkpoint=checkpoint.location,
        sources=tuple(SourceDeclaration(source.kind, source.id) for source in checkpoint.sources),
        sinks=tuple(sinks),
        state=tuple(operator.name or "" for operator in checkpoint.state.operators),
    )
    return diagnose_acceptance(declaration, next_batch, evidence, now, commands=commands), evidence


def steps_of(sink: SinkDeclaration, evidence: SinkEvidence, query_id: str | None) -> list[SinkDeclaration]:
    """A query that writes twice to a table does so as "<query id>:<step>": the table names the steps."""
    if query_id is None or query_id in evidence.transactions:
        return [sink]
    prefix = f"{query_id}:"
    steps = sorted(app_id[len(prefix) :] for app_id in evidence.transactions if app_id.startswith(prefix))
    return [replace(sink, step=step) for step in steps] or [sink]


def _sink_not_named(checkpoint: Checkpoint, location: str) -> Finding:
    return Finding(
        SINK_NOT_NAMED,
        Severity.CANNOT_TELL,
        "no sink was named, so nobody asked which batches it holds",
        "A checkpoint is half of the truth: a rewound one looks whole. Whether the sink "
        f"accepts, skips or duplicates batch {checkpoint.next_batch} is known only from both.",
        surestart("inspect", location, "--sink", THE_TABLE, note="or --sink none, for the checkpoint alone"),
        "treat a whole checkpoint as a safe restart.",
    )
