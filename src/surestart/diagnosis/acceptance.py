"""Will the sink ACCEPT, SKIP or DUPLICATE the next batch? Answered from the checkpoint and from the sink's own record.

    B  the batch that the next start runs first          T  the last batch that the sink knows of this identity

    identity kept   T = B      the batch in flight is there already: its replay is recognised, nothing is written twice
                    T = B - 1  accepted
                    T > B      SKIPS: the checkpoint was rewound, the sink drops B..T with whatever is new in them
                    T < B - 1  rows of T+1..B-1 are in neither: a gap
    identity new    B = 0 over output that was not cleared      DUPLICATES
                    B in flight and written under the old id    DUPLICATES

Delta compares with >= (DeltaSink.addBatch, DeltaCommand.hasBeenExecuted); the ledger by primary key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from surestart.checkpoint.snapshot import Checkpoint
from surestart.declaration import SinkDeclaration, StageDeclaration
from surestart.diagnosis import acceptance_findings as say
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.finding import Acceptance, Finding, Severity
from surestart.diagnosis.lost_output import find_lost_output
from surestart.diagnosis.sink_evidence import LEDGER, SinkEvidence, app_ids, is_query_id

RECOGNISING = ("delta-append", "delta-merge", "delta-builtin", "postgres", "foreach-batch")
# Options that let a new checkpoint begin past what an older one has read.
START_OPTIONS = ("startingversion", "startingtimestamp", "startingoffsets", "startingoffsetsbytimestamp")
FROM_THE_BEGINNING = ("earliest", "0")


@dataclass(frozen=True)
class NextBatch:
    """What the next start runs first. query_id None: a new identity is made. replayed: it was planned before."""

    batch: int
    query_id: str | None
    replayed: bool = False


def next_batch_of(checkpoint: Checkpoint) -> NextBatch:
    """By Spark's rule (MicroBatchExecution.populateStartOffsets): the last planned batch runs again unless exactly that
    batch is the last committed one."""
    planned = checkpoint.latest_planned
    if planned is None:
        return NextBatch(0, checkpoint.query_id)
    if checkpoint.latest_committed == planned:
        return NextBatch(planned + 1, checkpoint.query_id)
    return NextBatch(planned, checkpoint.query_id, replayed=True)


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
            _Case(
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


@dataclass(frozen=True)
class _Case:
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


def is_keyed(sink: SinkDeclaration) -> bool:
    """A merge or upsert by key that ignores older rows gives the same table when rows come again."""
    return sink.kind in ("delta-merge", "postgres") and bool(sink.keys)


def _judge(case: _Case) -> SinkAcceptance:
    if not case.evidence.known:
        finding = say.unreadable(case.sink, case.evidence.problem, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, f"the sink could not be read: {case.evidence.problem}", finding)
    if case.sink.identity == "constant":
        return _judge_constant(case)
    if case.sink.identity != "query-id" or case.sink.kind not in RECOGNISING:
        return _judge_unrecognising(case)
    if not case.evidence.exists:
        return _judge_missing(case)
    table_batch = None if case.app_id is None else case.evidence.last_batch(case.app_id, case.now)
    if table_batch is None:
        return _judge_unknown_identity(case)
    return replace(_judge_known_identity(case, table_batch), table_batch=table_batch)


def _judge_known_identity(case: _Case, table_batch: int) -> SinkAcceptance:
    assert case.app_id is not None
    batch, sink, commands = case.next.batch, case.sink, case.commands
    if table_batch > batch or (table_batch == batch and not case.next.replayed):
        finding = say.ahead(sink, batch, table_batch, case.next, commands)
        return case.answer(
            Acceptance.SKIPS, f"holds batch {table_batch} already: drops batches {batch}..{table_batch}", finding
        )
    if not case.evidence.sees_newest:
        # That the sink knows at least T is certain, that it knows no more is not.
        finding = say.incomplete(sink, case.evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"knows at least batch {table_batch}", finding)
    lost = find_lost_output(sink, case.evidence, case.app_id, commands)
    superseded = _superseded(case)
    if superseded:
        finding = say.superseded(sink, case.app_id, superseded, case.keyed, commands)
        acceptance = Acceptance.ACCEPTS if case.keyed else Acceptance.DUPLICATES
        return case.answer(acceptance, f"query id {superseded} has written here since", finding, *lost)
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
    if table_batch < batch - 1:
        finding = say.behind(sink, table_batch, batch, commands)
        return case.answer(
            Acceptance.ACCEPTS,
            f"knows batches up to {table_batch}: {table_batch + 1}..{batch - 1} are in neither",
            finding,
            *lost,
        )
    expiry = say.retention(sink, case.evidence, case.app_id, case.now, False, commands)
    return case.answer(Acceptance.ACCEPTS, f"holds batches up to {table_batch}, next is {batch}", *lost, *expiry)


def _judge_unknown_identity(case: _Case) -> SinkAcceptance:
    """The sink knows no batch of the identity that the next start writes under."""
    batch, sink, evidence, commands = case.next.batch, case.sink, case.evidence, case.commands
    if case.app_id is not None and case.app_id in evidence.transactions:
        return _judge_forgotten_identity(case, case.app_id, evidence.transactions[case.app_id].version)
    others = evidence.identities(case.declaration.query, sink.step)
    others.pop(case.next.query_id or "", None)
    if batch == 0:
        return _judge_fresh(case, others)
    if not evidence.complete or evidence.retention_text:
        return case.answer(
            Acceptance.CANNOT_TELL,
            "its record does not reach back far enough",
            say.incomplete(sink, evidence, commands),
        )
    if not others:
        if case.next.query_id is None:
            return case.answer(
                Acceptance.CANNOT_TELL,
                "the query id is lost and no other names this query",
                say.identity_lost(sink, batch, commands),
            )
        finding = say.never_saw(sink, case.next.query_id, batch, commands)
        return case.answer(Acceptance.ACCEPTS, f"knows no batch of this query: 0..{batch - 1} are not in it", finding)
    if case.added and case.next.query_id is not None:
        # What it holds of a former id is older than the batches that went past it, however well the numbers fit.
        finding = say.never_saw(sink, case.next.query_id, batch, commands, "replay" if case.keyed else "reset")
        return case.answer(Acceptance.ACCEPTS, f"was left out of batches 0..{batch - 1} of this query", finding)
    newest = evidence.newest_identity(others, sink.step)
    if others[newest] >= batch:
        finding = say.renewed_duplicates(sink, newest, others[newest], case.next, case.keyed, commands)
        acceptance = Acceptance.DUPLICATES if not case.keyed else Acceptance.ACCEPTS
        return case.answer(acceptance, f"holds batch {batch} under the former id {newest}", finding)
    finding = say.renewed(sink, newest, others[newest], batch, commands)
    return case.answer(
        Acceptance.ACCEPTS, f"holds batches up to {others[newest]} under the former id {newest}", finding
    )


def _judge_forgotten_identity(case: _Case, app_id: str, table_batch: int) -> SinkAcceptance:
    """The log still shows this identity's last batch, and Delta no longer heeds it."""
    batch, sink, evidence, commands = case.next.batch, case.sink, case.evidence, case.commands
    if table_batch >= batch:
        finding = say.forgotten(sink, evidence, app_id, batch, case.now, commands)
        return case.answer(
            Acceptance.DUPLICATES,
            f"holds batches up to {table_batch} and has forgotten it: {batch}..{table_batch} are written again",
            finding,
        )
    lost = find_lost_output(sink, evidence, app_id, commands)
    if table_batch < batch - 1:
        finding = say.behind(sink, table_batch, batch, commands)
        return case.answer(Acceptance.ACCEPTS, f"batches {table_batch + 1}..{batch - 1} are in neither", finding, *lost)
    return case.answer(Acceptance.ACCEPTS, f"has forgotten this query; batch {batch} is new to it", *lost)


