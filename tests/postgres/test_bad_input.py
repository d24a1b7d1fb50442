"""What is wrong is said in four parts, nothing is half-written, and the next start with the fault removed writes it."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
import psycopg.conninfo
import pyarrow as pa
import pytest

from surestart.errors import CannotTell, StoppedHalfway, SurestartError, UsageError
from surestart.facts.postgres.url import DatabaseUrl
from surestart.sinks.postgres.batch import BatchWrite, write_batch
from surestart.sinks.postgres.copy import StagingTable, copy_batches
from tests.postgres.database import EVENTS, Database, Row, append, readings, upsert, write
from tests.servers.postgres_server import PostgresServer


def refused(what: BatchWrite, rows: Sequence[Row]) -> SurestartError:
    with pytest.raises(SurestartError) as caught:
        write(what, rows)
    assert caught.value.meaning
    assert caught.value.next
    return caught.value


def test_a_server_that_is_not_there(database: Database) -> None:
    database.execute(EVENTS)
    parts = psycopg.conninfo.conninfo_to_dict(database.url)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    wrong = database.url.replace(f":{parts['port']}/", f":{port}/")

    error = refused(replace(append(database, 0), url=DatabaseUrl(variable="U").read({"U": wrong})), readings(0))

    assert (type(error), error.code) == (CannotTell, "PostgresUnreachable")
    assert f"connecting to 127.0.0.1:{port}" in error.what
    _the_next_start_writes_it(database)


def test_a_wrong_password(database: Database) -> None:
    database.execute(EVENTS)
    wrong = psycopg.conninfo.conninfo_to_dict(database.url)["password"]
    url = DatabaseUrl(variable="U").read({"U": database.url.replace(str(wrong), "wr0ng-canary")})

    error = refused(replace(append(database, 0), url=url), readings(0))

    assert (type(error), error.code) == (UsageError, "PostgresLoginRefused")
    assert str(error.next) == "psql \"$U\" -c 'select 1'"
    assert "password authentication failed" in error.what
    assert "wr0ng-canary" not in str(error)
    _the_next_start_writes_it(database)


@pytest.mark.parametrize(
    ("made", "kind", "code"),
    [
        ("NOLOGIN", UsageError, "PostgresLoginRefused"),
        ("LOGIN VALID UNTIL '2001-01-01'", UsageError, "PostgresLoginRefused"),
        ("LOGIN CONNECTION LIMIT 0", StoppedHalfway, "PostgresBusy"),
        ("LOGIN", UsageError, "PostgresPermissionDenied"),
    ],
)
def test_a_user_who_may_not_connect(database: Database, made: str, kind: type[SurestartError], code: str) -> None:
    """psycopg gives none of these a SQLSTATE."""
    database.execute(EVENTS)
    parts = psycopg.conninfo.conninfo_to_dict(database.url)
    role = f"outside_{database.url.rsplit('_', 1)[1]}"
    database.execute(f"CREATE ROLE {role} {made} PASSWORD 'outside'")
    database.execute(f"REVOKE CONNECT ON DATABASE {parts['dbname']} FROM public")
    try:
        text = f"postgresql://{role}:outside@{parts['host']}:{parts['port']}/{parts['dbname']}"

        error = refused(replace(append(database, 0), url=DatabaseUrl(variable="U").read({"U": text})), readings(0))

        assert (type(error), error.code) == (kind, code), error.what
    finally:
        database.execute(f"DROP ROLE {role}")


def test_a_missing_database(database: Database) -> None:
    database.execute(EVENTS)
    url = DatabaseUrl(variable="U").read({"U": database.url + "_gone"})

    error = refused(replace(append(database, 0), url=url), readings(0))

    assert (type(error), error.code) == (UsageError, "PostgresTargetMissing")
    assert 'gone" does not exist' in error.what
    assert str(error.next).startswith("export U=")
    _the_next_start_writes_it(database)


def test_a_missing_table(database: Database) -> None:
    error = refused(append(database, 0), readings(0))

    assert (type(error), error.code) == (UsageError, "PostgresTargetMissing")
    assert "table events is not in database" in error.what
    database.execute(EVENTS)
    _the_next_start_writes_it(database)


def test_a_missing_column(database: Database) -> None:
    database.execute("CREATE TABLE events (sensor text, part int, pos bigint)")

    error = refused(append(database, 0), readings(0))

    assert error.what == "the batch has value and public.events does not (it has sensor, part, pos)"
    database.execute("ALTER TABLE events ADD value float8")
    _the_next_start_writes_it(database)


def test_a_value_that_does_not_fit_its_column(database: Database) -> None:
    database.execute("CREATE TABLE events (sensor varchar(4), part smallint, pos bigint, value float8)")

    too_great = refused(append(database, 0), [*readings(0), ("s", 40000, 1000, 1.0)])
    too_long = refused(append(database, 0), [*readings(0), ("sensor", 0, 1000, 1.0)])

    assert (too_great.code, too_long.code) == ("PostgresTypeMismatch", "PostgresTypeMismatch")
    if database.one("SHOW server_version_num") >= "160000":
        assert too_great.what == "column part of public.events is smallint, and the batch has '40000'"
        assert too_long.what == "column sensor of public.events is character varying(4), and the batch has 'sensor'"
    else:
        assert "column part of public.events is smallint" in too_great.what
        assert "value too long for type character varying(4)" in too_long.what
    assert database.rows("SELECT * FROM events") == {}
    _the_next_start_writes_it(database)


@pytest.mark.parametrize("kind", ["int", "bigint", "smallint", "real", "numeric(12,2)", "numeric(30)"])
def test_a_column_that_would_round_the_values_is_refused(database: Database, kind: str) -> None:
    database.execute(f"CREATE TABLE events (sensor text, part int, pos bigint, value {kind})")

    error = refused(append(database, 0), [("s", 0, 0, 1.5)])

    assert error.code == "PostgresTypeMismatch"
    assert "public.events would take value double precision into" in error.what
    assert database.rows("SELECT * FROM events") == {}
    database.execute("ALTER TABLE events ALTER value TYPE numeric")
    _the_next_start_writes_it(database)


def test_a_null_where_the_table_wants_a_value(database: Database) -> None:
    database.execute("CREATE TABLE events (sensor text NOT NULL, part int, pos bigint, value float8)")

    error = refused(append(database, 0), [*readings(0), (None, 0, 1000, 1.0)])

    assert error.code == "PostgresRowsRefused"
    assert database.rows("SELECT * FROM events") == {}
    database.execute("ALTER TABLE events ALTER sensor DROP NOT NULL")
    _the_next_start_writes_it(database)


@pytest.mark.parametrize("moment", ["before", "between staging and COMMIT", "uncommitted until it is waited for"])
def test_a_row_that_a_second_writer_put_there_first(
    database: Database, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    database.execute("CREATE TABLE events (sensor text, part int, pos bigint, value float8, UNIQUE (part, pos))")
    rival = database.connect()
    ending = threading.Thread(target=lambda: _commit_once_waited_for(database, rival))

    def put(point: str = "") -> None:
        # The batch is wholly in staging, in its transaction, and has not touched the target.
        if point == "postgres.before_ledger":
            assert len(database.staging_tables()) == 1
        if point in ("", "postgres.before_ledger"):
            rival.autocommit = moment != "uncommitted until it is waited for"
            rival.execute("INSERT INTO events VALUES ('s17', 0, 17, 17 / 8.0)")
            if not rival.autocommit:
                ending.start()

    if moment == "before":
        put()
    else:
        monkeypatch.setattr("surestart.sinks.postgres.batch.fail_point", put)

    error = refused(append(database, 0), readings(0))

    monkeypatch.undo()
    if ending.ident is not None:
        ending.join(60)
    assert error.code == "PostgresRowsRefused"
    assert "Key (part, pos)=(0, 17) already exists" in error.what
    assert database.one("SELECT count(*) FROM events") == 1
    database.execute("DELETE FROM events")
    _the_next_start_writes_it(database)


def test_a_user_who_may_not_write(database: Database) -> None:
    database.execute(EVENTS)
    role = f"reader_{database.url.rsplit('_', 1)[1]}"
    database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'")
    database.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
    try:
        parts = psycopg.conninfo.conninfo_to_dict(database.url)
        text = f"postgresql://{role}:reader@{parts['host']}:{parts['port']}/{parts['dbname']}"
        what = replace(append(database, 0), url=DatabaseUrl(variable="U").read({"U": text}))

        error = refused(what, readings(0))

        assert error.code == "PostgresPermissionDenied"
        assert "permission denied for table events" in error.what
        assert database.rows("SELECT * FROM events") == {}
        database.execute(f"GRANT SELECT, INSERT ON events TO {role}")
        write(what, readings(0))
        assert database.rows("SELECT * FROM events") == Counter(readings(0))
    finally:
        database.execute(f"DROP OWNED BY {role}")
        database.execute(f"DROP ROLE {role}")


def test_text_that_postgres_cannot_store(database: Database) -> None:
    database.execute(EVENTS)

    error = refused(append(database, 0), [("nul\0byte", 0, 0, 0.0)])

    assert error.code == "PostgresTypeMismatch"
    assert "invalid byte sequence" in error.what
    _the_next_start_writes_it(database)


def test_the_connection_ended_by_an_administrator_in_mid_batch(database: Database) -> None:
    database.execute(EVENTS)

    def terminate(staging: StagingTable) -> None:
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'surestart sensor%%'"
            " AND datname = current_database()"
        )

    with pytest.raises(CannotTell, match="terminating connection due to administrator command") as caught:
        write(append(database, 0), readings(0), before=terminate)

    assert caught.value.code == "PostgresUnreachable"
    assert database.rows("SELECT * FROM events") == {}
    _the_next_start_writes_it(database)


def test_the_connection_of_a_copying_task_ended_in_mid_copy(database: Database) -> None:
    database.execute(EVENTS)
    what = append(database, 0)

    def ending(staging: StagingTable) -> pa.RecordBatchReader:
        from tests.postgres.database import arrow

        yield arrow(readings(0)[:500])
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%%'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
        for _ in range(200):
            yield arrow(readings(0))

    with pytest.raises(SurestartError) as caught:
        write_batch(what, lambda staging: (copy_batches(ending(staging), what.url, staging),))

    assert caught.value.code == "PostgresUnreachable"
    assert database.rows("SELECT * FROM events") == {}
    _the_next_start_writes_it(database)


def test_an_immediate_restart_of_the_server_in_mid_batch(own_server: PostgresServer) -> None:
    database = Database(own_server.url)
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    with pytest.raises(CannotTell):
        write(append(database, 1), readings(1), before=lambda staging: own_server.restart_immediately())

    # The crash emptied the unlogged staging table; had the attempt gone on, half of the batch would be in the table.
    assert database.rows("SELECT * FROM events") == Counter(readings(0))
    write(append(database, 1, replayed=True), readings(1))
    assert database.rows("SELECT * FROM events") == Counter(readings(0) + readings(1))
    assert database.staging_tables() == set()


def test_a_target_locked_by_somebody_else_is_waited_for_and_then_given_up(database: Database) -> None:
    database.execute("CREATE TABLE gold (sensor text PRIMARY KEY, part int, pos bigint, value float8)")
    other = database.connect()
    other.autocommit = False
    other.execute("LOCK TABLE gold IN EXCLUSIVE MODE")
    impatient = DatabaseUrl(variable="U").read({"U": database.url + "?options=-cstatement_timeout%3D1000"})

    error = refused(replace(upsert(database, 0), url=impatient), readings(0))

    assert error.code == "PostgresBusy"
    other.rollback()
    write(upsert(database, 0), readings(0))
    assert database.one("SELECT count(*) FROM gold") == 100


def _commit_once_waited_for(database: Database, rival: psycopg.Connection[Any]) -> None:
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
    deadline = time.monotonic() + 60
    while not database.one(waiting) and time.monotonic() < deadline:
        time.sleep(0.02)
    rival.commit()


def _the_next_start_writes_it(database: Database) -> None:
    write(append(database, 0, replayed=True), readings(0))
    assert database.rows("SELECT * FROM events") == Counter(readings(0))
    assert database.staging_tables() == set()
