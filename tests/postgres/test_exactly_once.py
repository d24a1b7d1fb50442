"""However often and by however many a batch is tried, its rows are in the table once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.postgres.ledger import LedgerEntry, LedgerKey, find_entry
from surestart.sinks.batch_error import BatchShort
from surestart.sinks.postgres.batch import BatchWritten, write_batch
from surestart.sinks.postgres.copy import LoadedRows, StagingTable, copy_batches
from tests.postgres.database import EVENTS, QUERY_ID, TABLE, Database, Row, append, arrow, readings, upsert, write
from tests.postgres.proxy import CuttingProxy

LEDGER = "SELECT query_id, batch_id, target, rows, rows_changed FROM surestart_ledger"


def test_a_batch_written_twice_appears_once(database: Database) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    again = write(append(database, 0, replayed=True), readings(0))

    assert again == BatchWritten(rows=1000, rows_changed=1000, skipped=True)
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))
    assert database.rows(LEDGER) == {(QUERY_ID, 0, "public.events", 1000, 1000): 1}


def test_a_batch_that_is_there_and_is_not_being_replayed_is_refused_and_not_skipped(database: Database) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    asked = "surestart doctor merge-gold -e prod --set postgres_url=secret:sensor/postgres-url"
    with pytest.raises(Refused, match=f"batch 0 of query {QUERY_ID}.*already: 1000 rows") as refused:
        write(replace(append(database, 0), doctor=asked), readings(7))

    assert str(refused.value.next) == asked

    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_a_batch_of_which_fewer_rows_came_than_were_counted_is_not_there_at_all(database: Database) -> None:
    database.execute(EVENTS)
    for rows in (readings(0)[:900], []):
        with pytest.raises(BatchShort, match=f"has 1000 rows, and {len(rows)} of them came to public.events"):
            write(replace(append(database, 0), counted=1000), rows)
        assert not database.rows("SELECT * FROM events")
        assert not database.rows(LEDGER)
        assert not database.staging_tables()

    write(replace(append(database, 0), counted=1000), readings(0))

    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


@pytest.mark.parametrize("key", ["pos, part", "missing"])
def test_an_append_fills_the_index_of_a_primary_key_in_its_order(database: Database, key: str) -> None:
    more = ", missing bigserial" if key == "missing" else ""
    database.execute(
        f"CREATE TABLE events (sensor text, part int, pos bigint, value float8{more}, PRIMARY KEY ({key}))"
    )
    rows = [(f"s{pos}", pos % 3, (pos * 7919) % 1000, None) for pos in range(1000)]

    write(append(database, 0), rows)

    assert database.rows("SELECT sensor, part, pos, value FROM events") == _multiset(rows)
    with database.connect() as connection:
        stored = connection.execute("SELECT pos, part FROM events ORDER BY ctid").fetchall()
    in_order = sorted(stored) if key != "missing" else [(pos, part) for _, part, pos, _ in rows]
    assert stored == in_order


def test_a_new_query_id_writes_batch_0_again(database: Database) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    write(replace(append(database, 0), query_id="another"), readings(1))

    assert database.rows("SELECT * FROM events") == _multiset(readings(0) + readings(1))


def test_one_batch_goes_into_two_tables_and_twice_into_one_under_two_steps(database: Database) -> None:
    database.execute(EVENTS)
    database.execute(TABLE)

    write(append(database, 0), readings(0))
    write(upsert(database, 0), readings(0))
    write(replace(append(database, 0), step="late"), readings(1))

    assert database.rows("SELECT * FROM events") == _multiset(readings(0) + readings(1))
    assert database.one("SELECT count(*) FROM gold") == 100


def test_a_checkpoint_behind_the_database_is_refused(database: Database) -> None:
    database.execute(EVENTS)
    write(append(database, 4), readings(4))

    with pytest.raises(Refused, match=r"has batches up to 4 .* now given batch 3"):
        write(append(database, 3, replayed=True), readings(3))

    assert database.rows("SELECT * FROM events") == _multiset(readings(4))


def test_a_database_restored_from_an_older_backup_is_refused_until_the_gap_is_allowed(database: Database) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    with pytest.raises(Refused, match=r"ends at batch 0 .* now given batch 3") as refused:
        write(append(database, 3), readings(3))
    assert "2 batches never reached the database" in refused.value.meaning

    write(replace(append(database, 3), gaps="allow"), readings(3))
    assert database.rows("SELECT * FROM events") == _multiset(readings(0) + readings(3))


def test_an_empty_batch_is_in_the_ledger_so_that_it_is_no_gap(database: Database) -> None:
    database.execute(EVENTS)

    write(append(database, 0), [])
    write(append(database, 1), readings(1))

    assert database.rows("SELECT batch_id, rows FROM surestart_ledger") == {(0, 0): 1, (1, 1000): 1}


def test_of_two_writers_of_one_batch_one_wins_and_the_other_is_told(database: Database) -> None:
    database.execute(EVENTS)
    both_loaded = threading.Barrier(2, timeout=30)
    outcomes: list[object] = []

    def run(rows: Sequence[Row]) -> None:
        try:
            outcomes.append(write(append(database, 0), rows, before=lambda staging: both_loaded.wait()))
        except SurestartError as error:
            outcomes.append(error)

    writers = [threading.Thread(target=run, args=(readings(0),)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["BatchWritten", "Refused"]
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))
    assert database.staging_tables() == set()


def test_a_rival_that_commits_first_makes_the_ledger_refuse_the_second(database: Database) -> None:
    database.execute(EVENTS)

    def rival(staging: StagingTable) -> None:
        write(append(database, 0), readings(0))

    with pytest.raises(Refused, match=r"batch 0 .* already"):
        write(append(database, 0), readings(0), before=rival)

    assert database.rows("SELECT * FROM events") == _multiset(readings(0))
    assert write(append(database, 0, replayed=True), readings(0)).skipped


def test_a_task_that_spark_ran_twice_counts_once(database: Database) -> None:
    database.execute(EVENTS)
    what = append(database, 0)

    def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
        copy_batches([arrow(readings(0))], what.url, staging)
        return (copy_batches([arrow(readings(0))], what.url, staging), copy_batches([], what.url, staging))

    written = write_batch(what, load)

    assert written.rows == 1000
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_a_task_that_still_copies_when_the_batch_is_committed_adds_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gave up on it and counted another; it ends between the count of staging and the move, if it is let."""
    database.execute(EVENTS)
    what = append(database, 0)
    may_end, copied = threading.Event(), threading.Event()

    def straggling() -> Iterator[Any]:
        yield arrow(readings(0))
        copied.set()
        assert may_end.wait(60)

    def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
        late.append(threading.Thread(target=lambda: copy_batches(straggling(), what.url, staging)))
        late.append(threading.Thread(target=lambda: end_once_it_is_waited_for(staging.sql)))
        late[0].start()
        assert copied.wait(60)
        late[1].start()
        return (copy_batches([arrow(readings(0))], what.url, staging),)

    def end_once_it_is_waited_for(staging: str) -> None:
        waiting = f"SELECT count(*) FROM pg_locks WHERE relation = '{staging}'::regclass AND NOT granted"
        while not may_end.is_set() and not database.one(waiting):
            may_end.wait(0.02)
        may_end.set()

    def end_before_the_move(point: str) -> None:
        if point == "postgres.before_ledger":
            may_end.set()
            for thread in late:
                thread.join(60)

    late: list[threading.Thread] = []
    monkeypatch.setattr("surestart.sinks.postgres.batch.fail_point", end_before_the_move)

    written = write_batch(what, load)

    assert written.rows == 1000
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_rows_that_no_task_answered_for_stop_the_batch(database: Database) -> None:
    database.execute(EVENTS)
    what = append(database, 0)

    def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
        loaded = copy_batches([arrow(readings(0))], what.url, staging)
        database.execute(f"DELETE FROM {staging.sql} WHERE pos = 17")
        return (loaded,)

    with pytest.raises(Refused, match="holds 999 rows, the tasks reported 1000"):
        write_batch(what, load)

    assert database.rows("SELECT * FROM events") == {}