def _judge_fresh(case: _Case, others: dict[str, int]) -> SinkAcceptance:
    sink, evidence, commands = case.sink, case.evidence, case.commands
    if evidence.has_rows is False:
        return case.answer(Acceptance.ACCEPTS, "is empty: everything is read again into it")
    if _is_as_a_remedy_left_it(case):
        return case.answer(Acceptance.ACCEPTS, "is as the newest remedy left it: the stage begins behind its rows")
    if not others and _all_rows_are_of_other_queries(case):
        return case.answer(Acceptance.ACCEPTS, "holds rows of other queries only")
    explicit = [
        name
        for source in case.declaration.sources
        for name, value in source.options
        if name.lower() in START_OPTIONS and value not in FROM_THE_BEGINNING
    ]
    if case.keyed:
        finding = say.output_not_cleared_keyed(sink, others, commands)
        return case.answer(Acceptance.ACCEPTS, "merges by key: rows that come again change nothing", finding)
    if explicit or not others:
        finding = say.fresh_cannot_tell(sink, others, explicit, evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, "holds rows, and whether they come again cannot be told", finding)
    newest = evidence.newest_identity(others, sink.step)
    finding = say.output_not_cleared(sink, newest, others[newest], commands)
    return case.answer(
        Acceptance.DUPLICATES,
        f"holds {others[newest] + 1} batches of {newest}: a new identity writes them again",
        finding,
    )


