"""The newest position of a key wins, whatever the order of arrival."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.errors import UsageError
from tests.postgres.database import TABLE, Database, Row, append, upsert, write


def test_the_newest_position_inside_a_batch_wins(database: Database) -> None:
    database.execute(TABLE)

    written = write(upsert(database, 0), [("a", 0, 2, 2.0), ("a", 0, 9, 9.0), ("a", 0, 5, 5.0), ("b", 1, 1, 1.0)])

    assert (written.rows, written.rows_changed) == (4, 2)
    assert database.rows("SELECT * FROM gold") == Counter([("a", 0, 9, 9.0), ("b", 1, 1, 1.0)])


def test_an_older_position_never_overwrites_a_newer_one(database: Database) -> None:
    database.execute(TABLE)
    write(upsert(database, 0), [("a", 1, 5, 5.0)])

    late = write(upsert(database, 1), [("a", 1, 4, 4.0), ("a", 0, 99, 99.0)])

    assert late.rows_changed == 0
    assert database.rows("SELECT * FROM gold") == Counter([("a", 1, 5, 5.0)])


def test_a_row_without_a_position_gives_way_to_one_with(database: Database) -> None:
    database.execute(TABLE)
    database.execute("INSERT INTO gold VALUES ('a', NULL, NULL, -1)")

    write(upsert(database, 0), [("a", 0, 0, 1.0)])

    assert database.rows("SELECT * FROM gold") == Counter([("a", 0, 0, 1.0)])


def test_the_same_row_delivered_twice_is_one_row(database: Database) -> None:
    database.execute(TABLE)

    write(upsert(database, 0), [("a", 0, 1, 1.0), ("a", 0, 1, 1.0)])

    assert database.rows("SELECT * FROM gold") == Counter([("a", 0, 1, 1.0)])


def test_two_different_rows_at_one_position_are_refused(database: Database) -> None:
    database.execute(TABLE)

    with pytest.raises(
        UsageError, match=r"1 keys for public\.gold have different rows with the same part, pos"
    ) as refused:
        write(upsert(database, 0), [("a", 0, 1, 1.0), ("a", 0, 1, 2.0), ("b", 0, 2, 2.0)])

    assert refused.value.code == "PostgresOrderNotTotal"
    assert database.rows("SELECT * FROM gold") == {}


def test_a_tie_below_the_newest_position_does_not_matter(database: Database) -> None:
    database.execute(TABLE)

    write(upsert(database, 0), [("a", 0, 1, 1.0), ("a", 0, 1, 2.0), ("a", 0, 2, 3.0)])

    assert database.rows("SELECT * FROM gold") == Counter([("a", 0, 2, 3.0)])


@pytest.mark.parametrize("row", [(None, 0, 1, 1.0), ("a", None, 1, 1.0), ("a", 0, None, 1.0)])
def test_a_row_without_key_or_position_is_refused(database: Database, row: Row) -> None:
    database.execute("CREATE TABLE gold (sensor text UNIQUE, part int, pos bigint, value float8)")

    with pytest.raises(UsageError, match=r"1 rows have no value in (sensor|part|pos), which is part of"):
        write(upsert(database, 0), [row, ("b", 0, 2, 2.0)])

    assert database.rows("SELECT * FROM gold") == {}


def test_an_upsert_needs_a_unique_index_on_exactly_its_keys(database: Database) -> None:
    database.execute("CREATE TABLE gold (sensor text, part int, pos bigint, value float8, UNIQUE (sensor, part))")
    database.execute("CREATE UNIQUE INDEX ON gold (sensor) WHERE part = 0")
    database.execute("CREATE UNIQUE INDEX ON gold (lower(sensor))")

    with pytest.raises(UsageError, match=r"no primary key or unique index on exactly \(sensor\)"):
        write(upsert(database, 0), [("a", 0, 1, 1.0)])

    write(replace(upsert(database, 0), keys=("part", "sensor"), order=("pos",)), [("a", 0, 1, 1.0)])
    assert database.rows("SELECT * FROM gold") == Counter([("a", 0, 1, 1.0)])


def test_a_table_of_keys_and_positions_only_can_be_upserted(database: Database) -> None:
    database.execute("CREATE TABLE gold (sensor text, part int, pos bigint, value float8, PRIMARY KEY (sensor))")

    write(replace(upsert(database, 0), order=("part", "pos", "value")), [("a", 0, 1, 1.0), ("a", 0, 1, 2.0)])

    assert database.rows("SELECT * FROM gold") == Counter([("a", 0, 1, 2.0)])


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_any_split_into_batches_with_any_replays_ends_at_the_newest_row_of_every_key(
    shared_database: Database, data: st.DataObject
) -> None:
    database = shared_database
    database.execute("DROP TABLE IF EXISTS gold, surestart_ledger")
    database.execute(TABLE)
    positions = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), unique=True, max_size=60))
    keys = data.draw(st.randoms(use_true_random=False))
    rows: list[Row] = [(f"s{keys.randrange(8)}", part, pos, part * 1000.0 + pos) for part, pos in positions]
    keys.shuffle(rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    batches = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]

    for batch_id, batch in enumerate(batches):
        write(upsert(database, batch_id), batch)
        if data.draw(st.booleans()):
            assert write(upsert(database, batch_id, replayed=True), batch).skipped

    newest = {sensor: row for row in sorted(rows, key=lambda row: (row[1], row[2])) for sensor in [row[0]]}
    assert database.rows("SELECT * FROM gold") == Counter(newest.values())


def test_append_keeps_every_row_of_a_key(database: Database) -> None:
    database.execute("CREATE TABLE events (sensor text, part int, pos bigint, value float8)")
    rows: list[Row] = [(f"s{random.Random(1).randrange(3)}", 0, pos, 0.0) for pos in range(50)]

    write(append(database, 0), rows + rows)

    assert database.rows("SELECT * FROM events") == Counter(rows + rows)
