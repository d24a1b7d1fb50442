"""A remedy's own commits: made once, with nothing but the options of a write, and the table stays what it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment, Table
from surestart.errors import CannotTell, Refused
from surestart.facts.delta import Commit, read_delta_log, read_history
from surestart.facts.delta.commit_notes import find_undos, note_of, read_remedy_note
from surestart.journal import commit_once
from surestart.journal.commit_once import append_step_once, find_commit, find_undo, mark_once, replace_once
from surestart.remedies.basis.other_writers import _strange
from surestart.remedies.basis.rows_that_stay import removed_rows
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.remedies.steps import clear, restore_table
from surestart.sinks.delta.transaction import no_rows, save_with_pair
from tests.remedies.remedy import apply, chain_of, contents, replay, request, reset, undo

DIGEST = "d" * 64
# Of each partition a row that stays, one that goes, and what no mark can speak of.
ROWS = [
    *[("it's `a`\\", 0, offset) for offset in range(10)],
    *[("b", partition, offset) for partition in range(4) for offset in range(5)],
    ("b", 0, None),
    ("b", None, 3),
    (None, 0, 3),
]
KEPT = [("it's `a`\\", 0, 4), ("b", 0, 5), ("b", 1, 2), ("b", 2, 5), ("c", 0, 9)]


def is_kept(source: str | None, partition: int | None, offset: int | None) -> bool:
    below = {(name, part): mark for name, part, mark in KEPT}.get(
        (source or "", -1 if partition is None else partition)
    )
    return below is not None and offset is not None and offset < below


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Table:
    """Partitioned, with names of its own for columns, deletion vectors, a constraint and a computed column."""
    found = Table("t", path=str(tmp_path / "t"))
    spark.sql(
        f"CREATE TABLE {found.sql} (source STRING COMMENT 'where', partition INT, offset BIGINT, n BIGINT, "
        "day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), at TIMESTAMP) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"ALTER TABLE {found.sql} ADD CONSTRAINT counted CHECK (n >= 0)")
    rows = spark.createDataFrame(ROWS, "source STRING, partition INT, offset BIGINT")
    at = "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, CAST(coalesce(offset, 0) % 3 AS INT)) AS at"
    rows.selectExpr("*", "1L AS n", at).write.format("delta").mode("append").save(found.path)
    return found


def held(spark: Any, table: Table) -> Counter[Any]:
    rows = spark.read.format("delta").load(table.path).select("source", "partition", "offset").collect()
    return Counter(tuple(row) for row in rows)


LONG = pytest.mark.long(instead="test_rows_that_do_not_stay_go_once_and_the_table_stays_what_it_is")


@pytest.mark.parametrize("named_one_by_one", [True, pytest.param(False, marks=LONG)])
def test_rows_that_do_not_stay_go_once_and_the_table_stays_what_it_is(
    spark: Any, table: Table, named_one_by_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not named_one_by_one:
        monkeypatch.setattr(clear, "_LITERALS", 1)
    before, was = read_delta_log(table.path), spark.table(table.sql).schema.json()
    marks = spark.createDataFrame(KEPT, "source STRING, partition INT, below BIGINT")
    rows = spark.read.format("delta").option("versionAsOf", before.latest_version).load(table.path)

    change = clear._delete_above(type("Run", (), {"spark": spark}), table, rows, marks)  # type: ignore[arg-type]
    assert (change.where == commit_once.ALL_ROWS) is not named_one_by_one
    version = replace_once(change.rows, table, DIGEST, "clear:t", change.where)

    assert held(spark, table) == Counter(row for row in ROWS if is_kept(*row))
    assert removed_rows(spark.table(table.sql), marks).count() == 0
    after = read_delta_log(table.path)
    assert (after.table_id, after.properties) == (before.table_id, before.properties)
    assert spark.table(table.sql).schema.json() == was
    assert spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0].partitionColumns == ["day"]

    append_step_once(no_rows(spark, table), table, DIGEST, "later")
    # What a process does that looked before the commit and wakes up behind it: the pair alone holds it off.
    writer = change.rows.write.format("delta").mode("overwrite").option("replaceWhere", "true")
    save_with_pair(writer, table, f"remedy-{DIGEST[:16]}:clear:t", 0, note_of(DIGEST, "clear:t"))
    assert replace_once(no_rows(spark, table), table, DIGEST, "clear:t") == version
    assert read_delta_log(table.path).latest_version == version + 1


@pytest.mark.long(instead="test_an_undo_that_died_between_its_mark_and_its_restore_goes_on")
def test_a_mark_changes_no_row_and_names_the_restore_behind_it(spark: Any, table: Table) -> None:
    before = held(spark, table)
    version = read_delta_log(table.path).latest_version
    assert mark_once(spark, table, DIGEST, "begin:x") == version + 1
    replace_once(no_rows(spark, table), table, DIGEST, "clear:t")
    assert held(spark, table) == Counter()
    mark_once(spark, table, DIGEST, "marker:clear:t", restores=version)
    assert find_undo(spark, table, DIGEST, "clear:t") is None
    spark.sql(f"RESTORE TABLE {table.sql} TO VERSION AS OF {version}").collect()
    assert find_undo(spark, table, DIGEST, "clear:t") == version + 4
    assert held(spark, table) == before
    files = [one.changes for one in read_history(table.path, since=version + 1, with_files=True)]
    assert [(one.added > 0, one.removed > 0) for one in files if one] == [
        (False, False),
        (False, True),
        (False, False),
        (True, False),
    ]


def test_a_note_that_is_not_there_never_reads_as_done(
    spark: Any, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_note(writer: Any, table: Table, app_id: str, version: int, note: str) -> None:
        save_with_pair(writer, table, app_id, version, "")

    monkeypatch.setattr(commit_once, "save_with_pair", without_note)
    with pytest.raises(CannotTell) as unseen:
        mark_once(spark, table, DIGEST, "begin:x")
    assert unseen.value.code == "CommitNotSeen"
    assert find_commit(spark, table, DIGEST, "begin:x") is None


@pytest.mark.parametrize("text", ["", "{}", '{"surestart_remedy_step": 1}', '{"surestart_remedy_step": {"digest": 1}}'])
def test_a_note_of_somebody_else_is_none_of_a_remedy(text: str) -> None:
    assert read_remedy_note(text) is None


def test_what_others_wrote_is_named_until_a_remedy_has_left_nothing_of_it() -> None:
    others = Commit(1, 0, "WRITE", {"mode": "Append"})
    whole = {"mode": "Overwrite", "predicate": "true"}

    def after(step: str, rows: str, **parameters: str) -> int:
        note = note_of(DIGEST, step)
        remedy = Commit(2, 0, "WRITE", {**whole, **parameters}, {"numFiles": "1", "numOutputRows": rows}, note)
        return len(_strange([others, remedy], "sensor-x"))

    assert after("swap:t", "9") == after("clear:t", "0") == 0
    assert after("clear:t", "9") == after("clear:t", "0", predicate="offset > 3") == 1


def test_a_table_whose_rows_may_not_be_removed_is_refused_by_the_plan(spark: Any, stood: Environment) -> None:
    gold = stood.table("sensor_gold").sql
    spark.sql(f"ALTER TABLE {gold} SET TBLPROPERTIES ('delta.appendOnly' = 'true')").collect()
    for plan in (
        lambda: reset(spark, stood, "raw-ingest"),
        lambda: replay(spark, stood, "merge-gold", ReplayFrom(batch=0)),
        lambda: plan_retire(spark, stood, chain_of(stood), "merge-gold", True, request()),
    ):
        with pytest.raises(Refused) as refused:
            plan()
        assert refused.value.code == "TableAppendOnly"


class Died(BaseException):
    pass


def die_behind_the_mark(point: str) -> None:
    if point == "remedy.restore.marked":
        raise Died


def test_an_undo_that_died_between_its_mark_and_its_restore_goes_on(
    spark: Any, stood: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, gold = contents(spark, stood), stood.table("sensor_gold").path
    plan = replay(spark, stood, "merge-gold", ReplayFrom(batch=0))
    apply(spark, stood, plan)
    with monkeypatch.context() as patch:
        patch.setattr(restore_table, "fail_point", die_behind_the_mark)
        with pytest.raises(Died):
            undo(spark, stood, plan)
    assert find_undos(read_history(gold)) == {}

    undo(spark, stood, plan)

    assert contents(spark, stood) == before
    history = read_history(gold)
    assert [one.operation for one in history].count("RESTORE") == len(find_undos(history)) == 1
    assert sum("marker:clear:sensor_gold" in one.user_metadata for one in history) == 1
