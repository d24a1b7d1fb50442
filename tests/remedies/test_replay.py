"""A replay removes exactly the rows from some position on and brings exactly those again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.remedies.plan_replay import From
from surestart.runner import run_stage
from tests.remedies.remedy import SETTINGS, apply, assert_exact, contents, land_more, replay, reset, run_stages, undo


def removed(plan: Any) -> dict[str, int]:
    return {effect.target: effect.rows for effect in plan.effects if effect.action == "remove rows"}


@pytest.mark.chaos
def test_from_a_batch_the_later_rows_go_and_come_again_and_the_undo_puts_all_back(
    spark: Any, stood: Environment
) -> None:
    before = contents(spark, stood)
    plan = replay(spark, stood, "raw-ingest", From(batch=1))
    assert removed(plan)["sensor_raw"] == 40
    apply(spark, stood, plan)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)
    undo(spark, stood, plan)
    assert contents(spark, stood) == before
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_a_lost_checkpoint_goes_on_where_its_output_ends(spark: Any, stood: Environment) -> None:
    shutil.rmtree(stood.checkpoint("raw-ingest"))
    plan = replay(spark, stood, "raw-ingest", From())
    assert set(removed(plan).values()) == {0}
    apply(spark, stood, plan)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_a_stage_whose_last_batch_reached_one_table_only_begins_at_its_first_missing_row(
    spark: Any, stood: Environment
) -> None:
    good = stood.table("sensor_readings_deserialized")
    spark.sql(f"DELETE FROM {good.sql} WHERE offset = 7")
    shutil.rmtree(stood.checkpoint("deserialize"))
    plan = replay(spark, stood, "deserialize", From())
    # Of each of the six files, the rows from the missing one on.
    assert removed(plan)["sensor_readings_deserialized"] + removed(plan)["sensor_quarantine"] == 6 * 2
    apply(spark, stood, plan)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_named_positions_are_read_again_and_all_others_stay(spark: Any, stood: Environment) -> None:
    file = sorted(Path(stood.landing).iterdir())[2]
    plan = replay(spark, stood, "raw-ingest", From(positions={f"file:{file}": {"0": 4}}))
    assert removed(plan)["sensor_raw"] == 6
    apply(spark, stood, plan)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_rows_that_the_source_has_no_more_are_not_removed_unless_their_number_is_named(
    spark: Any, stood: Environment
) -> None:
    sorted(Path(stood.landing).iterdir())[0].unlink()
    with pytest.raises(Refused, match="10 rows would be lost for ever"):
        reset(spark, stood, "raw-ingest")
    with pytest.raises(Refused, match="--accept-loss 9 was given, 10 rows would be lost"):
        reset(spark, stood, "raw-ingest", accept_loss=9)
    assert reset(spark, stood, "raw-ingest", accept_loss=10).loss == 10
    kept = reset(spark, stood, "raw-ingest", keep_lost=True)
    assert (kept.loss, removed(kept)["sensor_raw"]) == (0, 50)
    before = contents(spark, stood)
    apply(spark, stood, kept)
    run_stages(spark, stood)
    after = contents(spark, stood)
    tables = [name for name in before if name.startswith("sensor_")]
    assert {name: after[name] for name in tables} == {name: before[name] for name in tables}


def test_rows_that_the_source_has_no_more_are_kept_and_the_others_come_again(spark: Any, stood: Environment) -> None:
    lost, before = sorted(Path(stood.landing).iterdir())[0], contents(spark, stood)["sensor_raw"]
    lost.unlink()
    plan = reset(spark, stood, "raw-ingest", keep_lost=True)

    apply(spark, stood, plan)

    kept = contents(spark, stood)["sensor_raw"]
    assert sum(kept.values()) == 10
    assert all(repr(lost.name).strip("'") in row for row in kept)
    run_stage(spark, stood, build_stages(SETTINGS)[0])
    assert contents(spark, stood)["sensor_raw"] == before


@pytest.mark.chaos
def test_a_file_that_goes_after_the_plan_stops_the_apply_before_its_rows_go(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "raw-ingest")
    raw = contents(spark, stood)["sensor_raw"]
    sorted(Path(stood.landing).iterdir())[0].unlink()
    with pytest.raises(Exception, match="10 rows would be lost for ever, 0 when this was planned"):
        apply(spark, stood, plan)
    assert contents(spark, stood)["sensor_raw"] == raw
    undo(spark, stood, plan)


def test_a_replay_without_a_beginning_is_refused_while_the_checkpoint_stands(spark: Any, stood: Environment) -> None:
    with pytest.raises(UsageError, match="from where to replay"):
        replay(spark, stood, "raw-ingest", From())
    with pytest.raises(UsageError, match="batch 99 is not in"):
        replay(spark, stood, "raw-ingest", From(batch=99))


def test_planning_changes_nothing(spark: Any, stood: Environment) -> None:
    before = sorted((str(path), path.stat().st_mtime_ns) for path in Path(stood.root).rglob("*"))
    reset(spark, stood, "raw-ingest")
    replay(spark, stood, "deserialize", From(batch=1))
    assert sorted((str(path), path.stat().st_mtime_ns) for path in Path(stood.root).rglob("*")) == before
