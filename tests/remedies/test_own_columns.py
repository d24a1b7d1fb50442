"""Tables with columns, or constraints, of which their stage knows nothing: a remedy is exact, or is not planned."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.records import READING_COLUMNS
from surestart.environment import Environment, Table
from surestart.errors import Refused
from surestart.remedies.basis.preconditions import TableFacts, read_table_facts, refuse_unwritable, replaces_by_name
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.remedies.planning.plan_retire import plan_retire
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


@pytest.mark.chaos
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
        lambda: replay(spark, stood, "merge-gold", ReplayFrom(batch=0)),
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


def test_a_column_that_nobody_could_fill_is_refused_by_the_plan(spark: Any, stood: Environment) -> None:
    spark.sql(f"ALTER TABLE {stood.table('sensor_gold').sql} ADD COLUMN remark STRING").collect()
    with pytest.raises(Refused, match="remark") as refused:
        replay(spark, stood, "merge-gold", ReplayFrom(batch=1))
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