def _judge_missing(case: _Case) -> SinkAcceptance:
    if case.next.batch == 0 and not case.next.replayed:
        return case.answer(Acceptance.ACCEPTS, "does not exist yet and is created at the first start")
    if case.next.batch == 0:
        return case.answer(Acceptance.ACCEPTS, "does not exist yet; batch 0 is in flight and is written to it")
    finding = say.missing(case.sink, case.next.batch, case.commands)
    return case.answer(
        Acceptance.CANNOT_TELL, f"does not exist, but batches 0..{case.next.batch - 1} were written to it", finding
    )


def _judge_constant(case: _Case) -> SinkAcceptance:
    """A fixed application id outlives the checkpoint; which one it is, the declaration does not say."""
    batch = case.next.batch
    found = {
        app_id: transaction.version
        for app_id, transaction in case.evidence.transactions.items()
        if not is_query_id(app_id.partition(":")[0])
    }
    highest = max(found.values(), default=None)
    if highest is not None and (highest > batch or (highest == batch and not case.next.replayed)):
        name = next(app_id for app_id, version in found.items() if version == highest)
        finding = say.constant_skips(case.sink, name, highest, batch, case.commands)
        return case.answer(
            Acceptance.SKIPS,
            f"holds batch {highest} under the constant {name!r}: drops {batch}..{highest}",
            finding,
            table_batch=highest,
        )
    if highest is None and batch > 0:
        finding = say.constant_unknown(case.sink, batch, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, "no constant identity is known to it", finding)
    return case.answer(Acceptance.ACCEPTS, f"next is batch {batch}", table_batch=highest)


def _judge_unrecognising(case: _Case) -> SinkAcceptance:
    batch = case.next.batch
    if case.next.replayed:
        finding = say.unrecognisable_replay(case.sink, batch, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, f"cannot tell whether it holds batch {batch} already", finding)
    if batch == 0 and case.evidence.has_rows is not False and case.evidence.exists:
        finding = say.fresh_cannot_tell(case.sink, {}, [], case.evidence, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, "keeps no record of batches; rows in it may come again", finding)
    return case.answer(Acceptance.ACCEPTS, f"batch {batch} is new; a replay of it would not be recognised")


def _superseded(case: _Case) -> str:
    """Another streaming identity of the same query that wrote after this one did, or ''."""
    last = case.evidence.last_commit_of(case.app_id or "")
    if last is None:
        return ""
    for commit in reversed(case.evidence.commits):
        if commit.version <= last.version:
            return ""
        mark = commit.mark
        if mark and mark.query == case.declaration.query and mark.step == case.sink.step and is_query_id(mark.query_id):
            return mark.query_id
        if not mark and case.sink.kind == "delta-builtin" and commit.query_id and case.app_id not in app_ids(commit):
            return commit.query_id
    return ""


def _is_as_a_remedy_left_it(case: _Case) -> bool:
    """No stream of this query has written since the remedy. If one has, its checkpoint is another one than this."""
    if case.settled is None:
        return False
    # A ledger has no versions: there it is the time at which the remedy was committed, in milliseconds.
    by_time = case.evidence.source == LEDGER
    later = [
        commit
        for commit in case.evidence.commits
        if ((commit.timestamp or 0) if by_time else commit.version) > case.settled
    ]
    return not any(
        commit.mark and commit.mark.query == case.declaration.query and is_query_id(commit.mark.query_id)
        for commit in later
    )


def _all_rows_are_of_other_queries(case: _Case) -> bool:
    commits = case.evidence.commits
    if not case.evidence.complete or not commits or commits[0].version != 0:
        return False
    silent = ("CREATE TABLE", "SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END")
    return all(
        commit.mark.query != case.declaration.query if commit.mark else commit.operation in silent for commit in commits
    )
