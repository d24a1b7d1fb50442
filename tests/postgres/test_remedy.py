"""What a remedy removes from a table goes in one transaction with its ledger row, and comes back the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.sinks.postgres.copy import LoadedRows, StagingTable, copy_batches
from surestart.sinks.postgres.once import Removal
from surestart.sinks.postgres.remedy import Removed, drop_kept, is_kept, remove_rows, restore_rows
from tests.postgres.database import SCHEMA, Database, append, arrow, arrow_columns, readings, upsert, write
from tests.postgres.proxy import CuttingProxy

DIGEST = "d1" * 32
# As a stage's rows have them; the other tests of this room have shorter names.
POSITIONED = 'CREATE TABLE {} (sensor text{}, "partition" int, "offset" bigint, value double precision, source text)'
NAMES = ["sensor", "partition", "offset", "value"]
KEPT = "SELECT relname FROM pg_class WHERE starts_with(relname, 'surestart_kept_') AND relkind = 'r'"
LEDGER = "SELECT query_id, batch_id, rows, rows_changed FROM surestart_ledger WHERE mode = 'remedy'"


def positioned(database: Database, table: str, key: bool = False) -> None:
    """Three batches of 1000 readings, as a stage would have written them: of the upsert, the newest of each sensor."""
    database.execute(POSITIONED.format(table, " PRIMARY KEY" if key else ""))
    rows = readings(0) + readings(1) + readings(2)
    newest = list({row[0]: row for row in rows}.values()) if key else rows
    with database.connect() as connection, connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for sensor, part, pos, value in newest:
            copy.write_row((sensor, part, pos, value, "topic"))


def removal(database: Database, table: str = "events", **more: Any) -> Removal:
    return Removal(database.secret, table, DIGEST, "sensor-load", "load", **more)


def content(database: Database, table: str = "events") -> Counter[tuple[Any, ...]]:
    return database.rows(f"SELECT * FROM {table}")


def offsets(database: Database, table: str = "events") -> list[int]:
    return sorted(offset for (offset,) in database.rows(f'SELECT "offset" FROM {table}').elements())


def test_rows_from_a_mark_on_go_once_and_come_back_the_same(database: Database) -> None:
    positioned(database, "events")
    before = content(database)
    some = removal(database, marks=(("topic", 0, 1200), ("another", 0, 99)))

    done = remove_rows(some)

    assert (done.target, done.rows, done.restored) == ("public.events", 1800, 0)
    assert offsets(database) == list(range(1200))
    assert remove_rows(some) == done
    assert database.rows(LEDGER) == {(f"remedy-{DIGEST[:16]}", 0, 1800, 0): 1}
    assert is_kept(some)

    # What the stage has written since goes, what stayed stays.
    database.execute("INSERT INTO events VALUES ('late', 0, 1200, 1, 'topic'), ('late', 7, 0, 1, 'topic')")
    back = restore_rows(some)

    assert (back.rows, back.restored) == (2, 1800)
    assert content(database) == before
    assert restore_rows(some) == back
    assert content(database) == before
    assert database.rows(KEPT) == {}
    assert is_kept(some)


def test_all_rows_go_and_come_back_where_none_stays(database: Database) -> None:
    positioned(database, "events")
    before = content(database)

    assert remove_rows(removal(database)).rows == 3000
    assert content(database) == {}
    database.execute("INSERT INTO events VALUES ('new', 0, 0, 1, 'topic')")
    restore_rows(removal(database))

    assert content(database) == before


def test_a_key_whose_row_goes_gets_its_former_reading_and_the_undo_gives_the_table_back(database: Database) -> None:
    """Rows that stay may be replaced between the two: the undo gives back what they were."""
    positioned(database, "gold", key=True)
    before = content(database, "gold")
    names = ["sensor", "partition", "offset", "value"]
    schema = pa.schema([field.with_name(name) for field, name in zip(SCHEMA, names, strict=True)])
    some = removal(
        database,
        "gold",
        marks=(("topic", 0, 2950),),
        keys=("sensor",),
        order=("partition", "offset"),
        columns=arrow_columns(schema),
    )
    former = [row for row in readings(1) if int(str(row[0])[1:]) >= 50 and row[2] is not None and row[2] >= 1900]

    def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
        return (copy_batches([arrow(former).rename_columns(names)], some.url, staging),)

    done = remove_rows(some, load)

    assert (done.rows, done.restored) == (50, 50)
    assert offsets(database, "gold") == [*range(1950, 2000), *range(2900, 2950)]
    assert database.staging_tables() == set()
    database.execute("UPDATE gold SET value = -1, \"offset\" = 5000 WHERE sensor = 's3'")

    restore_rows(replace(some, columns=()))

    assert content(database, "gold") == before


@pytest.mark.parametrize("key", [True, False], ids=["one row per key", "every row"])
def test_all_rows_give_way_to_new_ones_in_one_transaction_and_come_back_the_same(database: Database, key: bool) -> None:
    """As a reset beside does it: a reader sees the former rows or the new ones."""
    positioned(database, "gold", key=key)
    before = content(database, "gold")
    schema = pa.schema([field.with_name(name) for field, name in zip(SCHEMA, NAMES, strict=True)])
    by_key: dict[str, Any] = {"keys": ("sensor",), "order": ("partition", "offset")} if key else {}
    some = removal(database, "gold", columns=arrow_columns(schema), **by_key)
    rows = [row for row in readings(0) if str(row[0]) < "s2"]
    seen: list[Any] = []

    def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
        seen.append(content(database, "gold"))
        return (copy_batches([arrow(rows).rename_columns(NAMES)], some.url, staging),)

    done = remove_rows(some, load)

    assert seen == [before]
    assert done.rows == sum(before.values())
    new = content(database, "gold")
    wanted = list({row[0]: row for row in rows}.values()) if key else rows
    assert done.restored == len(wanted) == sum(new.values())
    assert sorted(row[0] for row in new.elements()) == sorted(str(row[0]) for row in wanted)
    assert remove_rows(some, load) == done
    assert len(seen) == 1
    assert database.staging_tables() == set()

    restore_rows(removal(database, "gold", **by_key))

    assert content(database, "gold") == before


def test_a_table_that_is_not_there_has_nothing_to_remove_and_is_empty_after_the_undo(database: Database) -> None:
    assert remove_rows(removal(database)) == Removed("events")
    positioned(database, "events")

    restore_rows(removal(database), existed=False)

    assert content(database) == {}


def test_the_undo_of_a_step_that_was_never_done_changes_nothing(database: Database) -> None:
    positioned(database, "events")
    before = content(database)

    assert restore_rows(removal(database)).restored == 0
    assert content(database) == before


def test_names_that_have_to_be_quoted_and_columns_that_fill_themselves(database: Database) -> None:
    database.execute('CREATE SCHEMA "a schema"')
    table = '"a schema"."the ""table"""'
    database.execute(
        f'CREATE TABLE {table} (id int GENERATED ALWAYS AS IDENTITY, "offset" bigint, "partition" int, source text,'
        ' double bigint GENERATED ALWAYS AS ("offset" * 2) STORED)'
    )
    database.execute(
        f'INSERT INTO {table} ("offset", "partition", source) SELECT g, 0, \'t\' FROM generate_series(1, 9) g'
    )
    before = content(database, table)
    some = removal(database, 'a schema.the "table"', marks=(("t", 0, 4),))

    done = remove_rows(some)

    assert (done.rows, done.target) == (6, 'a schema.the "table"')
    assert offsets(database, table) == [1, 2, 3]
    restore_rows(some)
    assert content(database, table) == before


