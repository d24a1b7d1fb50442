"""`surestart.once_in` on PostgreSQL: the ledger's row in somebody's own transaction."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row

from surestart.errors import Refused, UsageError
from surestart.facts.postgres.ledger import LedgerKey
from surestart.guarding.once_in import note_in
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
