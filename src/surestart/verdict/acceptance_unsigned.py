"""A function of the user's own that writes without the pair (query id, batch id), judged by when its commits fell.

    constant id    Delta compares its number with the batch, whatever checkpoint that is of: T and B as for a query id
    no id at all   each batch before made one commit in its time; the newest:
                     in flight, none since it was planned       not written: the replay writes it once
                     in flight, one as before                   written: an append doubles, a MERGE by key does not
                     at rest, one as before                     accepted
                     at rest, more, or none                     cannot tell: rewound, put back, or another writer

What cannot be told is settled by saying that the MERGE has keys, or the constant id.

A sink that keeps no record, or none that this program could read: what its kind says, and what its owner does.

console, noop             nothing is kept: nothing can be lost or doubled
memory                    kept by the driver alone; Spark resumes it in output mode complete only
declared keys             whatever comes again takes the place of what is there
a declared ledger         a batch in flight is recognised; a rewound checkpoint would be dropped, unseen from here
nothing declared          cannot tell"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from surestart.facts.delta import Commit
from surestart.facts.delta.commit import merge_keys, only_inserts
from surestart.facts.delta.taken_out import replaces_a_part, taken_out
from surestart.facts.evidence.sink_evidence import is_query_id, query_id_of
from surestart.verdict import acceptance_findings as say
from surestart.verdict import writer_findings as writers
from surestart.verdict.acceptance_case import SinkAcceptance, SinkCase, batches_text
from surestart.verdict.acceptance_fresh import judge_fresh, overwrites, takes_its_place
from surestart.verdict.acceptance_identity import judge_forgotten, open_if_aggregated, was_made_anew
from surestart.verdict.batch_times import BatchTime, Trace, batches_by_time, counts_batches, is_unsigned, trace_unsigned
from surestart.verdict.lost_output import find_lost_output
from surestart.words.finding import Acceptance, Severity


@dataclass(frozen=True)
class WayOfWriting:
    """How this checkpoint's batches are written, as the table shows it. With no field set, it shows nothing of them.

    constant: the id under which each has its number.
    numbered: the id under which each has some number: ten times its own, or the time."""

    constant: str = ""
    unsigned: bool = False
    numbered: str = ""


def way_of_writing(case: SinkCase) -> WayOfWriting:
    evidence = case.evidence
    streaming = {commit.query_id for commit in evidence.commits if commit.query_id}
    # A query's id belongs to a former self; acceptance_identity judges it.
    fixed = [one for one in evidence.transactions if one not in streaming and not is_query_id(query_id_of(one))]
    for app_id in fixed:
        if counts_batches(case.next, evidence.commits, app_id):
            return WayOfWriting(constant=app_id)
    trace = trace_unsigned(case.next, evidence.commits)
    if any(span.count for span in trace.spans):
        return WayOfWriting(unsigned=True)
    for app_id in fixed:
        if any(span.count for span in trace_unsigned(case.next, evidence.commits, app_id).spans):
            return WayOfWriting(numbered=app_id)
    # Older commits without a writer are a sign only where no time tells.
    return WayOfWriting(unsigned=not trace.spans and any(is_unsigned(commit) for commit in evidence.commits))


def judge_constant(case: SinkCase, name: str = "") -> SinkAcceptance:
    """A fixed application id outlives the checkpoint. name "": the declaration does not say which one it is. A function
    may take any number that grows: the batch and one, or the time; then times tell, and not the numbers."""
    batch, sink = case.next.batch, case.sink
    if name and _numbers_otherwise(case, name):
        return judge_unsigned(case, name)
    found = {
        app_id: transaction.version
        for app_id, transaction in case.evidence.transactions.items()
        if (app_id == name if name else not is_query_id(query_id_of(app_id)))
    }
    highest = max(found.values(), default=None)
    if highest is None:
        if batch == 0:
            # A wrong constant, or none, is not known to the table of a deleted checkpoint either.
            return judge_fresh(case)
        finding = say.constant_unknown(sink, batch, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, "no constant identity is known to it", finding)
    name = next(app_id for app_id, version in found.items() if version == highest)
    if case.evidence.last_batch(name, case.now) is None:
        return judge_forgotten(case, name, highest)
    if highest > batch or (highest == batch and not case.next.replayed):
        finding = say.constant_skips(sink, name, highest, batch, case.commands)
        return case.answer(
            Acceptance.SKIPS,
            f"holds batch {highest} under the constant {name!r}: drops {batches_text(batch, highest)}",
            finding,
            table_batch=highest,
        )
    if not case.evidence.sees_newest or name in case.evidence.unreached:
        finding = say.incomplete(sink, case.evidence, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, f"knows at least batch {highest} under {name!r}", finding)
    lost = find_lost_output(sink, case.evidence, name, case.commands)
    if highest == batch:
        if any(finding.severity is Severity.UNSAFE for finding in lost):
            return case.answer(Acceptance.SKIPS, f"drops batch {batch}, whose rows were taken out again", *lost)
        return case.answer(
            Acceptance.ACCEPTS,
            f"has batch {batch} already under the constant {name!r}: its replay is recognised",
            *lost,
            table_batch=highest,
            replay_recognised=True,
        )
    if case.next.gap(highest):
        finding = say.behind(sink, highest, batch, case.commands, case.may_leave_out)
        missing = batches_text(highest + 1, batch - 1)
        return case.answer(Acceptance.ACCEPTS, f"{missing} is in neither place", finding, *lost, table_batch=highest)
    return case.answer(
        Acceptance.ACCEPTS, f"holds batches up to {highest} under {name!r}, next is {batch}", *lost, table_batch=highest
    )


def _numbers_otherwise(case: SinkCase, name: str) -> bool:
    """Whether its commits fell into the times of batches, and bear other numbers than theirs."""
    commits = case.evidence.commits
    fits, differs = batches_by_time(case.next, commits, name)
    return differs > fits and any(span.count for span in trace_unsigned(case.next, commits, name).spans)


def judge_unsigned(case: SinkCase, app_id: str = "") -> SinkAcceptance:
    """Batches were planned; the table's commits do not say whose they are. app_id: what they are signed with, by
    numbers that are not the batches': whether the table takes a number twice cannot be told."""
    sink, evidence = case.sink, case.evidence
    latest = evidence.commits[-1].version if evidence.commits else -1
    if not evidence.sees_newest or (evidence.latest_version is not None and latest < evidence.latest_version):
        finding = say.incomplete(sink, evidence, case.commands)
        return case.answer(Acceptance.CANNOT_TELL, "newer commits may be elsewhere", finding)
    trace = trace_unsigned(case.next, evidence.commits, app_id)
    # What the replay writes again is not lost, unlike where the table drops a batch that it knows.
    lost = find_lost_output(sink, evidence, "", case.commands, owned=trace.owned, done=case.next.batch)
    if _each_overwrites_all(trace):
        # Whatever became of former batches' rows, the next one takes the place of all.
        lost = ()
    if any(finding.severity is Severity.UNSAFE for finding in lost):
        return case.answer(Acceptance.ACCEPTS, "has lost rows of this query's batches", *lost)
    answer = _judge_in_flight(case, trace, bool(app_id)) if case.next.replayed else _judge_at_rest(case, trace)
    return case.answer(answer.acceptance, answer.detail, *answer.findings, *lost)