def test_staging_of_a_dead_attempt_is_removed_with_its_copying_task(database: Database) -> None:
    database.execute(EVENTS)
    dead = "surestart_staging_0123456789ab_7_deadbeef"
    database.execute(f"CREATE UNLOGGED TABLE {dead} (LIKE events)")
    zombie = database.connect()
    zombie.autocommit = False
    zombie.execute(f"INSERT INTO {dead} VALUES ('s', 0, 0, 0)")

    written = write(append(database, 0), readings(0))

    assert written.leftovers == (dead,)
    assert database.staging_tables() == set()
    with pytest.raises(Exception, match="terminating connection"):
        zombie.commit()


def test_staging_of_a_live_attempt_is_left_alone(database: Database) -> None:
    database.execute(EVENTS)
    database.execute(TABLE)
    seen: list[BatchWritten] = []

    def other_query(staging: StagingTable) -> None:
        seen.append(write(replace(upsert(database, 0), query_id="another"), readings(0)))
        assert staging.table in database.staging_tables()

    write(append(database, 0), readings(0), before=other_query)

    assert seen[0].leftovers == ()
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_a_load_that_fails_leaves_no_staging_and_no_rows(database: Database) -> None:
    database.execute(EVENTS)

    def fails(staging: StagingTable) -> None:
        raise RuntimeError("the executor is gone")

    with pytest.raises(RuntimeError, match="the executor is gone"):
        write(append(database, 0), readings(0), before=fails)

    assert database.staging_tables() == set()
    assert database.rows("SELECT * FROM events") == {}