def test_a_table_that_others_refer_to_is_refused_with_nothing_changed(database: Database) -> None:
    positioned(database, "gold", key=True)
    database.execute("CREATE TABLE notes (sensor text REFERENCES gold ON DELETE CASCADE)")
    database.execute("INSERT INTO notes VALUES ('s1')")
    before = content(database, "gold")

    with pytest.raises(Refused) as refused:
        remove_rows(removal(database, "gold"))

    assert refused.value.code == "PostgresReferenced"
    assert content(database, "gold") == before
    assert database.rows(KEPT) == {}


@pytest.mark.parametrize("forward", [True, False], ids=["the server saw it", "the server did not"])
def test_a_lost_reply_to_the_commit_is_settled_by_the_ledger(database: Database, forward: bool) -> None:
    positioned(database, "events")
    with CuttingProxy(database.url) as proxy:
        proxy.cut_at_commit(forward=forward)
        some = replace(removal(database), url=proxy.secret)
        if forward:
            assert remove_rows(some).rows == 3000
        else:
            with pytest.raises(CannotTell):
                remove_rows(some)
            assert len(offsets(database)) == 3000
    assert remove_rows(removal(database)).rows == 3000
    assert database.rows("SELECT count(*) FROM surestart_ledger") == {(1,): 1}


