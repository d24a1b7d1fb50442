"""`surestart.once_in` on PostgreSQL: the ledger's row in somebody's own transaction."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

from surestart.cli.stage_answers import ask_stages
from surestart.errors import Refused, UsageError
from surestart.facts.postgres.ledger import LedgerKey
from surestart.guarding.once_in import note_in
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import ProjectFile, parse_project_text
from tests.diagnosis.stage_values import write_checkpoint
from tests.postgres.conftest import VARIABLE
from tests.postgres.database import EVENTS, QUERY_ID, Database


def noted(database: Database) -> list[int]:
    """The batches in the ledger; a transaction that was rolled back has not made it either."""
    if database.one("SELECT to_regclass('surestart_ledger')") is None:
        return []
    found = database.rows("SELECT batch_id FROM surestart_ledger WHERE query_id = %s", (QUERY_ID,))
    return sorted(batch_id for (batch_id,) in found.elements())


def key(batch_id: int) -> LedgerKey:
    return LedgerKey(QUERY_ID, batch_id, "events")


def test_the_row_is_committed_with_the_rows_or_not_at_all(database: Database) -> None:
    database.execute(EVENTS)
    with psycopg.connect(database.url, row_factory=dict_row) as connection:
        assert note_in(connection, key(0))
        connection.rollback()
    assert noted(database) == []
    for batch_id, new in ((0, True), (0, False), (1, True)):
        with psycopg.connect(database.url, row_factory=dict_row) as connection:
            assert note_in(connection, key(batch_id)) is new
    assert noted(database) == [0, 1]


def test_a_batch_below_the_ledgers_last_is_refused_whether_or_not_it_is_there(database: Database) -> None:
    database.execute(EVENTS)
    for batch_id in (0, 4):
        with psycopg.connect(database.url) as connection:
            note_in(connection, key(batch_id))
    for batch_id in (0, 3):
        with psycopg.connect(database.url) as connection, pytest.raises(Refused, match="PostgresLedgerAhead"):
            note_in(connection, key(batch_id))


def test_two_drivers_with_one_batch_are_one(database: Database) -> None:
    database.execute(EVENTS)
    with psycopg.connect(database.url) as first:
        assert note_in(first, key(0))
    with psycopg.connect(database.url) as first, psycopg.connect(database.url) as second:
        second.execute("SET lock_timeout = '200ms'")
        assert note_in(first, key(1))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            note_in(second, key(1))
    assert noted(database) == [0, 1]


def test_autocommit_needs_a_transaction_block(database: Database) -> None:
    database.execute(EVENTS)
    with psycopg.connect(database.url, autocommit=True) as connection:
        with pytest.raises(UsageError, match="OnceWithoutTransaction"):
            note_in(connection, key(0))
        with connection.transaction():
            assert note_in(connection, key(0))


def test_the_doctor_of_a_declared_stream_asks_the_ledger(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(EVENTS)
    for batch_id in range(4):
        with psycopg.connect(database.url) as connection:
            note_in(connection, key(batch_id))
    path = tmp_path / "surestart.toml"
    for last, replayed, code in ((3, True, ""), (3, False, ""), (1, False, "SINK_AHEAD_OF_CHECKPOINT")):
        folder = tmp_path / f"{last}-{replayed}"
        committed = last - 1 if replayed else last
        write_checkpoint(folder, planned=last, committed=committed, query_id=QUERY_ID, offset='{"t": {"0": 3}}')
        text = f'[stream.events]\ncheckpoint = "{folder}"\nsink = {{ postgres = "events" }}\n'
        codes, asked = asked_about(parse_project_text(path, text))
        assert "SINK_UNREADABLE" not in codes
        assert [one for one in codes if one.startswith("SINK_AHEAD")] == [code] * bool(code)
        assert asked == ("skips" if code else "accepts")
    monkeypatch.delenv(VARIABLE)
    codes, asked = asked_about(parse_project_text(path, text))
    assert (codes[0], asked) == ("SINK_UNREADABLE", "cannot tell")


def asked_about(project: ProjectFile) -> tuple[list[str], str]:
    """The findings, and what the sink does with the next batch."""
    stages = pipeline_of_streams(project.streams).build_stages({})
    (found,) = ask_stages(environment_of_streams(project), stages)
    return [one.code for one in found.findings], found.sinks[0].acceptance.value
