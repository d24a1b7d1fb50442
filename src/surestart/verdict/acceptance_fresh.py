"""A start at batch 0 over a table that may hold rows: a new query, or one whose checkpoint is gone?

no row                                     accepted
our mark names this query                  DUPLICATES: its checkpoint was deleted
rows of others only, as marks show or as was declared (`new`)      accepted
nobody else writes there (`shared` is False)                       DUPLICATES; a MERGE by key changes nothing
otherwise                                  cannot tell: both look alike
"""

from __future__ import annotations

from collections.abc import Sequence

from surestart.facts.delta import Commit
from surestart.facts.delta.commit import only_inserts
from surestart.facts.evidence.sink_evidence import LEDGER, is_query_id
from surestart.verdict import acceptance_findings as say
from surestart.verdict import writer_findings as writers
from surestart.verdict.acceptance_case import SinkAcceptance, SinkCase
from surestart.verdict.batch_times import is_unsigned, is_writing
from surestart.words.finding import Acceptance

_SILENT = ("CREATE TABLE", "SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END")


def judge_fresh(case: SinkCase) -> SinkAcceptance:
    sink, evidence, commands = case.sink, case.evidence, case.commands
    if evidence.has_rows is False:
        return case.answer(Acceptance.ACCEPTS, "is empty: everything is read again into it")
    if _is_as_a_remedy_left_it(case):
        return case.answer(Acceptance.ACCEPTS, "is as the newest remedy left it: the stage begins after its rows")
    others = evidence.identities(case.declaration.query, sink.step)
    others.pop(case.next.query_id or "", None)
    named = {
        commit.mark.query_id
        for commit in evidence.commits
        if commit.mark and commit.mark.query == case.declaration.query
    }
    former = {identity: last for identity, last in others.items() if identity in named}
    if not former:
        if _all_rows_are_of_other_queries(case):
            return case.answer(Acceptance.ACCEPTS, "holds rows of other queries only")
        if sink.new:
            return case.answer(Acceptance.ACCEPTS, "holds rows of others only, as declared")
    writing = [commit for commit in evidence.commits if is_writing(commit)]
    if not case.explicit_start and writing and all(replaces_all(commit) for commit in writing):
        return case.answer(Acceptance.ACCEPTS, "is replaced as a whole by each batch", writers.replaced(sink, commands))
    by_insert = only_inserts(writing)
    if case.keyed or (by_insert and sink.shared is False):
        finding = say.output_not_cleared_keyed(sink, others, by_insert, commands)
        return case.answer(Acceptance.ACCEPTS, "merges by key: rows that come again change nothing", finding)
    if case.explicit_start or (not former and sink.shared is not False):
        finding = say.fresh_cannot_tell(sink, others, case.explicit_start, evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, "holds rows, and whether they come again cannot be told", finding)
    return _judge_own_output(case, former or others)


def _judge_own_output(case: SinkCase, former: dict[str, int]) -> SinkAcceptance:
    """The answer where this query itself wrote what the sink holds."""
    sink, evidence, commands = case.sink, case.evidence, case.commands
    constant = {app_id: one.version for app_id, one in evidence.transactions.items() if not is_query_id(app_id)}
    unsigned = [commit for commit in evidence.commits if is_unsigned(commit)]
    if sink.identity == "unknown" and constant and not former and not unsigned:
        name = max(constant, key=lambda app_id: constant[app_id])
        finding = say.constant_skips(sink, name, constant[name], 0, commands)
        return case.answer(
            Acceptance.SKIPS, f"holds batch {constant[name]} under the constant {name!r}: drops it again", finding
        )
    if not former and any(commit.operation == "MERGE" for commit in unsigned):
        finding = writers.merge_unclear(sink, 0, unsigned, commands)
        return case.answer(Acceptance.CANNOT_TELL, "is merged into, and by which key nobody has said", finding)
    if not former and takes_its_place(unsigned):
        finding = say.fresh_cannot_tell(sink, {}, [], evidence, commands)
        return case.answer(Acceptance.CANNOT_TELL, "holds rows, and each batch replaces some", finding)
    if not former:
        finding = say.output_not_cleared(sink, "", -1, commands)
        return case.answer(Acceptance.DUPLICATES, "holds rows that are read and written again", finding)
    newest = evidence.newest_identity(former, sink.step)
    finding = say.output_not_cleared(sink, newest, former[newest], commands)
    return case.answer(
        Acceptance.DUPLICATES,
        f"holds {former[newest] + 1} batches of {newest}: a new identity writes them again",
        finding,
    )


def replaces_all(commit: Commit) -> bool:
    """Delta's sink in output mode "complete" writes the whole result anew with each batch."""
    return commit.operation == "STREAMING UPDATE" and commit.parameters.get("outputMode") == "Complete"


def takes_its_place(commits: Sequence[Commit]) -> bool:
    """Whether each batch of a function overwrites a part of the table, or deletes before it writes: what comes again
    may take the place of what is there. The first may have found nothing to replace."""
    deletes = sum(commit.operation == "DELETE" for commit in commits)
    later = [commit for commit in commits if commit.version > 0]
    # Whoever appends before it deletes has what it deleted last as the newest commit, and doubles what it appended.
    first = deletes > 0 and 2 * deletes >= len(commits) - 1 and commits[-1].operation != "DELETE"
    return bool(later) and (first or all(map(overwrites, later)))


def overwrites(commit: Commit) -> bool:
    return commit.operation == "WRITE" and commit.parameters.get("mode") == "Overwrite"


def _is_as_a_remedy_left_it(case: SinkCase) -> bool:
    """Whether no stream of this query has written since the remedy. If one has, it had another checkpoint than this
    one."""
    if case.settled is None or not _reaches_back_to(case, case.settled):
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


def _reaches_back_to(case: SinkCase, settled: int) -> bool:
    """Whether every commit since then is known. A ledger is read as a whole."""
    commits = case.evidence.commits
    return case.evidence.source == LEDGER or (bool(commits) and commits[0].version <= settled + 1)


def _all_rows_are_of_other_queries(case: SinkCase) -> bool:
    """Whether the table's whole history shows that. A commit without a mark is another query's where this one marks all
    of its own and the table is said to be shared. Else the query may have written it before surestart ran it."""
    commits = case.evidence.commits
    if not case.evidence.complete or not commits or commits[0].version != 0:
        return False
    marks_its_own = case.sink.kind in ("delta-append", "delta-merge", "postgres") and case.sink.identity == "query-id"
    # The function of a stream that others run names no query, whatever it leaves.
    others_too = bool(case.sink.shared) and marks_its_own and not case.declaration.foreign

    def is_of_another(commit: Commit) -> bool:
        if commit.mark and commit.mark.query:
            return commit.mark.query != case.declaration.query
        # The mark of a MERGE may follow it, and a crash may have come between.
        mergeable = case.sink.kind == "delta-merge" and commit.operation == "MERGE"
        return commit.operation in _SILENT or (others_too and not mergeable)

    return all(map(is_of_another, commits))
