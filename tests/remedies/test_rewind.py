"""A rewind takes a stage and those below it back to a batch, with checkpoint and table, and can be undone."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.runs.judge_start import judge_stage, read_history_or_tell
from surestart.words.finding import Verdict
from surestart.words.next_commands import Commands
from tests.remedies.remedy import (
    SETTINGS,
    apply,
    assert_exact,
    contents,
    land_more,
    replay,
    rewind,
    run_stages,
    undo,
)

STAGES = ("raw-ingest", "deserialize", "merge-gold")
CASES = [pytest.param(stage, marks=() if stage == "raw-ingest" else pytest.mark.chaos) for stage in STAGES]


def verdicts(spark: Any, environment: Environment) -> dict[str, tuple[Verdict, list[str]]]:
    found = {}
    for stage in build_stages(SETTINGS):
        commands = Commands(stage.name, environment.name)
        runs = read_history_or_tell(environment, spark, commands)
        judged = judge_stage(environment, stage, runs, commands, session=spark)
        found[stage.name] = (judged.verdict, [one.code for one in judged.findings])
    return found


def assert_safe(spark: Any, environment: Environment) -> None:
    found = verdicts(spark, environment)
    assert {name: codes for name, (verdict, codes) in found.items() if verdict is not Verdict.SAFE} == {}


def last_batch(environment: Environment, stage: str) -> int | None:
    return read_checkpoint(environment.checkpoint(stage)).latest_committed


@pytest.mark.long(
    instead="remedies/test_rewind_values.py"
    "::test_what_a_rewind_took_back_does_not_stand_and_stands_again_once_it_is_undone"
)
@pytest.mark.parametrize("stage", CASES)
def test_a_stage_goes_back_to_its_first_batch_and_every_row_is_there_once(
    spark: Any, stood: Environment, stage: str
) -> None:
    before = contents(spark, stood)
    plan = rewind(spark, stood, stage, 0)
    print("\n".join([*plan.statements, *(step.what for step in plan.steps)]))
    apply(spark, stood, plan)
    assert last_batch(stood, stage) == 0
    assert_safe(spark, stood)
    run_stages(spark, stood)
    assert_exact(stood)
    undo(spark, stood, plan)
    assert contents(spark, stood) == before
    assert_safe(spark, stood)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_a_stage_below_goes_back_with_it_and_passes_over_the_restore(spark: Any, stood: Environment) -> None:
    """It has batches that read nothing of what is taken back; the stage itself is then rewound once more."""
    land_more(stood)
    run_stages(spark, stood)
    before = contents(spark, stood)
    plan = rewind(spark, stood, "raw-ingest", 2)
    assert {step.id for step in plan.steps} >= {"rewind:raw-ingest", "rewind:deserialize", "rewind:merge-gold"}
    apply(spark, stood, plan)
    assert_safe(spark, stood)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)
    assert_safe(spark, stood)
    again = rewind(spark, stood, "raw-ingest", 1)
    apply(spark, stood, again)
    assert_safe(spark, stood)
    undo(spark, stood, again)
    undo(spark, stood, plan)
    assert contents(spark, stood) == before
    assert_safe(spark, stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
@pytest.mark.parametrize("stage", ["merge-gold", "deserialize"])
def test_a_stage_below_that_would_keep_rows_of_what_is_taken_back_is_refused(
    spark: Any, stood: Environment, stage: str
) -> None:
    """Its checkpoint was lost, and a replay has kept what its output holds; what is named instead goes by position."""
    shutil.rmtree(stood.checkpoint(stage))
    for replayed in (False, True):
        if replayed:
            apply(spark, stood, replay(spark, stood, stage, ReplayFrom(output=True)))
            run_stages(spark, stood)
        with pytest.raises(Refused) as said:
            rewind(spark, stood, "raw-ingest", 0)
        assert said.value.code == "ReaderCannotGoBack"
        assert "plan replay raw-ingest --from-batch 1" in str(said.value.next)
    apply(spark, stood, replay(spark, stood, "raw-ingest", ReplayFrom(batch=1)))
    run_stages(spark, stood)
    assert_exact(stood)
