"""What the doctor reads of a query's batches, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surestart.errors import CannotTell
from surestart.facts.postgres.ledger import LedgerView, read_ledger
from surestart.facts.postgres.url import DatabaseUrl
from tests.postgres.database import EVENTS, QUERY_ID, Database, append, readings, write

URL = DatabaseUrl(variable="SURESTART_POSTGRES_URL")


def test_a_target_without_a_ledger_has_no_batches(database: Database) -> None:
    database.execute(EVENTS)

    assert read_ledger(URL, QUERY_ID, "events") == LedgerView(QUERY_ID, "public.events", "", 0, None, None, (), None)


def test_count_first_last_and_gaps_are_those_of_one_query_and_target(database: Database) -> None:
    database.execute(EVENTS)
    for batch_id in (3, 4, 7, 8):
        write(replace(append(database, batch_id), gaps="allow"), readings(batch_id))
    write(replace(append(database, 100), query_id="another"), readings(9))

    view = read_ledger(URL, QUERY_ID, "public.events")

    assert (view.count, view.first_batch, view.last_batch, view.gaps) == (4, 3, 8, (5, 6))
    assert view.last is not None
    assert (view.last.rows, view.last.rows_changed, view.last.mode) == (1000, 1000, "append")
    assert (view.last.query, view.last.stage) == ("sensor-merge-gold", "merge-gold")
    assert view.last.attempted_at < view.last.committed_at


def test_reading_the_ledger_writes_nothing(database: Database) -> None:
    database.execute(EVENTS)

    read_ledger(URL, QUERY_ID, "events")

    assert database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'surestart%%'", ()) == {}


def test_a_missing_target_is_unknown_and_not_empty(database: Database) -> None:
    with pytest.raises(CannotTell, match="the ledger of events cannot be read: table events is not in database"):
        read_ledger(URL, QUERY_ID, "events")


def test_an_unset_variable_is_unknown() -> None:
    with pytest.raises(CannotTell, match=r"\$NO_SUCH_VARIABLE is empty or not set"):
        read_ledger(DatabaseUrl(variable="NO_SUCH_VARIABLE"), QUERY_ID, "events")


def test_a_ledger_that_may_not_be_read_is_unknown(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))
    database.execute("ALTER TABLE surestart_ledger RENAME COLUMN rows TO something_else")

    with pytest.raises(CannotTell, match='column "rows" does not exist'):
        read_ledger(URL, QUERY_ID, "events")
