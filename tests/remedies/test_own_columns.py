"""Tables with columns, or constraints, of which their stage knows nothing: a remedy is exact, or is not planned."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.records import READING_COLUMNS
from surestart.environment import Environment, Table
from surestart.errors import Refused
from surestart.journal.commit_once import replace_once
from surestart.remedies.plan.chain import NEWEST, Link, Output
from surestart.remedies.plan.world import TableFacts, read_table_facts, refuse_unwritable, replaces_by_name
from surestart.remedies.planning.plan_replay import From
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.remedies.steps import clear
from surestart.sinks.delta.merge import DeltaMerge
from surestart.sources.delta import DeltaSource
from surestart.spark.delta_table import read_table
from surestart.stage import Stage
from tests.remedies.remedy import (
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    replay,
    request,
    reset,
    run_stages,
    undo,
)


@pytest.mark.long(instead="remedies/test_commit_once.py::test_the_mark_of_an_undo_passes_the_constraints_of_its_table")
def test_an_undo_puts_rows_back_into_tables_that_let_no_nulls_in(spark: Any, stood: Environment) -> None:
    for name in ("sensor_raw", "sensor_readings_deserialized"):
        spark.sql(f"ALTER TABLE {stood.table(name).sql} ADD CONSTRAINT placed CHECK (offset >= 0)").collect()
    before = contents(spark, stood)
    plan = reset(spark, stood, "raw-ingest")
    apply(spark, stood, plan)

    undo(spark, stood, plan)

    assert contents(spark, stood) == before
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


def test_a_table_that_numbers_its_rows_is_refused_by_the_plan(spark: Any, stood: Environment) -> None:
    numbered(spark, stood.table("sensor_gold"))
    for plan in (
        lambda: reset(spark, stood, "raw-ingest"),
        lambda: replay(spark, stood, "merge-gold", From(batch=0)),
        lambda: plan_retire(spark, stood, chain_of(stood), "merge-gold", True, request()),
    ):
        with pytest.raises(Refused, match="column row_id GENERATED") as refused:
            plan()
        assert refused.value.code == "TableNumbersRows"


def test_of_a_catalogs_table_it_is_known_that_it_numbers_rows(spark: Any) -> None:
    table = Table("numbered_rows", qualified="default.numbered_rows")
    numbered(spark, table)
    assert read_table_facts(spark, table).identity
    spark.sql(f"DROP TABLE {table.sql}")


def numbered(spark: Any, table: Table) -> None:
    if table.path:
        shutil.rmtree(Path(table.path))
    spark.sql(
        f"CREATE TABLE {table.sql} ({READING_COLUMNS}, row_id BIGINT GENERATED ALWAYS AS IDENTITY) "
        "USING delta PARTITIONED BY (reading_date)"
    ).collect()


def doubled(rows: Any) -> Any:
    return rows.withColumn("v", rows.v * 2)


def test_a_former_reading_comes_back_as_the_stage_makes_it_and_with_what_the_table_computes(
    spark: Any, tmp_path: Path
) -> None:
    given, gold = (Table(name, path=str(tmp_path / name)) for name in ("given", "gold"))
    columns = "k STRING, v INT, source STRING, partition INT, offset BIGINT"
    spark.sql(f"CREATE TABLE {given.sql} ({columns}) USING delta")
    spark.sql(f"CREATE TABLE {gold.sql} ({columns}, much BOOLEAN GENERATED ALWAYS AS (v > 5)) USING delta")
    spark.sql(f"INSERT INTO {given.sql} VALUES ('a', 1, 'f', 0, 0), ('b', 3, 'f', 0, 1), ('a', 2, 'f', 0, 5)")
    spark.sql(
        f"INSERT INTO {gold.sql} (k, v, source, partition, offset) VALUES ('a', 4, 'f', 0, 5), ('b', 6, 'f', 0, 1)"
    )
    output = Output(gold, NEWEST, ("k",), ("offset",))
    stage = Stage("merge", DeltaSource("given"), doubled, DeltaMerge("gold", columns, ("k",), ("offset",)))
    link = Link(stage, "q", "c", (output,), input=given)
    kept = spark.createDataFrame([("f", 0, 5)], "source STRING, partition INT, below BIGINT")
    run = type("Run", (), {"spark": spark})

    change = clear._put_former_rows_back(run, link, output, read_table(spark, gold), kept)  # type: ignore[arg-type]
    replace_once(change.rows, gold, "d" * 64, "clear:gold", change.where)

    assert {tuple(row) for row in read_table(spark, gold).collect()} == {
        ("a", 2, "f", 0, 0, False),
        ("b", 6, "f", 0, 1, True),
    }


def test_a_column_that_nobody_could_fill_is_refused_by_the_plan(spark: Any, stood: Environment) -> None:
    spark.sql(f"ALTER TABLE {stood.table('sensor_gold').sql} ADD COLUMN remark STRING").collect()
    with pytest.raises(Refused, match="remark") as refused:
        replay(spark, stood, "merge-gold", From(batch=1))
    assert refused.value.code == "ColumnsOfOthers"
    assert reset(spark, stood, "merge-gold").steps


def test_where_no_row_can_be_overwritten_by_name_no_plan_is_made() -> None:
    asked = [("3.5.7", False), ("3.5.0", True), ("4.0.5", False), ("4.2.0", False)]
    assert [replaces_by_name(version, on_databricks=there) for version, there in asked] == [False, True, True, True]
    table = TableFacts(Table("t", qualified="c.s.t"), version=3, replaceable=False)
    facts = type("LinkFacts", (), {"tables": {"t": table}})
    with pytest.raises(Refused) as refused:
        refuse_unwritable([facts])  # type: ignore[list-item]
    assert refused.value.code == "TableNotReplaceable"