def _judge_in_flight(case: SinkCase, trace: Trace, may_be_known: bool) -> SinkAcceptance:
    batch, sink, commands = case.next.batch, case.sink, case.commands
    newest = trace.newest
    if was_made_anew(case) and not _made_by_the_newest(trace):
        return _made_anew(case)
    keys = harmless_keys(case, trace)
    if keys:
        return case.answer(
            Acceptance.ACCEPTS, f"merges by {', '.join(keys)}", writers.replay_merged(sink, batch, keys, commands)
        )
    left = _left(case, trace)
    if newest is not None and not left and trace.steady:
        detail = f"was not written since batch {batch} was planned" if not newest.count else f"lost batch {batch} again"
        return case.answer(Acceptance.ACCEPTS, f"{detail}: its replay is the only write of it")
    if newest is not None and newest.count and _each_overwrites(trace):
        return case.answer(Acceptance.ACCEPTS, "is overwritten by each batch: a replay gives the same rows")
    if any(commit.operation == "MERGE" for span in trace.spans for commit in span.commits):
        finding = writers.merge_unclear(sink, batch, [c for span in trace.spans for c in span.commits], commands)
        return case.answer(
            Acceptance.CANNOT_TELL, f"may hold batch {batch}, and by which key it merges is open", finding
        )
    alone = not trace.others and not sink.shared and not may_be_known
    if (
        newest is not None
        and alone
        and not _clears_first(newest)
        and (_made_by_the_newest(trace) if batch == 0 else newest.count)
    ):
        sure = sink.shared is False or (trace.regular and trace.newest_is_alike)
        if sure:
            finding = writers.replay_doubles(sink, batch, newest.commits[-1], commands)
            return case.answer(Acceptance.DUPLICATES, f"holds batch {batch} already and cannot recognise it", finding)
    finding = say.unrecognisable_replay(sink, batch, commands)
    return case.answer(Acceptance.CANNOT_TELL, f"cannot tell whether it holds batch {batch} already", finding)


