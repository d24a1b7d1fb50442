"""A reset removes what a stage and those below it wrote, begins them anew, and can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from surestart.environment import Environment
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
    tables = [name for one in plan.world.values() for name in one["tables"]]
    assert {name: found[name] == before[name] for name in tables} == dict.fromkeys(tables, True)
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)
