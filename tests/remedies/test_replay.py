"""A replay removes exactly the rows from some position on and brings exactly those again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused, StoppedHalfway, UsageError
from surestart.journal.journal import read_journals
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.basis.plan import Effect, Plan
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.runs.runner import run_stage
from surestart.runs.stage_failures import StageFailed
from tests.foundation.test_crashes import empty_newest_commit, forget_last_commit
from tests.remedies.remedy import (
    SETTINGS,
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    replay,
    reset,
    run_stages,
    undo,
)


def removed(plan: Any) -> dict[str, int]:
    return {effect.target: effect.rows for effect in plan.effects if effect.action == "remove rows"}


@pytest.mark.chaos
def test_from_a_batch_the_later_rows_go_and_come_again_and_the_undo_puts_all_back(
    spark: Any, stood: Environment
) -> None:
    before = contents(spark, stood)
    plan = replay(spark, stood, "raw-ingest", ReplayFrom(batch=1))
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
def test_a_replay_brings_the_rows_of_a_batch_that_left_its_mark_alone(spark: Any, stood: Environment) -> None:
    """What `BatchShort` names as the next step."""
    deserialize = build_stages(SETTINGS)[1]
    last = forget_last_commit(stood, "deserialize")
    empty_newest_commit(Path(stood.table("sensor_readings_deserialized").path))
    with pytest.raises(StageFailed, match=f"plan replay deserialize --from-batch {last}"):
        run_stage(spark, stood, deserialize)
    apply(spark, stood, replay(spark, stood, "deserialize", ReplayFrom(batch=last)))
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_a_lost_checkpoint_goes_on_where_its_output_ends(spark: Any, stood: Environment) -> None:
    shutil.rmtree(stood.checkpoint("raw-ingest"))
    plan = replay(spark, stood, "raw-ingest", ReplayFrom())
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
    plan = replay(spark, stood, "deserialize", ReplayFrom())
    # Of each of the six files, the rows from the missing one on.
    assert removed(plan)["sensor_readings_deserialized"] + removed(plan)["sensor_quarantine"] == 6 * 2
    apply(spark, stood, plan)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_named_positions_are_read_again_and_all_others_stay(spark: Any, stood: Environment) -> None:
    file = sorted(Path(stood.landing).iterdir())[2]
    plan = replay(spark, stood, "raw-ingest", ReplayFrom(positions={f"file:{file}": {"0": 4}}))
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


@pytest.mark.long(instead="remedies/test_nothing_lost.py::test_rows_without_a_position_are_named_and_cannot_be_kept")
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
def test_a_file_that_goes_after_the_look_stops_the_apply_before_its_rows_go(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "raw-ingest")
    raw = contents(spark, stood)["sensor_raw"]

    def confirm(plan: Plan) -> str:
        sorted(Path(stood.landing).iterdir())[0].unlink()
        return plan.target

    with pytest.raises(StoppedHalfway, match="10 rows would be lost for ever, 0 when this was planned"):
        apply_plan(spark, stood, chain_of(stood), plan, confirm)
    assert contents(spark, stood)["sensor_raw"] == raw
    undo(spark, stood, plan)


@pytest.mark.long(instead="remedies/test_apply.py::test_what_moved_since_the_plan_is_named_and_nothing_changed")
def test_a_file_that_goes_after_the_plan_is_noticed_before_anything_is_begun(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "raw-ingest")
    before = contents(spark, stood)
    sorted(Path(stood.landing).iterdir())[0].unlink()
    with pytest.raises(Refused, match="10 rows would be lost for ever, 0 when this was planned") as refused:
        apply(spark, stood, plan)
    assert str(refused.value.next).startswith("surestart plan reset raw-ingest")
    assert (read_journals(stood), contents(spark, stood)) == ((), before)


@pytest.mark.chaos
def test_an_undo_counts_rows_of_a_former_gap_that_are_gone_from_the_source(spark: Any, stood: Environment) -> None:
    raw = stood.table("sensor_raw")
    file = sorted(Path(stood.landing).iterdir())[0]
    spark.sql(f"DELETE FROM {raw.sql} WHERE source = 'file:{file}' AND offset IN (3, 4)")
    plan = reset(spark, stood, "raw-ingest")
    apply(spark, stood, plan)
    run_stages(spark, stood)
    file.unlink()
    before = contents(spark, stood)
    # They lie below the highest offset that the former table had of that file.
    with pytest.raises(Refused, match="2 rows that arrived since would be lost for ever"):
        undo(spark, stood, plan)
    assert contents(spark, stood) == before


def test_a_replay_without_a_beginning_is_refused_while_the_checkpoint_stands(spark: Any, stood: Environment) -> None:
    with pytest.raises(UsageError, match="from where to replay"):
        replay(spark, stood, "raw-ingest", ReplayFrom())
    with pytest.raises(UsageError, match="batch 99 is not in"):
        replay(spark, stood, "raw-ingest", ReplayFrom(batch=99))


@pytest.mark.long(
    instead="kafka/test_remedies_kafka.py::test_a_lost_checkpoint_goes_on_at_the_offsets_that_the_table_holds"
)
def test_a_stage_that_goes_on_behind_its_output_says_where_and_what_it_leaves_out(
    spark: Any, stood: Environment
) -> None:
    files = [f"file:{path}" for path in sorted(Path(stood.landing).iterdir())]
    plan = replay(spark, stood, "raw-ingest", ReplayFrom(output=True))
    begins, missing = plan.statements[1:3]
    assert f"{files[0]}:0 at 10, {files[1]}:0 at 10" in begins
    assert missing == "0 rows of the output are at or above it, and none below it is missing."
    spark.sql(f"DELETE FROM {stood.table('sensor_raw').sql} WHERE source = '{files[0]}' AND offset IN (0, 4, 9)")
    plan = replay(spark, stood, "raw-ingest", ReplayFrom(output=True))
    begins, missing = plan.statements[1:3]
    assert f"{files[0]}:0 at 9" in begins
    # The first and the fifth line; the last one is read again.
    assert "2 offsets below, of 1 partitions or files, are not in it" in missing
    assert "surestart plan backfill raw-ingest -e local --root" in missing


@pytest.mark.long(instead="test_planning_changes_nothing")
def test_a_plan_says_which_part_it_removes_and_in_how_many_batches_it_comes_again(
    spark: Any, stood: Environment
) -> None:
    def said(plan: Plan) -> tuple[Effect, str]:
        effect = next(one for one in plan.effects if one.target == "sensor_raw")
        return effect, next(line for line in plan.statements if line.startswith("sensor-raw-ingest: about"))

    whole, all_of_it = said(reset(spark, stood, "raw-ingest"))
    part, a_third = said(replay(spark, stood, "raw-ingest", ReplayFrom(batch=2)))
    assert (whole.rows, part.rows) == (60, 20)
    assert 0 < (part.files or 0) < (whole.files or 0)
    assert 0 < (part.size or 0) < (whole.size or 0)
    assert " for 60 rows in 3 batches" in all_of_it
    assert " for 20 rows in 1 batch," in a_third
    moved = next(step.what for step in reset(spark, stood, "raw-ingest").steps if step.id == "retire:raw-ingest")
    assert "aside: 3 batches, " in moved


def test_a_replay_that_would_read_nothing_again_is_refused(spark: Any, stood: Environment) -> None:
    file = f"file:{sorted(Path(stood.landing).iterdir())[2]}"
    late = int(datetime.now(UTC).timestamp() * 1000) + 60_000
    for begin, said in (
        (ReplayFrom(positions={"file:/elsewhere.jsonl": {"0": 4}}), "has no row of file:/elsewhere.jsonl partition 0"),
        (ReplayFrom(positions={file: {"0": 4, "1": 0}}), "partition 1"),
        (ReplayFrom(positions={file: {"0": 10}}), "ends before each of the offsets"),
        (ReplayFrom(time=late), "no batch of sensor-raw-ingest was written at"),
    ):
        with pytest.raises(UsageError, match=said):
            replay(spark, stood, "raw-ingest", begin)
    with pytest.raises(UsageError, match="no batch of sensor-merge-gold was written at"):
        replay(spark, stood, "merge-gold", ReplayFrom(time=late))


def test_planning_changes_nothing(spark: Any, stood: Environment) -> None:
    before = sorted((str(path), path.stat().st_mtime_ns) for path in Path(stood.root).rglob("*"))
    reset(spark, stood, "raw-ingest")
    replay(spark, stood, "deserialize", ReplayFrom(batch=1))
    assert sorted((str(path), path.stat().st_mtime_ns) for path in Path(stood.root).rglob("*")) == before
