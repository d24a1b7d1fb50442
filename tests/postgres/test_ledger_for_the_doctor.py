"""What the doctor reads from a real ledger, without Spark, and what it then says of the next batch."""

from __future__ import annotations

import pytest

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.facts.postgres.ledger import create_ledger
from surestart.facts.postgres.url import DatabaseUrl
from surestart.sinks.abilities import read_own_evidence
from surestart.sinks.both import Both
from surestart.sinks.postgres.sink import PostgresSink
from surestart.verdict.acceptance import NextBatch, SinkAcceptance, diagnose_acceptance
from surestart.words.finding import Acceptance
from tests.diagnosis.stage_values import FORMER_ID, NOW, QUERY, QUERY_ID, stage
from tests.postgres.conftest import VARIABLE
from tests.postgres.database import EVENTS, Database

SINK = PostgresSink(DatabaseUrl(variable=VARIABLE), "events")
PLACE = Environment("local", "sensor", "/nowhere/checkpoints", root="/nowhere")


def note(database: Database, query_id: str, batch: int, second: int, query: str = QUERY, step: str = "") -> None:
    database.execute(
        "INSERT INTO surestart_ledger VALUES (%s, %s, 'public.events', %s, %s, 'ingest', '/ck', 'a', 'append', 1, 1,"
        " '2026-11-18 10:00:00+00', '2026-11-18 10:00:00+00'::timestamptz + make_interval(secs => %s))",
        (query_id, batch, step, query, second),
    )


@pytest.fixture
def ledger(database: Database) -> Database:
    database.execute(EVENTS)
    with database.connect() as connection:
        create_ledger(connection, "public")
    return database


def ask(batch: int, *, replayed: bool = False, query_id: str | None = QUERY_ID) -> SinkAcceptance:
    sink = SinkDeclaration("postgres", "events")
    evidence = {"events": SINK.read_evidence(PLACE)}
    (answer,) = diagnose_acceptance(stage(sink), NextBatch(batch, query_id, replayed), evidence, NOW)
    return answer


def codes(answer: SinkAcceptance) -> list[str]:
    return [finding.code for finding in answer.findings]


def test_the_ledger_says_accepts_recognised_skips_and_behind(ledger: Database) -> None:
    for batch in range(5):
        note(ledger, QUERY_ID, batch, batch)

    assert (ask(5).acceptance, codes(ask(5))) == (Acceptance.ACCEPTS, [])
    assert ask(4, replayed=True).replay_recognised
    assert ask(2).acceptance is Acceptance.SKIPS
    assert codes(ask(8)) == ["SINK_BEHIND_CHECKPOINT"]


def test_a_new_identity_over_rows_of_the_former_one_duplicates(ledger: Database) -> None:
    note(ledger, FORMER_ID, 7, 0)
    ledger.execute("INSERT INTO events VALUES ('s', 0, 0, 1.0)")

    assert codes(ask(0, query_id=None)) == ["SINK_OUTPUT_NOT_CLEARED"]


def test_a_new_identity_over_an_emptied_target_is_accepted(ledger: Database) -> None:
    note(ledger, FORMER_ID, 7, 0)

    assert ask(0, query_id=None).acceptance is Acceptance.ACCEPTS


def test_the_identity_that_wrote_last_supersedes_the_others(ledger: Database) -> None:
    note(ledger, QUERY_ID, 4, 0)
    note(ledger, FORMER_ID, 0, 1)

    assert codes(ask(5)) == ["SINK_IDENTITY_SUPERSEDED"]


def test_rows_of_another_query_and_another_step_do_not_count(ledger: Database) -> None:
    note(ledger, QUERY_ID, 4, 0)
    note(ledger, QUERY_ID, 9, 1, step="late")
    note(ledger, FORMER_ID, 9, 2, query="another")

    assert (ask(5).acceptance, codes(ask(5))) == (Acceptance.ACCEPTS, [])


def test_a_missing_target_and_a_missing_ledger_are_told_apart(database: Database) -> None:
    assert not SINK.read_evidence(PLACE).exists

    database.execute(EVENTS)

    evidence = SINK.read_evidence(PLACE)
    assert (evidence.exists, evidence.has_rows, dict(evidence.transactions)) == (True, False, {})


def test_a_database_that_does_not_answer_is_never_safe_and_shows_no_password(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "postgresql://me:canary-77@127.0.0.1:1/none")

    answer = ask(5)

    assert answer.acceptance is Acceptance.CANNOT_TELL
    assert "canary-77" not in repr(answer)


def test_reading_changes_nothing_in_the_database(ledger: Database) -> None:
    note(ledger, QUERY_ID, 4, 0)
    before = ledger.rows("SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_all_tables")
    rows = ledger.rows("SELECT * FROM surestart_ledger")

    ask(5)

    assert ledger.rows("SELECT * FROM surestart_ledger") == rows
    assert ledger.rows("SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_all_tables") == before


def test_both_sinks_of_a_pair_are_found(ledger: Database) -> None:
    assert set(read_own_evidence(Both(SINK, SINK), PLACE)) == {"events"}
