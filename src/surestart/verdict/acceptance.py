"""Will the sink ACCEPT, SKIP or DUPLICATE the next batch? Answered from the checkpoint and from the sink's own record.

    B  the batch that the next start runs first          T  the last batch that the sink knows of this identity

    identity kept   T = B      the batch in flight is there already: its replay is recognised, nothing is written twice
                    T = B - 1  accepted
                    T > B      SKIPS: the checkpoint was rewound, the sink drops B..T with whatever is new in them
                    T < B - 1  rows of T+1..B-1 are in neither: a gap
    identity new    B = 0 over output that was not cleared      DUPLICATES
                    B in flight and written under the old id    DUPLICATES
    another id      without a mark of ours: another writer or a former self      acceptance_identity
    no identity     judged by when its commits fell                              acceptance_unsigned
    a Kafka topic   judged by when its records came                              acceptance_topic
    no record       what its kind and its owner say                              acceptance_unsigned

Delta compares with >= (DeltaSink.addBatch, DeltaCommand.hasBeenExecuted); the ledger by primary key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from surestart.declaration import SinkDeclaration, StageDeclaration
from surestart.facts.evidence.file_sink import FILE_LOG, FILE_SINKS
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.facts.evidence.sink_names import UNRECORDED
from surestart.verdict import acceptance_findings as say
from surestart.verdict.acceptance_case import NextBatch, SinkAcceptance, SinkCase, batches_text, is_keyed, next_batch_of
from surestart.verdict.acceptance_fresh import judge_fresh
from surestart.verdict.acceptance_identity import judge_unknown_identity, knows_former_self, other_writer_since
from surestart.verdict.acceptance_topic import judge_topic
from surestart.verdict.acceptance_unsigned import judge_constant, judge_unrecorded, judge_unsigned, way_of_writing
from surestart.verdict.lost_output import find_lost_output
from surestart.verdict.source_findings import find_clock_behind
from surestart.verdict.writer_findings import MERGE_UNCLEAR, WRITTEN_SINCE
from surestart.words.finding import Acceptance, Finding, Severity
from surestart.words.next_commands import Commands

__all__ = ["NextBatch", "SinkAcceptance", "diagnose_acceptance", "is_keyed", "next_batch_of", "settle_suspicions"]

# Suspicions that the checkpoint alone raises. A sink that takes the next start without harm answers them.
IDENTITY_LOST = "METADATA_MISSING"
_MAY_REPLACE = (MERGE_UNCLEAR, WRITTEN_SINCE, "SINK_NOT_ASKED", "SINK_REPLAY_UNRECOGNISABLE")
SUSPICIONS = (IDENTITY_LOST, "REWOUND", "LOGS_DELETED")


def diagnose_acceptance(
    declaration: StageDeclaration,
    next_batch: NextBatch,
    evidence: Mapping[str, SinkEvidence],
    now: int,
    environment: str = "",
    commands: Commands | None = None,
    settled: Mapping[str, int] | None = None,
    added: Sequence[SinkDeclaration] = (),
) -> tuple[SinkAcceptance, ...]:
    """One answer for each declared sink; evidence by the sink's target. settled: target -> the version at which the
    stage's newest remedy left the table, with a begin that fits its rows. added: sinks that the last run did not write
    to."""
    commands = commands or Commands(declaration.stage, environment)
    missing = SinkEvidence("", complete=False, problem="it was not asked")
    return tuple(
        _judge(
            SinkCase(
                declaration,
                sink,
                next_batch,
                evidence.get(sink.target, missing),
                now,
                commands,
                (settled or {}).get(sink.target),
                sink in added,
            )
        )
        for sink in declaration.sinks
    )


def settle_suspicions(
    findings: Iterable[Finding],
    answers: Sequence[SinkAcceptance],
    *,
    can_start: bool,
    stateful: bool,
    unnamed: Finding | None = None,
) -> list[Finding]:
    """A suspicion that the checkpoint alone raises about the sinks becomes as bad as their answer. can_start: False
    where the suspicion is that the start fails. unnamed: what is said where nobody has named a sink; what a suspicion
    foretells is open then, unless it is about the state too."""
    if not can_start or not (answers or unnamed):
        return list(findings)
    return [
        _as_answered(finding, answers, stateful, unnamed)
        if finding.code in SUSPICIONS and finding.severity is Severity.UNSAFE
        else finding
        for finding in findings
    ]


def _as_answered(
    finding: Finding, answers: Sequence[SinkAcceptance], stateful: bool, unnamed: Finding | None
) -> Finding:
    if answers:
        return replace(finding, severity=_severity(finding.code, answers, stateful))
    if unnamed is None or (stateful and finding.code != IDENTITY_LOST):
        return finding
    meaning = f"{finding.meaning} Whether its sink is harmed by that is not known: nobody has named it."
    return replace(finding, severity=Severity.CANNOT_TELL, meaning=meaning, next=unnamed.next)


def _severity(code: str, answers: Sequence[SinkAcceptance], stateful: bool) -> Severity:
    """The finding as the sinks have answered it. METADATA_MISSING is about the identity alone, and every sink was
    judged by that. The other suspicions go further: no sink answers for the state of later batches, nor does a sink
    that cannot tell, except one whose rows may take the place of those that are there: a MERGE, whose keys decide, a
    function that replaces a part, or what keeps no record, as a database into which rows are put by key."""
    answered = {finding.severity for answer in answers for finding in answer.findings}
    if Severity.UNSAFE in answered:
        return Severity.UNSAFE
    if all(answer.settles for answer in answers):
        return Severity.UNSAFE if stateful and code != IDENTITY_LOST else Severity.ATTENTION
    by_keys = all(
        answer.settles
        or (answer.sink.kind != "kafka" and any(finding.code in _MAY_REPLACE for finding in answer.findings))
        for answer in answers
    )
    return Severity.CANNOT_TELL if code == IDENTITY_LOST or (by_keys and not stateful) else Severity.UNSAFE


def _judge(case: SinkCase) -> SinkAcceptance:
    if case.next.unknown:
        # What could not be read of the checkpoint has a finding of its own.
        return replace(case.answer(Acceptance.CANNOT_TELL, case.next.unknown), next_batch=None)
    if not case.evidence.known:
        finding = say.sink_not_readable(case.sink, case.evidence, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, f"the sink could not be read: {case.evidence.problem}", finding)
    if case.evidence.batches is not None or case.evidence.source == FILE_LOG:
        return _judge_by_number(case)
    if case.evidence.topic is not None:
        return judge_topic(case, case.evidence.topic)
    if not case.evidence.asked or case.sink.kind in (*FILE_SINKS, *UNRECORDED):
        return judge_unrecorded(case)
    if not case.evidence.exists:
        return _judge_missing(case)
    if case.sink.identity == "constant":
        return judge_constant(case, case.sink.constant)
    if case.sink.identity == "none":
        return judge_fresh(case) if _is_fresh(case) else judge_unsigned(case)
    table_batch = None if case.app_id is None else case.evidence.last_batch(case.app_id, case.now)
    if table_batch is not None:
        return replace(_judge_known_identity(case, table_batch), table_batch=table_batch)
    if _is_fresh(case):
        return judge_fresh(case)
    if case.sink.identity == "unknown":
        way = way_of_writing(case)
        if way.constant:
            return judge_constant(case, way.constant)
        if (way.unsigned or way.numbered) and not knows_former_self(case):
            return judge_unsigned(case, way.numbered)
    return judge_unknown_identity(case)


def _is_fresh(case: SinkCase) -> bool:
    """Whether nothing was ever run from this checkpoint, as far as it shows."""
    return case.next.batch == 0 and not case.next.replayed


def _judge_known_identity(case: SinkCase, table_batch: int) -> SinkAcceptance:
    assert case.app_id is not None
    batch, sink, commands = case.next.batch, case.sink, case.commands
    if table_batch > batch or (table_batch == batch and not case.next.replayed):
        finding = say.ahead(sink, batch, table_batch, case.next, commands)
        return case.answer(
            Acceptance.SKIPS, f"holds batch {table_batch} already: drops {batches_text(batch, table_batch)}", finding
        )
    if not case.evidence.sees_newest or case.app_id in case.evidence.unreached:
        # The sink certainly knows T. It may know more.
        finding = say.incomplete(sink, case.evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"knows at least batch {table_batch}", finding)
    if behind := _clock_behind(case, case.app_id):
        return case.answer(Acceptance.CANNOT_TELL, f"knows batch {table_batch}, by a clock that is behind", *behind)
    lost = find_lost_output(sink, case.evidence, case.app_id, commands)
    other = other_writer_since(case)
    if other is not None:
        return case.answer(other.acceptance, other.detail, other.finding, *lost)
    if table_batch == batch:
        if any(finding.severity is Severity.UNSAFE for finding in lost):
            return case.answer(
                Acceptance.SKIPS, f"drops batch {batch}, whose rows were taken out of the table again", *lost
            )
        expiry = say.retention(sink, case.evidence, case.app_id, case.now, True, commands)
        return case.answer(
            Acceptance.ACCEPTS,
            f"has batch {batch} already: its replay is recognised and writes nothing, batch {batch + 1} is accepted",
            *lost,
            *expiry,
            replay_recognised=True,
        )
    if case.next.gap(table_batch):
        finding = say.behind(sink, table_batch, batch, commands, case.may_leave_out)
        return case.answer(
            Acceptance.ACCEPTS,
            f"knows batches up to {table_batch}: {batches_text(table_batch + 1, batch - 1)} is in neither place",
            finding,
            *lost,
        )
    expiry = say.retention(sink, case.evidence, case.app_id, case.now, False, commands)
    return case.answer(Acceptance.ACCEPTS, f"holds batches up to {table_batch}, next is {batch}", *lost, *expiry)


def _clock_behind(case: SinkCase, app_id: str) -> tuple[Finding, ...]:
    """A clock that is behind matters for a table that forgets its writers: whether it has forgotten this one counts
    from now."""
    if case.evidence.retention is None:
        return ()
    written = case.evidence.transactions[app_id].last_updated
    return find_clock_behind(f"this query's last batch in {case.sink.target}", written, case.now, case.commands)


def _judge_missing(case: SinkCase) -> SinkAcceptance:
    if case.next.batch == 0 and not case.next.replayed:
        return case.answer(Acceptance.ACCEPTS, "does not exist yet and is created at the first start")
    if case.next.batch == 0:
        return case.answer(Acceptance.ACCEPTS, "does not exist yet; batch 0 is in flight and is written to it")
    finding = say.missing(case.sink, case.next.batch, case.commands)
    return case.answer(
        Acceptance.CANNOT_TELL,
        f"is not there, but the checkpoint counts {batches_text(0, case.next.batch - 1)} as written to it",
        finding,
    )


def _judge_by_number(case: SinkCase) -> SinkAcceptance:
    """A file sink drops every batch that is not above the highest number in its log, whichever query wrote that."""
    batch, sink, commands, held = case.next.batch, case.sink, case.commands, case.evidence.batches
    if not case.evidence.exists or held is None:
        return _judge_missing(case)
    last = held.last
    if last is not None and (last > batch or (last == batch and not case.next.replayed)):
        finding = say.ahead_by_number(sink, batch, last, commands)
        return case.answer(
            Acceptance.SKIPS,
            f"holds batch {last} already: drops {batches_text(batch, last)}",
            finding,
            table_batch=last,
        )
    if not held.whole:
        return case.answer(
            Acceptance.CANNOT_TELL, "its record of batches is not whole", say.file_log_torn(sink, held, commands)
        )
    if last is None and batch > 0:
        finding = say.never_saw(sink, case.next.query_id, batch, commands)
        return case.answer(Acceptance.ACCEPTS, f"holds no batch: {batches_text(0, batch - 1)} is not in it", finding)
    if last is None:
        if case.evidence.has_rows is False:
            return case.answer(Acceptance.ACCEPTS, "is empty: everything is read again into it")
        finding = say.fresh_cannot_tell(sink, {}, [], case.evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, "holds files that no batch wrote", finding)
    if last == batch:
        return case.answer(
            Acceptance.ACCEPTS,
            f"has batch {batch} already: its replay is recognised and writes nothing",
            table_batch=last,
            replay_recognised=True,
        )
    if case.next.gap(last):
        finding = say.behind(sink, last, batch, commands)
        return case.answer(
            Acceptance.ACCEPTS, f"{batches_text(last + 1, batch - 1)} is in neither place", finding, table_batch=last
        )
    return case.answer(Acceptance.ACCEPTS, f"holds batches up to {last}, next is {batch}", table_batch=last)
