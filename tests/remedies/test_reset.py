"""A reset removes what a stage and those below it wrote, begins them anew, and can be undone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.remedies.apply.apply import ALREADY
from tests.remedies.remedy import apply, assert_exact, contents, land_more, reset, run_stages, undo

STAGES = ("raw-ingest", "deserialize", "merge-gold")


@pytest.mark.chaos
@pytest.mark.parametrize("stage", STAGES)
def test_a_reset_stage_brings_every_row_again_once(spark: Any, stood: Environment, stage: str) -> None:
    before = contents(spark, stood)
    plan = reset(spark, stood, stage)
    apply(spark, stood, plan)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)
    after = contents(spark, stood)
    touched = [name for name in before if name.startswith("sensor-") and before[name] != after[name]]
    assert f"sensor-{stage}" in touched


# Each case costs two runs of all stages: `make test` has the cheapest, `make chaos` the others.
CASES = [
    pytest.param(stage, ran, marks=() if (stage, ran) == ("merge-gold", True) else pytest.mark.chaos)
    for stage in STAGES
    for ran in (True, False)
]


@pytest.mark.parametrize(("stage", "ran"), CASES)
def test_an_undone_reset_leaves_what_was_there_and_goes_on(
    spark: Any, stood: Environment, stage: str, ran: bool
) -> None:
    before = contents(spark, stood)
    plan = reset(spark, stood, stage)
    apply(spark, stood, plan)
    if ran:
        land_more(stood)
        run_stages(spark, stood)
    undo(spark, stood, plan)
    found = contents(spark, stood)
    touched = [query for query in plan.queries if found[query] != before[query]]
    assert not touched
    tables = [name for one in plan.preconditions.values() for name in one["tables"]]
    assert {name: found[name] == before[name] for name in tables} == dict.fromkeys(tables, True)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_a_stage_whose_checkpoint_is_behind_a_link_is_reset_and_undone(
    spark: Any, stood: Environment, tmp_path: Path
) -> None:
    here, disk = Path(stood.checkpoint("merge-gold")), tmp_path / "another disk"
    shutil.move(here, disk)
    here.symlink_to(disk)
    before = contents(spark, stood)
    plan = reset(spark, stood, "merge-gold")
    apply(spark, stood, plan)
    assert apply(spark, stood, plan).outcome == ALREADY
    run_stages(spark, stood)
    assert_exact(stood)
    for _ in range(2):
        undo(spark, stood, plan)
        assert contents(spark, stood) == before
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)
    assert here.readlink() == disk