PROGRAM = """
import sys
from surestart.sinks.postgres.once import Removal
from surestart.sinks.postgres.remedy import remove_rows, restore_rows
from surestart.facts.postgres.url import DatabaseUrl
secret = DatabaseUrl(variable="SURESTART_POSTGRES_URL").read()
some = Removal(secret, "events", sys.argv[2], "sensor-load", "load", marks=(("topic", 0, 1200),))
(remove_rows if sys.argv[1] == "remove" else restore_rows)(some)
"""


@pytest.mark.parametrize("point", ["remedy.database.before_commit", "remedy.database.after_commit"])
@pytest.mark.parametrize("verb", ["remove", "restore"])
def test_killed_on_either_side_of_the_commit_it_is_done_once(database: Database, verb: str, point: str) -> None:
    positioned(database, "events")
    before = content(database)
    some = removal(database, marks=(("topic", 0, 1200),))
    if verb == "restore":
        remove_rows(some)
    died = subprocess.run(
        [sys.executable, "-c", PROGRAM, verb, DIGEST],
        env={**os.environ, "SURESTART_FAILPOINT": point},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr

    if verb == "remove":
        assert len(offsets(database)) == (3000 if point.endswith("before_commit") else 1200)
        assert remove_rows(some).rows == 1800
        assert offsets(database) == list(range(1200))
    else:
        assert len(offsets(database)) == (1200 if point.endswith("before_commit") else 3000)
        restore_rows(some)
        assert content(database) == before
    assert database.one("SELECT count(*) FROM surestart_ledger") == (1 if verb == "remove" else 2)


def test_the_undo_whose_kept_rows_are_gone_changes_nothing(database: Database) -> None:
    positioned(database, "events")
    some = removal(database, marks=(("topic", 0, 1200),))
    done = remove_rows(some)
    drop_kept(some.url, done.kept_table, DIGEST)
    drop_kept(some.url, done.kept_table, DIGEST)

    assert not is_kept(some)
    with pytest.raises(Refused) as refused:
        restore_rows(some)
    assert refused.value.code == "UndoTooLate"
    assert offsets(database) == list(range(1200))


def test_only_a_table_of_that_remedy_is_ever_dropped(database: Database) -> None:
    positioned(database, "events")
    for label in ("public.events", "public.surestart_ledger", f"public.surestart_kept_{'e' * 16}_12345678"):
        with pytest.raises(SurestartError) as refused:
            drop_kept(database.secret, label, DIGEST)
        assert refused.value.code == "NotAKeptTable"
    assert len(offsets(database)) == 3000


def test_the_batches_of_the_retired_identity_stay_in_the_ledger(database: Database) -> None:
    database.execute("CREATE TABLE events (sensor text, part int, pos bigint, value double precision)")
    write(append(database, 0), readings(0))
    database.execute("CREATE TABLE gold (sensor text PRIMARY KEY, part int, pos bigint, value double precision)")
    write(upsert(database, 0), readings(0))
    streams = "SELECT query_id, batch_id, target FROM surestart_ledger WHERE mode <> 'remedy'"
    before = database.rows(streams)

    remove_rows(removal(database))
    remove_rows(removal(database, "gold", keys=("sensor",), order=("part", "pos")))

    assert database.rows(streams) == before
    assert (content(database), content(database, "gold")) == ({}, {})
