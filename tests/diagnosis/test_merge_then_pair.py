"""A MERGE that could not carry its pair, and the pair behind it: what the doctor and a plan make of both forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surestart.declaration import SinkDeclaration
from surestart.facts.delta import Commit, CommitMark
from surestart.facts.delta.commit import read_mark
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.remedies.basis.other_writers import own_merges
from surestart.sinks.delta.transaction import commit_note
from surestart.verdict.acceptance import NextBatch, SinkAcceptance, diagnose_acceptance
from surestart.words.finding import Acceptance, Severity
from tests.diagnosis.stage_values import DAY, MERGE, NOW, QUERY, QUERY_ID, stage, table


def merge(version: int) -> Commit:
    return Commit(version, NOW - DAY + version, "MERGE", metrics={"numSourceRows": "10"})


def pair(version: int, batch: int, merged: int | None) -> Commit:
    mark = CommitMark(QUERY, QUERY_ID, batch, "ingest", merged=merged, merged_rows=10)
    return Commit(version, NOW - DAY + version, "WRITE", mark=mark, transactions=((QUERY_ID, batch),))


def restore(version: int, to: int) -> Commit:
    return Commit(version, NOW, "RESTORE", {"version": str(to)})


def made(*batches: int) -> tuple[Commit, ...]:
    """Each batch in its two commits, from version 1 on."""
    return tuple(
        commit for n, batch in enumerate(batches) for commit in (merge(2 * n + 1), pair(2 * n + 2, batch, 2 * n + 1))
    )


def ask(evidence: SinkEvidence, batch: int, replayed: bool, sink: SinkDeclaration = MERGE) -> SinkAcceptance:
    asked = {sink.target: evidence}
    (answer,) = diagnose_acceptance(stage(sink), NextBatch(batch, QUERY_ID, replayed), asked, NOW, "prod")
    return answer


def test_the_note_says_where_the_merge_is() -> None:
    note = commit_note(QUERY, QUERY_ID, 4, "ingest", merged={"merged": 7, "merged_rows": 10})
    mark = read_mark(note)
    assert mark == CommitMark(QUERY, QUERY_ID, 4, "ingest", merged=7, merged_rows=10)
    assert [replace(pair(8, 4, 7), mark=mark).rows_at, merge(7).rows_at] == [7, 7]


@pytest.mark.parametrize("newest_merges", [1, 2], ids=["killed once", "killed twice"])
def test_a_merge_alone_of_the_batch_in_flight_is_accepted_and_nobody_elses(newest_merges: int) -> None:
    torn = tuple(merge(5 + n) for n in range(newest_merges))
    answer = ask(table(commits=(*made(3, 4), *torn)), 5, replayed=True)
    assert (answer.acceptance, answer.findings) == (Acceptance.ACCEPTS, ())


def test_a_merge_alone_before_any_pair_is_accepted_by_its_keys_only() -> None:
    evidence = table(commits=(merge(1),))
    assert ask(evidence, 0, replayed=True).acceptance is Acceptance.ACCEPTS
    unsaid = replace(MERGE, kind="delta", keys=(), identity="unknown")
    assert ask(evidence, 0, replayed=True, sink=unsaid).acceptance is Acceptance.CANNOT_TELL


def test_a_merge_alone_in_a_shared_table_is_not_said_to_be_of_others() -> None:
    answer = ask(table(commits=(merge(1),)), 0, replayed=False, sink=replace(MERGE, shared=True))
    assert answer.detail != "holds rows of other queries only"
    assert [finding.severity for finding in answer.findings] == [Severity.ATTENTION]


@pytest.mark.parametrize(
    ("commits", "lost"),
    [
        pytest.param((*made(3, 4), restore(5, 4)), False, id="to the newest pair"),
        pytest.param((*made(3, 4), restore(5, 3)), False, id="to the merge of the newest pair"),
        pytest.param((*made(3, 4), restore(5, 2)), True, id="to before that merge"),
        pytest.param((*made(3), merge(3), restore(4, 2), pair(5, 4, 3)), True, id="between merge and pair"),
    ],
)
def test_a_restore_takes_out_the_rows_of_the_merge_and_not_of_its_pair(commits: tuple[Commit, ...], lost: bool) -> None:
    answer = ask(table(commits=commits), 5, replayed=False)
    assert [(one.code, one.severity) for one in answer.findings] == [("SINK_RESTORED", Severity.UNSAFE)] * lost


def test_a_plan_counts_these_merges_as_the_stages_own_and_others_as_anothers() -> None:
    stranger = merge(1)
    commits = (stranger, Commit(2, NOW, "OPTIMIZE"), merge(3), merge(4), pair(5, 0, 4), merge(6))
    assert own_merges(commits, QUERY) == {3, 4, 6}
    assert own_merges(commits, "another") == frozenset()
    assert own_merges((stranger,), QUERY) == frozenset()
