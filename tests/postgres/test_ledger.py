"""What the doctor reads of the batches in a real ledger that a real sink has written, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surestart.environment import Environment
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.facts.postgres.url import DatabaseUrl
from surestart.sinks.postgres.sink import PostgresSink
from tests.postgres.database import EVENTS, QUERY_ID, Database, append, readings, write

URL = DatabaseUrl(variable="SURESTART_POSTGRES_URL")


def read(target: str = "events", url: DatabaseUrl = URL) -> SinkEvidence:
    return PostgresSink(url, target).read_evidence(Environment("local", "sensor", "/nowhere", root="/nowhere"))


def test_a_target_without_a_ledger_has_no_batches(database: Database) -> None:
    database.execute(EVENTS)

    assert (read().known, read().transactions, read().has_rows) == (True, {}, False)


def test_the_last_batch_is_that_of_each_query_in_this_target(database: Database) -> None:
    database.execute(EVENTS)
    for batch_id in (3, 4, 7, 8):
        write(replace(append(database, batch_id), gaps="allow"), readings(batch_id))
    write(replace(append(database, 100), query_id="another"), readings(9))

    found = read("public.events")

    assert {app_id: one.version for app_id, one in found.transactions.items()} == {QUERY_ID: 8, "another": 100}
    assert found.has_rows


def test_reading_the_ledger_writes_nothing(database: Database) -> None:
    database.execute(EVENTS)

    read()

    assert database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'surestart%%'", ()) == {}


def test_an_unset_variable_is_unknown() -> None:
    assert "$NO_SUCH_VARIABLE is empty or not set" in read(url=DatabaseUrl(variable="NO_SUCH_VARIABLE")).problem


def test_a_ledger_that_cannot_be_read_is_unknown(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))
    database.execute("ALTER TABLE surestart_ledger RENAME COLUMN stage TO something_else")

    assert 'column "stage" does not exist' in read().problem
