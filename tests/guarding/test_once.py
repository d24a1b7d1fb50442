"""`surestart.once`: a user's own batch carries the pair, never under a number that would be dropped in silence."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.sinks.delta.transaction import TXN_APP_ID, TXN_VERSION, USER_METADATA
from tests.guarding.conftest import Scene, pairs, uncommit


def ran(scene: Scene, function: Any) -> str:
    query = scene.by_function(function).start()
    query.awaitTermination()
    return str(query.id)


def test_a_batch_that_comes_again_is_dropped_by_each_of_its_tables(scene: Scene) -> None:
    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        batch.write.format("delta").mode("append").save(scene.table)
        batch.limit(3).write.format("delta").mode("append").save(f"{scene.table}2")

    query_id = ran(scene, write)
    uncommit(scene, 0)
    assert ran(scene, write) == query_id
    assert pairs(scene.table) == pairs(f"{scene.table}2") == [(query_id, 0)]
    assert scene.numbers() == scene.landed


@pytest.mark.long(instead="test_a_batch_that_comes_again_is_dropped_by_each_of_its_tables")
def test_a_merge_carries_the_pair_and_the_session_is_as_before(scene: Scene) -> None:
    scene.spark.sql(f"CREATE TABLE delta.`{scene.table}` (value STRING) USING delta")
    left = []

    def upsert(batch: Any, batch_id: int) -> None:
        session = batch.sparkSession
        session.conf.set(USER_METADATA, "theirs")
        batch.createOrReplaceTempView("arrived")
        with surestart.once(batch, batch_id):
            session.sql(
                f"MERGE INTO delta.`{scene.table}` t USING arrived s ON t.value = s.value "
                "WHEN NOT MATCHED THEN INSERT *"
            )
        left.extend(session.conf.get(key, None) for key in (TXN_APP_ID, TXN_VERSION, USER_METADATA))

    query_id = ran(scene, upsert)
    uncommit(scene, 0)
    ran(scene, upsert)
    assert pairs(scene.table) == [(query_id, 0)]
    assert left == [None, None, "theirs"] * 2


def test_steps_keep_several_writes_to_one_table_apart(scene: Scene) -> None:
    def write(batch: Any, batch_id: int) -> None:
        with surestart.once(batch, batch_id) as once:
            with once.step("copy"):
                batch.write.format("delta").mode("append").save(scene.table)
            batch.write.format("delta").mode("append").save(scene.table)
            with once.step("closed"):
                once.sql(f"DELETE FROM delta.`{scene.table}` WHERE value = '3'", table=scene.table)

    query_id = ran(scene, write)
    uncommit(scene, 0)
    ran(scene, write)
    assert pairs(scene.table) == [(f"{query_id}:copy", 0), (query_id, 0), (f"{query_id}:closed", 0)]
    assert scene.numbers().total() == 18


@pytest.mark.long(instead="test_steps_keep_several_writes_to_one_table_apart")
def test_a_table_that_only_steps_have_written_is_known_to_the_gate(scene: Scene) -> None:
    def write(batch: Any, batch_id: int) -> None:
        with surestart.once(batch, batch_id) as once, once.step("kept"):
            batch.write.format("delta").mode("append").save(scene.table)

    declared = surestart.declare_stream("orders", scene.checkpoint, sink={"foreach-batch": scene.table})
    for _ in range(3):
        surestart.start(scene.by_function(write), declared).awaitTermination()
        scene.land()
    uncommit(scene, 2)
    surestart.start(scene.by_function(write), declared).awaitTermination()
    assert scene.numbers() == scene.landed
    for log in ("offsets", "commits"):
        uncommit(scene, 3, log)
    with pytest.raises(surestart.Refused):
        surestart.start(scene.by_function(write), declared)


def append_twice(batch: Any, table: str) -> None:
    for _ in range(2):
        batch.write.format("delta").mode("append").save(table)


def append_then_delete(batch: Any, table: str) -> None:
    batch.write.format("delta").mode("append").save(table)
    batch.sparkSession.sql(f"DELETE FROM delta.`{table}` WHERE value = '3'")


def delete_then_append(batch: Any, table: str) -> None:
    batch.sparkSession.sql(f"DELETE FROM delta.`{table}` WHERE value = '3'")
    batch.write.format("delta").mode("append").save(table)


@pytest.mark.parametrize("act", [append_twice, append_then_delete, delete_then_append])
def test_what_delta_would_drop_without_a_word_is_an_error(scene: Scene, act: Any) -> None:
    scene.spark.createDataFrame([("3",)], "value STRING").write.format("delta").save(scene.table)

    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        act(batch, scene.table)

    with pytest.raises(Exception, match=r"OnceWrittenTwice(.|\n)*write\.step"):
        ran(scene, write)
    assert not (Path(scene.checkpoint) / "commits" / "0").exists()


def test_outside_of_a_stream_it_needs_a_checkpoint_and_takes_no_others(scene: Scene) -> None:
    rows = scene.spark.range(1)
    with pytest.raises(surestart.UsageError, match="OnceWithoutQuery"), surestart.once(rows, 0):
        pass
    other = scene.folder / "ck" / "other"
    other.mkdir(parents=True)
    (other / "metadata").write_text('{"id": "another"}')

    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        with surestart.once(batch, batch_id, checkpoint=str(other)):
            raise AssertionError("not reached")

    with pytest.raises(Exception, match="OnceOfAnotherQuery"):
        ran(scene, write)


@pytest.mark.long(instead="postgres/test_once_in.py::test_the_row_is_committed_with_the_rows_or_not_at_all")
def test_in_a_database_the_row_of_the_ledger_is_in_the_users_own_transaction(scene: Scene) -> None:
    path = str(scene.folder / "orders.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (value TEXT)")
    failing = [True]

    def write(batch: Any, batch_id: int) -> None:
        rows = [(row[0],) for row in batch.collect()]
        with sqlite3.connect(path) as connection:
            if surestart.once_in(connection, batch, batch_id, "orders"):
                connection.executemany("INSERT INTO orders VALUES (?)", rows)
                if failing.pop() if failing else False:
                    raise ValueError("before the commit")

    with pytest.raises(Exception, match=r"OnceWithoutLedger(.|\n)*CREATE TABLE surestart_ledger"):
        ran(scene, write)
    from surestart.guarding.once_in import LEDGER

    with sqlite3.connect(path) as connection:
        connection.execute(LEDGER)
    with pytest.raises(Exception, match="before the commit"):
        ran(scene, write)
    ran(scene, write)
    uncommit(scene, 0)
    ran(scene, write)
    scene.land()
    ran(scene, write)
    with sqlite3.connect(path) as connection:
        assert [int(row[0]) for row in connection.execute("SELECT value FROM orders ORDER BY CAST(value AS INT)")] == [
            *range(20)
        ]
        assert connection.execute("SELECT count(*) FROM surestart_ledger").fetchone() == (2,)


@pytest.mark.long(instead="postgres/test_once_in.py::test_autocommit_needs_a_transaction_block")
def test_a_connection_in_autocommit_is_refused(scene: Scene) -> None:
    def write(batch: Any, batch_id: int) -> None:
        surestart.once_in(sqlite3.connect(":memory:", isolation_level=None), batch, batch_id, "orders")

    with pytest.raises(Exception, match="OnceWithoutTransaction"):
        ran(scene, write)