def test_a_lost_reply_to_commit_is_resolved_by_the_ledger(database: Database) -> None:
    database.execute(EVENTS)
    with CuttingProxy(database.url) as proxy:
        through = replace(append(database, 0), url=proxy.secret)

        written = write(through, readings(0), before=lambda staging: proxy.cut_at_commit(forward=True))

    assert proxy.cuts == 1
    assert written == BatchWritten(rows=1000, rows_changed=1000)
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_a_commit_that_never_arrived_is_not_taken_for_done(database: Database) -> None:
    database.execute(EVENTS)
    with CuttingProxy(database.url) as proxy:
        through = replace(append(database, 0), url=proxy.secret)

        with pytest.raises(CannotTell, match="waiting for the reply to COMMIT"):
            write(through, readings(0), before=lambda staging: proxy.cut_at_commit(forward=False))

    assert proxy.cuts == 1
    assert database.rows("SELECT * FROM events") == {}
    write(append(database, 0, replayed=True), readings(0))
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))
    assert database.staging_tables() == set()


def test_a_server_that_is_still_at_the_commit_is_waited_for_before_the_ledger_is_asked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(EVENTS)
    go_on, asked = threading.Event(), []

    def find(connection: Any, schema: str, key: LedgerKey) -> LedgerEntry | None:
        asked.append(key)
        found = find_entry(connection, schema, key)
        if len(asked) == 2:
            go_on.set()
        return found

    def go_on_once_somebody_waits() -> None:
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not go_on.is_set() and not database.one(waiting):
            go_on.wait(0.02)
        go_on.set()

    def cut(staging: StagingTable) -> None:
        proxy.cut_at_commit(forward=True, forward_after=go_on)
        watcher.start()

    watcher = threading.Thread(target=go_on_once_somebody_waits)
    monkeypatch.setattr("surestart.sinks.postgres.batch.find_entry", find)
    with CuttingProxy(database.url) as proxy:
        written = write(replace(append(database, 0), url=proxy.secret), readings(0), before=cut)

    watcher.join(60)
    assert proxy.cuts == 1
    assert written == BatchWritten(rows=1000, rows_changed=1000)
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_after_a_lost_commit_the_row_of_a_rival_is_not_taken_for_the_own_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(EVENTS)
    asked: list[LedgerKey] = []

    def find_after_a_rival(connection: Any, schema: str, key: LedgerKey) -> LedgerEntry | None:
        asked.append(key)
        if len(asked) == 2:
            write(append(database, 0), readings(7))
        return find_entry(connection, schema, key)

    monkeypatch.setattr("surestart.sinks.postgres.batch.find_entry", find_after_a_rival)
    with CuttingProxy(database.url) as proxy:
        through = replace(append(database, 0), url=proxy.secret)

        with pytest.raises(Refused, match=r"is in public\.events already: 1000 rows"):
            write(through, readings(0), before=lambda staging: proxy.cut_at_commit(forward=False))

    assert database.rows("SELECT * FROM events") == _multiset(readings(7))


@pytest.mark.parametrize("forward", [True, False])
def test_when_nobody_can_say_the_batch_is_in_doubt_and_the_next_start_finds_out(
    database: Database, forward: bool
) -> None:
    database.execute(EVENTS)
    with CuttingProxy(database.url) as proxy:
        through = replace(append(database, 0), url=proxy.secret)

        with pytest.raises(CannotTell, match="the ledger cannot be asked") as doubt:
            write(through, readings(0), before=lambda staging: proxy.cut_at_commit(forward=forward, then_refuse=True))

    assert doubt.value.code == "PostgresInDoubt"
    again = write(append(database, 0, replayed=True), readings(0))
    assert again.skipped is forward
    assert database.rows("SELECT * FROM events") == _multiset(readings(0))


def test_the_ledger_keeps_the_last_ten_thousand_batches(database: Database) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0, 1))
    database.execute(
        "INSERT INTO surestart_ledger SELECT query_id, n, target, step, query, stage, checkpoint, attempt, mode, rows,"
        " rows_changed, attempted_at, committed_at FROM surestart_ledger, generate_series(1, 10004) n"
    )

    write(append(database, 10005), readings(1, 1))

    assert database.rows("SELECT count(*), min(batch_id), max(batch_id) FROM surestart_ledger") == {
        (10001, 5, 10005): 1
    }


def _multiset(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(rows)
