"""Accepts, skips, duplicates, cannot tell: the rule on values. Spark agrees: test_acceptance_against_spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import Commit, Transaction, history_evidence
from surestart.facts.evidence.sink_evidence import (
    SinkEvidence,
    evidence_from_history,
    evidence_from_ledger,
    sink_missing,
    sink_unreadable,
    sink_without_record,
)
from surestart.verdict.acceptance import NextBatch, SinkAcceptance, diagnose_acceptance, next_batch_of
from surestart.words.finding import Acceptance, Severity
from tests.diagnosis.stage_values import (
    APPEND,
    DAY,
    FORMER_ID,
    MERGE,
    NOW,
    QUERY_ID,
    batch_commit,
    stage,
    table,
    write_checkpoint,
)

ACCEPTS, SKIPS = Acceptance.ACCEPTS, Acceptance.SKIPS
DUPLICATES, CANNOT_TELL = Acceptance.DUPLICATES, Acceptance.CANNOT_TELL


def ask(
    evidence: SinkEvidence,
    batch: int,
    *,
    replayed: bool = False,
    query_id: str | None = QUERY_ID,
    sink: SinkDeclaration = APPEND,
    source: SourceDeclaration | None = None,
    now: int = NOW,
) -> SinkAcceptance:
    declaration = stage(sink) if source is None else stage(sink, source)
    (answer,) = diagnose_acceptance(
        declaration, NextBatch(batch, query_id, replayed), {sink.target: evidence}, now, "prod"
    )
    return answer


def codes(answer: SinkAcceptance) -> tuple[str, ...]:
    return tuple(finding.code for finding in answer.findings)


def test_a_batch_after_the_last_one_is_accepted() -> None:
    answer = ask(table({QUERY_ID: 4}), 5)

    assert (answer.acceptance, answer.table_batch, codes(answer)) == (ACCEPTS, 4, ())


def test_a_batch_in_flight_that_the_table_holds_is_a_recognised_replay() -> None:
    answer = ask(table({QUERY_ID: 4}), 4, replayed=True)

    assert (answer.acceptance, answer.replay_recognised, codes(answer)) == (ACCEPTS, True, ())
    assert "its replay is recognised and writes nothing, batch 5 is accepted" in answer.detail


def test_a_table_ahead_of_the_checkpoint_skips_and_names_the_batches() -> None:
    answer = ask(table({QUERY_ID: 9}), 5)

    assert (answer.acceptance, codes(answer)) == (SKIPS, ("SINK_AHEAD_OF_CHECKPOINT",))
    assert answer.findings[0].severity is Severity.UNSAFE
    assert "drops 5 batches (5..9)" in answer.findings[0].meaning
    assert str(answer.findings[0].next) == "surestart plan replay ingest -e prod --from-output -o plan.json"


@given(table_batch=st.integers(0, 50), batch=st.integers(0, 50), replayed=st.booleans())
def test_a_kept_identity_is_never_called_safe_when_a_new_batch_would_be_dropped_or_one_is_missing(
    table_batch: int, batch: int, replayed: bool
) -> None:
    answer = ask(table({QUERY_ID: table_batch}), batch, replayed=replayed)

    holds_all_before, drops_new = table_batch >= batch - 1, table_batch > batch - (not replayed)
    assert (answer.findings == ()) == (holds_all_before and not drops_new)
    assert (answer.acceptance is SKIPS) == drops_new


def test_a_table_behind_the_checkpoint_has_a_gap() -> None:
    answer = ask(table({QUERY_ID: 2}), 5)

    assert codes(answer) == ("SINK_BEHIND_CHECKPOINT",)
    assert "2 batches (3..4)" in answer.findings[0].meaning


NOT_SAID = SinkDeclaration("delta", "/lake/alerts", "/lake/alerts", identity="unknown")


@pytest.mark.parametrize(
    ("sink", "operation", "severity"),
    [
        (NOT_SAID, "WRITE", Severity.CANNOT_TELL),
        (NOT_SAID, "MERGE", Severity.CANNOT_TELL),
        (replace(NOT_SAID, kind="foreach-batch"), "STREAMING UPDATE", Severity.CANNOT_TELL),
        (NOT_SAID, "STREAMING UPDATE", Severity.UNSAFE),
        (replace(NOT_SAID, kind="delta-builtin"), "WRITE", Severity.UNSAFE),
    ],
)
def test_a_function_that_writes_only_what_it_finds_has_lost_nothing(
    sink: SinkDeclaration, operation: str, severity: Severity
) -> None:
    """A healthy stream of alerts: most batches have none."""
    commit = Commit(3, DAY, operation, {}, transactions=((QUERY_ID, 2),))
    (finding,) = ask(table({QUERY_ID: 2}, (commit,)), 5, sink=sink).findings
    assert (finding.code, finding.severity) == ("SINK_BEHIND_CHECKPOINT", severity)


def test_a_function_that_has_found_nothing_yet_has_lost_nothing() -> None:
    answer = ask(table(), 5, sink=NOT_SAID)
    assert [(one.code, one.severity) for one in answer.findings] == [("SINK_NEVER_SAW_QUERY", Severity.CANNOT_TELL)]
    assert "no row for it" in answer.findings[0].meaning


def test_a_control_batch_between_the_two_is_no_gap() -> None:
    """Databricks plans batches that repartition the state: they bring no row, and no sink may know them."""

    def judge(control: frozenset[int]) -> SinkAcceptance:
        after = NextBatch(6, QUERY_ID, control=control)
        (answer,) = diagnose_acceptance(stage(APPEND), after, {APPEND.target: table({QUERY_ID: 4})}, NOW, "prod")
        return answer

    assert codes(judge(frozenset())) == ("SINK_BEHIND_CHECKPOINT",)
    assert codes(judge(frozenset({5}))) == ()


def test_a_new_identity_over_output_that_was_kept_duplicates() -> None:
    marked = table(commits=(batch_commit(1, 7, FORMER_ID),), has_rows=True)
    answer = ask(marked, 0, query_id=None)

    assert (answer.acceptance, codes(answer)) == (DUPLICATES, ("SINK_OUTPUT_NOT_CLEARED",))
    assert "8 batches" in answer.findings[0].evidence


def test_rows_of_a_query_id_that_nothing_names_are_anothers_or_its_own_until_somebody_says() -> None:
    unnamed = table({FORMER_ID: 7}, has_rows=True)

    def asked(**said: object) -> Acceptance:
        return ask(unnamed, 0, query_id=None, sink=replace(APPEND, **said)).acceptance  # type: ignore[arg-type]

    assert asked() is CANNOT_TELL
    # Others write there too: whether this query has, is not said by that.
    assert asked(shared=True) is CANNOT_TELL
    assert asked(shared=False) is DUPLICATES
    assert asked(new=True) is ACCEPTS


def test_a_new_identity_over_an_emptied_table_is_accepted() -> None:
    answer = ask(table({FORMER_ID: 7}, has_rows=False), 0, query_id=None)

    assert (answer.acceptance, codes(answer)) == (ACCEPTS, ())


def test_a_keyed_merge_takes_everything_again_without_doubling_and_says_so() -> None:
    answer = ask(table({FORMER_ID: 7}, has_rows=True), 0, query_id=None, sink=MERGE)

    assert (answer.acceptance, codes(answer)) == (ACCEPTS, ("SINK_MERGES_AGAIN",))
    assert answer.findings[0].severity is Severity.ATTENTION


@pytest.mark.parametrize("position", ["earliest", "0"])
def test_a_start_from_the_beginning_is_no_explicit_start(position: str) -> None:
    source = SourceDeclaration("kafka", "orders", options=(("startingOffsets", position),))

    marked = table(commits=(batch_commit(1, 7, FORMER_ID),), has_rows=True)
    assert ask(marked, 0, query_id=None, source=source).acceptance is DUPLICATES


def test_an_explicit_start_position_over_old_output_cannot_be_judged() -> None:
    source = SourceDeclaration("delta", "/s", "/s", options=(("startingVersion", "12"),))
    answer = ask(table({FORMER_ID: 7}, has_rows=True), 0, query_id=None, source=source)

    assert (answer.acceptance, codes(answer)) == (CANNOT_TELL, ("SINK_FRESH_START_UNCLEAR",))


def test_rows_of_unknown_origin_are_not_taken_for_an_empty_table() -> None:
    assert ask(table(has_rows=True), 0, query_id=None).acceptance is CANNOT_TELL
    assert ask(table(has_rows=None), 0, query_id=None).acceptance is CANNOT_TELL


def test_rows_that_only_other_queries_wrote_do_not_stand_in_the_way_of_a_first_start() -> None:
    created = Commit(0, NOW, "CREATE TABLE")
    evidence = table(commits=(created, batch_commit(1, 0, FORMER_ID, query="other-stage")), has_rows=True)

    assert ask(evidence, 0, query_id=None).acceptance is ACCEPTS


def test_metadata_lost_with_nothing_in_flight_goes_on_without_harm_and_is_said() -> None:
    answer = ask(table(commits=(batch_commit(1, 4, FORMER_ID),)), 5, query_id=None)

    assert (answer.acceptance, codes(answer)) == (ACCEPTS, ("SINK_IDENTITY_RENEWED",))
    assert answer.findings[0].severity is Severity.ATTENTION


def test_metadata_lost_with_a_batch_in_flight_doubles_it() -> None:
    answer = ask(table(commits=(batch_commit(1, 4, FORMER_ID),)), 4, replayed=True, query_id=None)

    assert (answer.acceptance, codes(answer)) == (DUPLICATES, ("SINK_IDENTITY_RENEWED",))
    assert answer.findings[0].severity is Severity.UNSAFE


def test_metadata_lost_and_nobody_named_in_the_table_cannot_be_judged() -> None:
    answer = ask(table(), 4, replayed=True, query_id=None)

    assert (answer.acceptance, codes(answer)) == (CANNOT_TELL, ("SINK_IDENTITY_LOST",))


def test_of_several_former_identities_the_one_that_wrote_last_counts() -> None:
    older, newer = FORMER_ID, "11111111-2222-4333-8444-555555555555"
    evidence = table(commits=(batch_commit(1, 100, older), batch_commit(2, 7, newer)))

    answer = ask(evidence, 8, query_id=None)

    assert answer.acceptance is ACCEPTS
    assert newer in answer.findings[0].evidence


def test_a_checkpoint_that_another_one_has_taken_over_from_duplicates() -> None:
    evidence = table(commits=(batch_commit(1, 4), batch_commit(2, 0, FORMER_ID)))

    answer = ask(evidence, 5)

    assert (answer.acceptance, codes(answer)) == (DUPLICATES, ("SINK_IDENTITY_SUPERSEDED",))


def test_a_backfills_own_identity_does_not_supersede_the_stream() -> None:
    evidence = table(commits=(batch_commit(1, 4), batch_commit(2, 0, "backfill-3f2a")))

    assert codes(ask(evidence, 5)) == ()


def test_two_steps_of_one_batch_are_judged_apart() -> None:
    late = replace(APPEND, step="late")
    evidence = table({QUERY_ID: 5, f"{QUERY_ID}:late": 4})

    assert ask(evidence, 5, replayed=True).replay_recognised
    assert not ask(evidence, 5, replayed=True, sink=late).replay_recognised


@pytest.mark.parametrize("last", [4, 40])
def test_a_sink_that_the_last_run_left_out_is_refused_however_its_batch_numbers_fit(last: int) -> None:
    """Reset without it, run, switched on again: what it holds is of the former id, and of no batch of this one."""
    evidence = table({FORMER_ID: last}, (batch_commit(7, last, FORMER_ID),))

    def asked(added: tuple[SinkDeclaration, ...]) -> SinkAcceptance:
        next_batch = NextBatch(5, QUERY_ID, replayed=False)
        (answer,) = diagnose_acceptance(stage(MERGE), next_batch, {MERGE.target: evidence}, NOW, added=added)
        return answer

    assert codes(asked(())) == ("SINK_IDENTITY_RENEWED",)
    (finding,) = asked((MERGE,)).findings
    assert (finding.code, finding.severity) == ("SINK_NEVER_SAW_QUERY", Severity.UNSAFE)
    assert "plan replay" in str(finding.next)


def test_a_table_that_never_saw_the_query_is_refused() -> None:
    answer = ask(table(), 5)

    assert codes(answer) == ("SINK_NEVER_SAW_QUERY",)
    assert answer.findings[0].severity is Severity.UNSAFE


def test_a_missing_table_is_refused_once_batches_were_written_and_fine_before() -> None:
    assert codes(ask(sink_missing(), 5)) == ("SINK_MISSING",)
    assert ask(sink_missing(), 0, query_id=None).acceptance is ACCEPTS


def test_a_sink_that_cannot_be_read_is_never_safe() -> None:
    answer = ask(sink_unreadable("permission denied"), 5)

    assert (answer.acceptance, codes(answer)) == (CANNOT_TELL, ("SINK_UNREADABLE",))
    assert answer.findings[0].severity is Severity.CANNOT_TELL


def test_a_sink_that_nobody_asked_is_never_safe() -> None:
    (answer,) = diagnose_acceptance(stage(), NextBatch(5, QUERY_ID), {}, NOW)

    assert answer.acceptance is CANNOT_TELL


RETENTION = {"retention": 2 * DAY, "retention_text": "interval 2 days"}


def test_a_retention_says_when_the_table_forgets() -> None:
    answer = ask(table({QUERY_ID: 4}, **RETENTION), 4, replayed=True)

    assert (answer.acceptance, codes(answer)) == (ACCEPTS, ("SINK_TRANSACTION_RETENTION",))
    assert "2027-01-16 08:00 UTC, in 1 d 0 h" in answer.findings[0].evidence


def test_a_replay_that_the_table_has_forgotten_is_doubled() -> None:
    answer = ask(table({QUERY_ID: 4}, **RETENTION), 4, replayed=True, now=NOW + 3 * DAY)

    assert (answer.acceptance, codes(answer)) == (DUPLICATES, ("SINK_FORGOT_QUERY",))


def test_a_rewound_checkpoint_over_a_table_that_has_forgotten_duplicates_instead_of_skipping() -> None:
    answer = ask(table({QUERY_ID: 9}, **RETENTION), 5, now=NOW + 3 * DAY)

    assert (answer.acceptance, codes(answer)) == (DUPLICATES, ("SINK_FORGOT_QUERY",))


def test_a_forgotten_identity_does_no_harm_when_nothing_is_in_flight() -> None:
    assert ask(table({QUERY_ID: 4}, **RETENTION), 5, now=NOW + 3 * DAY).acceptance is ACCEPTS


def test_an_absent_identity_under_a_retention_cannot_be_told_from_a_forgotten_one() -> None:
    assert ask(table(**RETENTION), 5).acceptance is CANNOT_TELL


def test_an_entry_without_a_time_is_forgotten_as_soon_as_any_retention_is_set() -> None:
    evidence = replace(table(**RETENTION), transactions={QUERY_ID: Transaction(4, None)})

    assert ask(evidence, 4, replayed=True).acceptance is DUPLICATES


def test_a_retention_that_is_no_duration_is_not_taken_for_forever() -> None:
    answer = ask(table({QUERY_ID: 4}, retention_text="soon"), 5)

    assert answer.findings[0].severity is Severity.CANNOT_TELL


def restore(version: int, to: int) -> Commit:
    return Commit(version, NOW, "RESTORE", {"version": str(to)})


def test_a_restore_after_the_last_batch_is_a_gap_that_no_replay_fills() -> None:
    evidence = table(commits=(batch_commit(1, 2), batch_commit(2, 3), batch_commit(3, 4), restore(4, 1)))

    answer = ask(evidence, 5)

    assert codes(answer) == ("SINK_RESTORED",)
    assert answer.findings[0].severity is Severity.UNSAFE
    assert "2 batches of this query, 3..4" in answer.findings[0].evidence


def test_a_restore_that_later_batches_were_written_on_is_still_said_but_refuses_no_start() -> None:
    evidence = table(commits=(batch_commit(1, 3), batch_commit(2, 4), restore(3, 1), batch_commit(4, 5)))

    answer = ask(evidence, 6)

    assert codes(answer) == ("SINK_RESTORED",)
    assert answer.findings[0].severity is Severity.ATTENTION


def test_a_restore_to_a_version_that_holds_every_batch_is_no_finding() -> None:
    evidence = table(commits=(batch_commit(1, 4), Commit(2, NOW, "OPTIMIZE"), restore(3, 1)))

    assert codes(ask(evidence, 5)) == ()


@pytest.mark.parametrize(
    "clearing",
    [
        Commit(2, NOW, "TRUNCATE"),
        Commit(2, NOW, "DELETE", {"predicate": "[]"}),
        Commit(2, NOW, "DELETE", {"predicate": '["true"]'}),
        Commit(2, NOW, "WRITE", {"mode": "Overwrite"}),
        Commit(2, NOW, "CREATE OR REPLACE TABLE"),
    ],
    ids=lambda commit: f"{commit.operation} {commit.parameters}",
)
def test_output_that_was_cleared_behind_the_checkpoints_back_is_a_gap(clearing: Commit) -> None:
    assert codes(ask(table(commits=(batch_commit(1, 4), clearing)), 5)) == ("SINK_CLEARED",)


def test_a_delete_by_predicate_is_housekeeping() -> None:
    purge = Commit(2, NOW, "DELETE", {"predicate": "[\"(reading_date < DATE '2024-01-01')\"]"})

    assert codes(ask(table(commits=(batch_commit(1, 4), purge)), 5)) == ()


CONSTANT = SinkDeclaration("foreach-batch", "/t", "/t", identity="constant")


def test_a_constant_identity_skips_after_a_reset_and_is_judged_by_the_highest_batch() -> None:
    assert ask(table({"my-app": 9}), 0, query_id=None, sink=CONSTANT).acceptance is SKIPS
    assert ask(table({"my-app": 4}), 5, sink=CONSTANT).acceptance is ACCEPTS
    assert ask(table({"my-app": 4}), 4, replayed=True, sink=CONSTANT).acceptance is ACCEPTS
    assert codes(ask(table({}), 5, sink=CONSTANT)) == ("SINK_CONSTANT_IDENTITY_UNKNOWN",)


def test_a_constant_that_the_table_does_not_know_is_no_sign_that_its_rows_are_of_others() -> None:
    known = table({"my-app": 9}, has_rows=True)
    wrong = replace(CONSTANT, constant="my-ap")

    for batch, replayed in ((0, False), (0, True)):
        answer = ask(known, batch, query_id=None, replayed=replayed, sink=wrong)
        assert codes(answer) == ("SINK_FRESH_START_UNCLEAR",)
        assert ask(known, batch, replayed=replayed, sink=replace(wrong, new=True)).acceptance is ACCEPTS
        assert ask(table({}, has_rows=False), batch, replayed=replayed, sink=wrong).acceptance is ACCEPTS


def test_a_constant_that_the_table_has_forgotten_recognises_no_replay() -> None:
    forgot = table({"my-app": 4}, retention=1, retention_text="interval 1 hours")
    older = table({"my-app": 4}, sees_newest=False, complete=False)

    assert codes(ask(forgot, 4, replayed=True, sink=CONSTANT)) == ("SINK_FORGOT_QUERY",)
    assert ask(older, 5, sink=CONSTANT).acceptance is CANNOT_TELL
    assert ask(older, 4, sink=CONSTANT).acceptance is SKIPS


@pytest.mark.parametrize("kind", ["kafka", "jdbc", "foreach"])
def test_a_sink_without_a_record_cannot_be_judged(kind: str) -> None:
    sink = SinkDeclaration(kind, "/t", "/t", identity="none")

    assert codes(ask(sink_without_record(), 4, replayed=True, sink=sink)) == ("SINK_REPLAY_UNRECOGNISABLE",)
    assert codes(ask(sink_without_record(), 5, sink=sink)) == ("SINK_NOT_ASKED",)
    assert codes(ask(sink_without_record(), 0, sink=sink)) == ("SINK_FRESH_START_UNCLEAR",)
    assert ask(sink_without_record(), 0, sink=replace(sink, new=True)).acceptance is ACCEPTS


def test_a_catalog_managed_tables_files_tell_only_a_lower_bound() -> None:
    evidence = table({QUERY_ID: 4}, sees_newest=False, complete=False)

    assert ask(evidence, 5).acceptance is CANNOT_TELL
    assert ask(table({QUERY_ID: 9}, sees_newest=False, complete=False), 5).acceptance is SKIPS


LEDGER_SINK = SinkDeclaration("postgres", "public.gold", keys=("sensor_id",))


def test_a_ledger_answers_as_a_table_does() -> None:
    evidence = evidence_from_ledger([(QUERY_ID, 3), (QUERY_ID, 4), (FORMER_ID, 9)])

    assert ask(evidence, 5, sink=LEDGER_SINK).acceptance is ACCEPTS
    assert ask(evidence, 4, replayed=True, sink=LEDGER_SINK).replay_recognised
    assert codes(ask(evidence, 8, sink=LEDGER_SINK)) == ("SINK_BEHIND_CHECKPOINT",)
    assert ask(evidence, 2, sink=LEDGER_SINK).acceptance is SKIPS


def history_row(version: int, **more: object) -> dict[str, object]:
    return {"version": version, "timestamp": datetime(2026, 11, 18), "operation": "WRITE", **more}


def test_table_history_answers_for_a_table_whose_files_nobody_may_open() -> None:
    mark = batch_commit(1, 4).mark
    assert mark is not None
    rows = [
        history_row(0, operation="CREATE TABLE"),
        history_row(1, userMetadata=mark.as_json()),
        history_row(2, operation="OPTIMIZE", userMetadata=None),
    ]

    evidence = evidence_from_history(history_evidence(reversed(rows)))

    assert ask(evidence, 5).acceptance is ACCEPTS
    assert ask(evidence, 4, replayed=True).replay_recognised
    assert ask(evidence, 3).acceptance is SKIPS


def test_a_history_that_does_not_reach_back_cannot_say_that_a_query_never_wrote() -> None:
    evidence = evidence_from_history(history_evidence([history_row(800, operation="OPTIMIZE")]))

    answer = ask(evidence, 5)

    assert (answer.acceptance, codes(answer)) == (CANNOT_TELL, ("SINK_RECORD_INCOMPLETE",))


def test_the_built_in_sinks_own_history_names_its_query() -> None:
    parameters = {"queryId": QUERY_ID, "epochId": "4", "outputMode": "Append"}
    rows = [history_row(5, operation="STREAMING UPDATE", operationParameters=parameters)]

    assert history_evidence(rows).transactions[QUERY_ID].version == 4


@pytest.mark.parametrize(
    ("planned", "committed", "expected"),
    [
        (None, None, NextBatch(0, QUERY_ID)),
        (4, 4, NextBatch(5, QUERY_ID)),
        (4, 3, NextBatch(4, QUERY_ID, replayed=True)),
        (4, 1, NextBatch(4, QUERY_ID, replayed=True)),
        (4, None, NextBatch(4, QUERY_ID, replayed=True)),
        (2, 4, NextBatch(2, QUERY_ID, replayed=True)),
    ],
)
def test_the_next_batch_follows_sparks_restart_rule(
    tmp_path: Path, planned: int | None, committed: int | None, expected: NextBatch
) -> None:
    folder = write_checkpoint(tmp_path / "ck", planned=planned, committed=committed)

    assert next_batch_of(read_checkpoint(str(folder))) == expected


def test_every_finding_says_what_it_means_what_is_next_and_what_not_to_do() -> None:
    answers = [
        ask(table({QUERY_ID: 9}), 5),
        ask(table({QUERY_ID: 2}), 5),
        ask(table({FORMER_ID: 7}, has_rows=True), 0, query_id=None),
        ask(table(), 5),
        ask(sink_missing(), 5),
        ask(sink_unreadable("x"), 5),
    ]
    for answer in answers:
        for finding in answer.findings:
            assert finding.evidence
            assert finding.meaning
            assert str(finding.next).startswith("surestart ")
            assert finding.do_not