def _judge_at_rest(case: SinkCase, trace: Trace) -> SinkAcceptance:
    batch, sink, commands, usual = case.next.batch, case.sink, case.commands, trace.usual or 1
    newest = trace.newest
    if was_made_anew(case):
        return _made_anew(case)
    if newest is None or (newest.count == 0 and not newest.idle):
        finding = writers.unsigned_gap(sink, batch, trace, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"shows no commit of batch {batch - 1}", finding)
    # What a RESTORE took out again is written once more, and once only.
    count = _left(case, trace)
    if _each_overwrites_all(trace):
        return case.answer(Acceptance.ACCEPTS, "is overwritten by each batch")
    if count == 0 and newest.count:
        finding = writers.unsigned_gap(sink, batch, trace, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"holds nothing of batch {batch - 1} any more", finding)
    again = False if harmless_keys(case, trace) else _comes_again(case, trace, newest)
    if again is False:
        return case.answer(Acceptance.ACCEPTS, f"was written by batch {batch - 1} last; batch {batch} is new")
    commits = [commit for span in trace.spans for commit in span.commits]
    if any(commit.operation == "MERGE" for commit in commits):
        finding = writers.merge_unclear(sink, batch, commits, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"was merged into after batch {batch - 1} as well", finding)
    if takes_its_place(commits):
        finding = writers.unsigned_more(sink, batch, count, usual, commands, replaces=True)
        return case.answer(Acceptance.CANNOT_TELL, f"was written after batch {batch - 1}, in place of others", finding)
    if again:
        finding = writers.unsigned_more(sink, batch, count, usual, commands, sure=True)
        return case.answer(Acceptance.DUPLICATES, f"holds batches after {batch - 1}, which come again", finding)
    finding = writers.unsigned_more(sink, batch, count, usual, commands)
    return case.answer(Acceptance.CANNOT_TELL, f"was written after batch {batch - 1} as well", finding)


class Whose(Enum):
    """Of which batch the commits are that came since the newest batch was planned."""

    ITS_OWN = "the newest batch's"
    LATER = "one of them is younger than the newest batch's end"
    OPEN = "nobody knows"


def _whose(case: SinkCase, standing: Sequence[Commit]) -> Whose:
    times, ended = [commit.timestamp for commit in standing], case.next.ended
    if ended is None or None in times:
        return Whose.OPEN if times else Whose.ITS_OWN
    if all(time <= ended[0] for time in times if time):
        return Whose.ITS_OWN
    return Whose.LATER if any(time > ended[1] for time in times if time) else Whose.OPEN


def _comes_again(case: SinkCase, trace: Trace, newest: BatchTime) -> bool | None:
    """Whether the table holds a later batch, which would come again; None: nobody knows. A function may write nothing
    for a batch, and then the only commit since may be a later one's: what a batch usually makes tells only where each
    batch before made as many. Where others write there too, a younger commit may be theirs, or a later batch's."""
    gone, usual = taken_out(case.evidence.commits), trace.usual or 1
    standing = [commit for commit in newest.commits if commit.version not in gone]
    whose, count = _whose(case, standing), len(standing)
    regular = trace.regular and not newest.idle
    # Later batches that have run, and write like the others, have left something, unless a RESTORE took that out again.
    restored = count < newest.count
    as_usual = count <= usual and (restored or (regular and not case.next.rewound))
    if whose is Whose.ITS_OWN or (whose is Whose.OPEN and as_usual):
        return False
    alone = case.sink.shared is False
    if (alone and whose is Whose.LATER) or ((alone or case.next.rewound) and regular and count > usual):
        return True
    return None


def harmless_keys(case: SinkCase, trace: Trace) -> tuple[str, ...]:
    """The keys by which rows that come again change nothing: declared, or inserted by key and never updated."""
    if case.keyed:
        return case.sink.keys
    commits = [commit for span in trace.spans for commit in span.commits]
    if case.sink.kind == "delta-merge":
        # The kind says a MERGE by key; which key, its own condition says.
        return merge_keys([commit for commit in commits if commit.version > 0])
    return only_inserts(commits)


def _left(case: SinkCase, trace: Trace) -> int:
    """How many commits of the newest batch still stand. What a RESTORE took out again is written once more."""
    written = {commit.version for commit in trace.newest.commits} if trace.newest else set()
    return len(written - taken_out(case.evidence.commits))


