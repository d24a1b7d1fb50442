"""Tables with columns, or constraints, of which their stage knows nothing: a remedy is exact, or is not planned."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.records import READING_COLUMNS
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, Table
from surestart.errors import Refused
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.plan.chain import read_chain
from surestart.remedies.plan.world import read_table_facts
from surestart.remedies.planning.plan_replay import From, plan_replay
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.runs.runner import run_stage
from tests.remedies.remedy import (
    SETTINGS,
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


def twice_as_warm(readings: Any) -> Any:
    return readings.withColumn("temperature", readings.temperature * 2)


def test_a_former_reading_comes_back_as_the_stage_makes_it_and_with_what_the_table_computes(
    spark: Any, stood: Environment
) -> None:
    gold = stood.table("sensor_gold")
    for place in (gold.path, stood.checkpoint("merge-gold")):
        shutil.rmtree(Path(place))
    computed = "warm BOOLEAN GENERATED ALWAYS AS (temperature > 20)"
    spark.sql(
        f"CREATE TABLE {gold.sql} ({READING_COLUMNS}, {computed}) USING delta PARTITIONED BY (reading_date)"
    ).collect()
    stages = [*build_stages({**SETTINGS, "max_table_files_per_trigger": "1"})]
    stages[2] = replace(stages[2], transform=twice_as_warm)
    run_stage(spark, stood, stages[2], accept=["CHECKPOINT_DELETED"])
    chain = read_chain(stood, stages)
    plan = plan_replay(spark, stood, chain, "merge-gold", From(batch=1), request())

    apply_plan(spark, stood, chain, plan, lambda plan: plan.target)

    good = spark.read.format("delta").load(stood.table("sensor_readings_deserialized").path)
    wanted = good.selectExpr("source", "offset", "temperature * 2 AS doubled")
    rows = spark.read.format("delta").load(gold.path).join(wanted, ["source", "offset"])
    found = rows.selectExpr("temperature <=> doubled AS same", "warm <=> (temperature > 20) AS computed").collect()
    assert found
    assert all(row.same and row.computed for row in found)
    assert plan.effects[0].rows


def test_a_column_that_nobody_could_fill_is_refused_by_the_plan(spark: Any, stood: Environment) -> None:
    spark.sql(f"ALTER TABLE {stood.table('sensor_gold').sql} ADD COLUMN remark STRING").collect()
    with pytest.raises(Refused, match="remark") as refused:
        replay(spark, stood, "merge-gold", From(batch=1))
    assert refused.value.code == "ColumnsOfOthers"
    assert reset(spark, stood, "merge-gold").steps
