"""A plan acts once, on the world it was made for, for whoever names its target; and never under a running stage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused, StoppedHalfway, SurestartError, UsageError
from surestart.journal.journal import BEGUN, JournalEntry, append_entry, now
from surestart.remedies.apply.apply import ALREADY, apply_plan
from surestart.remedies.basis.plan import parse_plan
from surestart.runs.runner import run_stage
from surestart.runs.start_gate import open_gate
from tests.remedies.remedy import apply, assert_exact, chain_of, contents, land_more, reset, run_stages, undo


@pytest.mark.chaos
def test_the_same_digest_acts_once(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "merge-gold", run=True)
    done = apply(spark, stood, plan)
    assert done.certificate is not None
    assert done.certificate["exact"]
    after = contents(spark, stood)
    assert apply(spark, stood, plan).outcome == ALREADY
    assert contents(spark, stood) == after
    undo(spark, stood, plan)
    with pytest.raises(Refused, match="was applied and undone"):
        apply(spark, stood, plan)
    run_stages(spark, stood)
    assert_exact(stood)


def test_what_moved_since_the_plan_is_named_and_nothing_changed(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "raw-ingest")
    land_more(stood)
    run_stages(spark, stood)
    before = contents(spark, stood)
    with pytest.raises(Refused, match="the plan is stale: raw-ingest: last planned batch was 2, is 3"):
        apply(spark, stood, plan)
    assert contents(spark, stood) == before


def test_a_live_stage_is_not_touched(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "deserialize")
    run = open_gate(spark, stood, build_stages({})[2])
    try:
        with pytest.raises(Refused, match="sensor-merge-gold"):
            apply(spark, stood, plan)
    finally:
        run.ended("stopped", "test")
    before = contents(spark, stood)
    assert before["sensor_readings_deserialized"]


def test_a_stage_in_the_middle_of_a_remedy_does_not_start(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "deserialize")
    entry = JournalEntry(
        plan.digest,
        0,
        BEGUN,
        next=plan.steps[0].id,
        remedy="reset",
        stage="deserialize",
        queries=plan.queries,
        at=now(),
    )
    append_entry(spark, stood, entry, plan.as_json())
    before = contents(spark, stood)
    for stage in build_stages({})[1:]:
        with pytest.raises(Refused, match=f"surestart apply {plan.digest[:12]}"):
            run_stage(spark, stood, stage)
    with pytest.raises(Refused, match="is in the middle of a reset"):
        apply(spark, stood, reset(spark, stood, "raw-ingest"))
    assert contents(spark, stood) == before
    undo(spark, stood, plan)
    assert contents(spark, stood) == before


def test_an_edited_plan_and_one_of_another_place_are_refused(spark: Any, stood: Environment, tmp_path: Any) -> None:
    plan = reset(spark, stood, "merge-gold")
    body = json.loads(plan.as_json())
    body["steps"][0]["arguments"]["table"] = "sensor_raw"
    with pytest.raises(Refused, match="was edited"):
        parse_plan(json.dumps(body), "plan.json")
    elsewhere = environment_from_settings("local", "sensor", {"root": str(tmp_path / "other")}, environ={})
    with pytest.raises(Refused, match="Its paths and tables are another environment's"):
        apply(spark, elsewhere, plan)
    with pytest.raises(UsageError, match="is not 'local/sensor-merge-gold'"):
        apply_plan(spark, stood, chain_of(stood), plan, lambda plan: "local/sensor-raw-ingest")
    other = {**plan.preconditions["merge-gold"], "query_id": "x"}
    stranger = replace(plan, preconditions={**plan.preconditions, "merge-gold": other})
    with pytest.raises(SurestartError, match="the plan is stale"):
        apply(spark, stood, stranger)


@pytest.mark.long(instead="test_a_stage_in_the_middle_of_a_remedy_does_not_start")
def test_a_file_system_that_fails_leaves_the_plan_half_way_with_a_next_command(spark: Any, stood: Environment) -> None:
    before = contents(spark, stood)
    plan = reset(spark, stood, "merge-gold")
    # A file where retired checkpoints are to lie.
    blocking = Path(stood.checkpoint_root) / "_retired"
    blocking.write_text("")
    with pytest.raises(StoppedHalfway, match="move the checkpoint of sensor-merge-gold aside") as stopped:
        apply(spark, stood, plan)
    assert f"surestart apply {plan.digest[:12]} -e local --root {stood.root}" in str(stopped.value.next)
    with pytest.raises(StoppedHalfway) as stopped:
        undo(spark, stood, plan)
    assert str(stopped.value.next).startswith(f"surestart undo {plan.digest[:12]}")
    blocking.unlink()
    undo(spark, stood, plan)
    assert contents(spark, stood) == before