def _each_overwrites(trace: Trace) -> bool:
    """A part of the table is the same again only from the very same rows."""
    commits = [commit for span in trace.spans for commit in span.commits if commit.version > 0]
    return bool(commits) and all(map(overwrites, commits))


def _each_overwrites_all(trace: Trace) -> bool:
    """Each batch writes the whole table anew, so that no other than the last counts, whoever else has written."""
    spans = [[commit for commit in span.commits if commit.version > 0] for span in trace.spans]
    filled = [commits for commits in spans if commits]
    return bool(filled) and all(
        any(overwrites(one) and not replaces_a_part(one) for one in commits) for commits in filled
    )


def _clears_first(newest: BatchTime) -> bool:
    """The function begins by deleting rows: those that it then writes may be the ones that a replay deletes again."""
    return bool(newest.commits) and min(newest.commits, key=lambda one: one.version).operation == "DELETE"


def _made_by_the_newest(trace: Trace) -> bool:
    """The table's first commit is of the newest batch's time: nobody else has written before it."""
    return trace.newest is not None and any(commit.version == 0 for commit in trace.newest.commits)


def _made_anew(case: SinkCase) -> SinkAcceptance:
    batch = case.next.batch
    finding = say.never_saw(case.sink, case.next.query_id, batch, case.commands, made_anew=True)
    finding = open_if_aggregated(case, finding)
    missing = batches_text(0, batch - 1)
    return case.answer(Acceptance.ACCEPTS, f"was made anew since batch {batch - 1}: {missing} is not in it", finding)


_KEEPS_NOTHING = {
    "console": "prints its rows and keeps none: nothing is lost or doubled",
    "noop": "throws its rows away: nothing is lost or doubled",
}
_UPSERTED = ("jdbc", "foreach", "kafka", "hudi", "other")


def judge_unrecorded(case: SinkCase) -> SinkAcceptance:
    batch, sink, commands = case.next.batch, case.sink, case.commands
    if sink.kind in _KEEPS_NOTHING:
        return case.answer(Acceptance.ACCEPTS, _KEEPS_NOTHING[sink.kind])
    if sink.kind == "memory":
        return _judge_memory(case)
    if sink.keys and sink.kind in _UPSERTED:
        return _judge_keyed(case)
    if case.next.replayed and sink.ledger:
        detail = f"keeps a row for each batch in {sink.ledger}, as declared: a replay of batch {batch} is recognised"
        finding = writers.ledger_declared(sink, batch, commands)
        return case.answer(Acceptance.ACCEPTS, detail, finding)
    if case.next.replayed:
        finding = say.unrecognisable_replay(sink, batch, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"cannot tell whether it holds batch {batch} already", finding)
    if batch == 0:
        return _judge_first(case)
    finding = say.sink_not_asked(sink, batch, commands)
    return case.answer(
        Acceptance.CANNOT_TELL, f"keeps no record that tells whether {batches_text(0, batch - 1)} is in it", finding
    )


def _judge_memory(case: SinkCase) -> SinkAcceptance:
    kept = "is a table in the driver's memory, which went with the last driver"
    if case.declaration.output_mode == "complete" or (case.next.batch == 0 and not case.next.replayed):
        return case.answer(Acceptance.ACCEPTS, f"{kept} and is filled anew")
    finding = writers.memory_cannot_resume(case.sink, case.next.batch, case.commands)
    return case.answer(Acceptance.CANNOT_TELL, f"{kept}: Spark resumes it in output mode complete only", finding)


def _judge_keyed(case: SinkCase) -> SinkAcceptance:
    batch, sink = case.next.batch, case.sink
    if case.next.replayed or batch == 0:
        finding = writers.replay_merged(sink, batch, sink.keys, case.commands)
        return case.answer(
            Acceptance.ACCEPTS, "is written by key, as declared: rows that come again replace themselves", finding
        )
    return case.answer(Acceptance.ACCEPTS, f"is written by {', '.join(sink.keys)}, as declared: next is {batch}")


def _judge_first(case: SinkCase) -> SinkAcceptance:
    sink, commands = case.sink, case.commands
    if sink.new:
        return case.answer(Acceptance.ACCEPTS, "was never written by this query, as declared")
    if case.evidence.asked and (not case.evidence.exists or case.evidence.has_rows is False):
        return case.answer(Acceptance.ACCEPTS, "holds no row yet")
    finding = say.fresh_cannot_tell(sink, {}, [], case.evidence, commands)
    return case.answer(Acceptance.CANNOT_TELL, "keeps no record of batches; rows in it may come again", finding)
