"""Whose are the batches that stand in a table under another query id than the checkpoint's?

our mark names the query               a former or a later self: what it wrote comes again
its batches fell into our batches' times    a former self: `metadata` was lost or replaced
it wrote before, between and after ours     another writer: two streams were alive at once
otherwise                              another writer or another self: cannot tell, settled by saying `shared`
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from surestart.facts.delta import Commit
from surestart.facts.evidence.sink_evidence import app_ids, is_query_id, query_id_of
from surestart.verdict import acceptance_findings as say
from surestart.verdict import writer_findings as writers
from surestart.verdict.acceptance_case import SinkAcceptance, SinkCase, batches_text
from surestart.verdict.batch_times import batches_by_time, is_writing
from surestart.verdict.lost_output import find_lost_output
from surestart.words.finding import Acceptance, Finding, Severity

# As Spark names the operator; its state has all that output mode complete writes.
AGGREGATION = "stateStoreSave"


@dataclass(frozen=True)
class OtherWriter:
    acceptance: Acceptance
    detail: str
    finding: Finding


def other_writer_since(case: SinkCase) -> OtherWriter | None:
    """A streaming query that has written since this one did, unless it is known to be another one than this."""
    sink, app_id = case.sink, case.app_id or ""
    last = case.evidence.last_commit_of(app_id)
    if last is None:
        return None
    marked = bool(last.mark and last.mark.query)
    for commit in reversed(case.evidence.commits):
        if commit.version <= last.version:
            return None
        mark = commit.mark if commit.mark and commit.mark.query else None
        if mark and mark.query == case.declaration.query and mark.step == sink.step and is_query_id(mark.query_id):
            return _superseded(case, app_id, mark.query_id)
        # What this query writes through surestart bears its name: a commit without one is somebody else's.
        other = _query_of(commit)
        if mark or marked or not other or app_id in app_ids(commit):
            continue
        if sink.shared is False:
            return _superseded(case, app_id, other)
        if sink.shared or _was_alive_beside(case, app_id, other):
            continue
        finding = writers.other_writer(sink, app_id, other, case.keyed, case.commands)
        acceptance = Acceptance.ACCEPTS if case.keyed else Acceptance.CANNOT_TELL
        return OtherWriter(acceptance, f"query id {other} has written here since", finding)
    return None


def _query_of(commit: Commit) -> str:
    """The streaming query that wrote it: by Delta's own sink, or by a function under its query id."""
    signed = (query_id_of(app_id) for app_id, _ in commit.transactions)
    return commit.query_id or next((one for one in signed if is_query_id(one)), "")


def _superseded(case: SinkCase, app_id: str, other: str) -> OtherWriter:
    finding = say.superseded(case.sink, app_id, other, case.keyed, case.commands)
    acceptance = Acceptance.ACCEPTS if case.keyed else Acceptance.DUPLICATES
    return OtherWriter(acceptance, f"query id {other} has written here since", finding)


def _was_alive_beside(case: SinkCase, app_id: str, other: str) -> bool:
    """Whether it wrote between two batches of ours. A stream that takes over, or was taken over from, does not."""
    ours = [commit.version for commit in case.evidence.commits if app_id in app_ids(commit)]
    theirs = [commit.version for commit in case.evidence.commits if other in app_ids(commit)]
    return any(ours[0] < version < ours[-1] for version in theirs)


def judge_unknown_identity(case: SinkCase) -> SinkAcceptance:
    """The sink knows no batch of the identity that the next start writes under, though batches were planned."""
    batch, sink, evidence, commands = case.next.batch, case.sink, case.evidence, case.commands
    if case.app_id is not None and case.app_id in evidence.transactions:
        return judge_forgotten(case, case.app_id, evidence.transactions[case.app_id].version)
    former = _former_selves(case)
    if not evidence.complete or evidence.retention_text:
        finding = say.incomplete(sink, evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, "its record does not reach back far enough", finding)
    if batch == 0:
        # Batch 0 is in flight and this id never wrote: the same as a first start.
        from surestart.verdict.acceptance_fresh import judge_fresh

        return judge_fresh(case)
    if not former:
        return _judge_never_saw(case)
    if case.added and case.next.query_id is not None:
        # Batches under a former id are older than the batches that came after them, however well the numbers fit.
        finding = say.never_saw(sink, case.next.query_id, batch, commands, "replay" if case.keyed else "reset")
        left_out = batches_text(0, batch - 1)
        return case.answer(Acceptance.ACCEPTS, f"was left out of {left_out} of this query", finding)
    newest = evidence.newest_identity(former, sink.step)
    app_id = f"{newest}:{sink.step}" if sink.step else newest
    lost = find_lost_output(sink, evidence, app_id, commands)
    if former[newest] >= batch:
        finding = say.renewed_duplicates(sink, newest, former[newest], case.next, case.keyed, commands)
        acceptance = Acceptance.DUPLICATES if not case.keyed else Acceptance.ACCEPTS
        return case.answer(acceptance, f"holds batch {batch} under the former id {newest}", finding, *lost)
    finding = say.renewed(sink, newest, former[newest], batch, commands)
    detail = f"holds batches up to {former[newest]} under the former id {newest}"
    return case.answer(Acceptance.ACCEPTS, detail, finding, *lost)


