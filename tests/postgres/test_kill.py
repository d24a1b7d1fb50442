"""kill -9 at six points of a batch: the same rows, once, after the next start.

Here the process that dies writes one batch without Spark; test_streaming.py lets whole streams die.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.postgres.database import EVENTS, TABLE, Database, Row, append, readings, upsert, write
from tests.postgres.dying_batch import exit_code_of_batch

# The point, and whether the batch is in the table when the process is dead.
POINTS = [
    ("postgres.mid_copy:3", False),  # inside the first task's COPY
    ("postgres.mid_copy:8", False),  # the first task has committed its rows to staging, the second is in its COPY
    ("postgres.after_begin", False),
    ("postgres.before_ledger", False),
    ("postgres.before_commit", False),
    ("postgres.after_commit", True),
    ("postgres.before_spark_commit", True),
]


@pytest.mark.parametrize(("point", "there"), POINTS)
def test_a_kill_in_an_upsert_leaves_the_newest_row_of_every_key(database: Database, point: str, there: bool) -> None:
    database.execute(TABLE)
    first = [*readings(0), ("only-in-0", 0, 5, 1.0), ("newer-in-0", 9, 0, 2.0)]
    # The batch brings new readings, one key that gold has newer, and one that it has not.
    second = [*readings(1), ("newer-in-0", 0, 7, 3.0), ("only-in-1", 0, 8, 4.0)]
    write(upsert(database, 0), first)

    assert exit_code_of_batch(database, 1, replayed=False, point=point, table="gold") == -9

    assert database.rows("SELECT * FROM gold") == newest(first + readings(1) if there else first)

    again = write(upsert(database, 1, replayed=True), readings(1))

    assert again.skipped is there
    assert database.rows("SELECT * FROM gold") == newest(first + readings(1))
    # And what comes late or is new after all that is told apart still.
    write(upsert(database, 2), second)
    assert database.rows("SELECT * FROM gold") == newest(first + second)
    assert database.rows("SELECT batch_id, rows FROM surestart_ledger") == {(0, 1002): 1, (1, 1000): 1, (2, 1002): 1}
    assert database.staging_tables() == set()


def newest(rows: list[Row]) -> Counter[Row]:
    """Of each sensor the row with the greatest part and pos."""
    found: dict[str | None, Row] = {}
    for row in rows:
        if row[0] not in found or found[row[0]][1:3] < row[1:3]:  # type: ignore[operator]
            found[row[0]] = row
    return Counter(found.values())


@pytest.mark.parametrize(("point", "there"), POINTS)
def test_a_kill_costs_no_row_and_doubles_none(database: Database, point: str, there: bool) -> None:
    database.execute(EVENTS)
    write(append(database, 0), readings(0))

    assert exit_code_of_batch(database, 1, replayed=False, point=point) == -9

    after_kill = readings(0) + readings(1) if there else readings(0)
    assert database.rows("SELECT * FROM events") == Counter(after_kill)

    again = write(append(database, 1, replayed=True), readings(1))

    assert again.skipped is there
    assert database.rows("SELECT * FROM events") == Counter(readings(0) + readings(1))
    assert database.rows("SELECT batch_id, rows FROM surestart_ledger") == {(0, 1000): 1, (1, 1000): 1}
    assert database.staging_tables() == set()


def test_a_batch_killed_again_and_again_is_there_once_at_the_end(database: Database) -> None:
    database.execute(EVENTS)

    for point, _ in POINTS[1:5]:
        assert exit_code_of_batch(database, 0, replayed=True, point=point) == -9
        assert database.rows("SELECT * FROM events") == {}
    assert exit_code_of_batch(database, 0, replayed=True) == 0

    assert database.rows("SELECT * FROM events") == Counter(readings(0))
    assert database.staging_tables() == set()