def knows_former_self(case: SinkCase) -> bool:
    """The sink holds this checkpoint's batches under another query id, as a mark or the times show."""
    return bool(_named_selves(case) or _selves_by_time(case)[0])


def _former_selves(case: SinkCase) -> dict[str, int]:
    """Other ids under which this query may have written: those that a mark names; else those whose batches fell into
    the times at which this checkpoint planned batches of the same number; else, where no time tells, all of them."""
    named = _named_selves(case)
    if named:
        return named
    by_time, told = _selves_by_time(case)
    return by_time if told else _others(case)


def _others(case: SinkCase) -> dict[str, int]:
    others = case.evidence.identities(case.declaration.query, case.sink.step)
    others.pop(case.next.query_id or "", None)
    return others


def _named_selves(case: SinkCase) -> dict[str, int]:
    marks = [one.mark for one in case.evidence.commits if one.mark and one.mark.step == case.sink.step]
    named = {mark.query_id for mark in marks if mark.query == case.declaration.query}
    return {identity: last for identity, last in _others(case).items() if identity in named}


def _selves_by_time(case: SinkCase) -> tuple[dict[str, int], bool]:
    """The other ids whose times fit, and whether any time told something."""
    step = f":{case.sink.step}" if case.sink.step else ""
    others = _others(case)
    counted = {one: batches_by_time(case.next, case.evidence.commits, f"{one}{step}") for one in others}
    told = any(fits + differs for fits, differs in counted.values())
    return {one: last for one, last in others.items() if counted[one][0] > counted[one][1]}, told


def _judge_never_saw(case: SinkCase) -> SinkAcceptance:
    batch, sink, commands = case.next.batch, case.sink, case.commands
    if case.next.query_id is None:
        finding = say.identity_lost(sink, batch, commands)
        return case.answer(Acceptance.CANNOT_TELL, "the query id is lost and no other names this query", finding)
    anew = was_made_anew(case)
    finding = say.never_saw(sink, case.next.query_id, batch, commands, made_anew=anew, may_leave_out=case.may_leave_out)
    finding = open_if_aggregated(case, finding)
    return case.answer(
        Acceptance.ACCEPTS, f"knows no batch of this query: {batches_text(0, batch - 1)} is not in it", finding
    )


def open_if_aggregated(case: SinkCase, finding: Finding) -> Finding:
    """What the table lacks may be written once more, from the state of an aggregation."""
    if AGGREGATION not in case.declaration.state or finding.severity is not Severity.UNSAFE:
        return finding
    meaning = f"{finding.meaning} In output mode complete an aggregation writes its whole result anew."
    return replace(finding, severity=Severity.CANNOT_TELL, meaning=meaning)


def was_made_anew(case: SinkCase) -> bool:
    """The table is younger than the checkpoint's newest commit: what was written before is in another one."""
    commits, committed = case.evidence.commits, case.next.committed_at
    if committed is None or not commits or commits[0].version != 0 or commits[0].timestamp is None:
        return False
    writing = [commit.timestamp for commit in commits if is_writing(commit)]
    # A second for file systems that keep no fractions.
    return all((time or 0) > committed * 1000 + 1000 for time in [commits[0].timestamp, *writing])


def judge_forgotten(case: SinkCase, app_id: str, table_batch: int) -> SinkAcceptance:
    """The log still shows this identity's last batch, and Delta no longer minds it."""
    batch, sink, evidence, commands = case.next.batch, case.sink, case.evidence, case.commands
    if table_batch >= batch:
        finding = say.forgotten(sink, evidence, app_id, batch, case.now, commands)
        return case.answer(
            Acceptance.DUPLICATES,
            f"holds batches up to {table_batch} and has forgotten it: {batches_text(batch, table_batch)} comes again",
            finding,
        )
    if app_id in evidence.unreached:
        finding = say.incomplete(sink, evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"knew batch {table_batch}", finding)
    lost = find_lost_output(sink, evidence, app_id, commands)
    if case.next.gap(table_batch):
        finding = say.behind(sink, table_batch, batch, commands, case.may_leave_out)
        missing = batches_text(table_batch + 1, batch - 1)
        return case.answer(Acceptance.ACCEPTS, f"{missing} is in neither place", finding, *lost)
    expiry = say.retention(sink, evidence, app_id, case.now, False, commands)
    return case.answer(Acceptance.ACCEPTS, f"has forgotten this query; batch {batch} is new to it", *lost, *expiry)
