"""Two remedies of one stage that begin at the same moment: both look again, and the later one goes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.delta.commit_notes import note_of
from surestart.journal import commit_once
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FINISHED,
    WITHDRAWN,
    Journal,
    JournalEntry,
    append_entry,
    read_journals,
)
from surestart.journal.unfinished import CODE
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import Chain, Link, read_chain
from surestart.remedies.basis.plan import Plan, Step, environment_facts
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps import backfill, swap
from surestart.remedies.steps import run as run_step
from surestart.runs.start_gate import open_gate
from tests.deltalog.handmade import info, write_commit

STAGE = "raw-ingest"


class Watched(Chain):
    """Somebody else acts when a stage is looked at for the n-th time after the target was typed."""

    def __init__(self, environment: Environment, number: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(read_chain(environment, build_stages({})[:1]).links)
        self.__dict__.update(left=0, number=number, meanwhile=meanwhile)

    def confirm(self, plan: Plan) -> str:
        self.__dict__["left"] = self.__dict__["number"]
        return plan.target

    def link(self, name: str) -> Link:
        self.__dict__["left"] -= 1
        if self.__dict__["left"] == 0:
            self.__dict__["meanwhile"]()
        return super().link(name)


def plan_of(environment: Environment, remedy: str, at: int) -> Plan:
    """It removes nothing, so that what happens to it is all in the journal."""
    step = Step(f"{remedy}:{STAGE}", "retire", "nothing", STAGE, {"manifest": ""})
    world = {STAGE: {"query_id": None}}
    return Plan(
        remedy, STAGE, "in-place", environment_facts(environment), at, (STAGE,), world, (step,),
        undo="possible",
    )  # fmt: skip


def enter(spark: Any, environment: Environment, plan: Plan, *states: str) -> None:
    for number, state in enumerate(states):
        entry = JournalEntry(plan.digest, number, state, remedy=plan.remedy, stage=STAGE, queries=plan.queries, at=1)
        append_entry(spark, environment, entry, plan.as_json())


def states_of(environment: Environment) -> list[str]:
    return [one.state for one in read_journals(environment)]


@pytest.mark.parametrize(("ours", "theirs"), [("backfill", "reset"), ("backfill", "backfill"), ("reset", "backfill")])
def test_of_two_that_begin_at_once_the_later_one_goes_back(
    spark: Any, environment: Environment, ours: str, theirs: str
) -> None:
    plan, other = plan_of(environment, ours, 1), plan_of(environment, theirs, 2)
    # When the world is looked at again: after the last look for rivals, before `begun`. A claim looks at it first.
    number = 1 if ours == "backfill" else 2
    chain = Watched(environment, number, lambda: enter(spark, environment, other, BEGUN))

    with pytest.raises(Refused) as refused:
        apply_plan(spark, environment, chain, plan, chain.confirm)

    assert refused.value.code == CODE
    assert other.digest[:12] in refused.value.what
    assert states_of(environment) == [BEGUN, WITHDRAWN]


def test_a_remedy_that_came_and_went_before_a_backfill_began_is_seen(spark: Any, environment: Environment) -> None:
    """Its reset has cleared the table, and the stage brings every row again: the backfill would write them twice."""
    plan = plan_of(environment, "backfill", 1)
    checkpoint = Path(environment.checkpoint(STAGE))

    def begins_anew() -> None:
        assert states_of(environment) == [BEGUN]
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')

    chain = Watched(environment, 2, begins_anew)

    with pytest.raises(Refused, match="the plan is stale: raw-ingest: query id was None"):
        apply_plan(spark, environment, chain, plan, chain.confirm)

    assert states_of(environment) == [WITHDRAWN]
    run = StepContext(spark, environment, chain, plan, Journal((JournalEntry(plan.digest, 0, BEGUN),)), print)
    with pytest.raises(Refused, match="the plan is stale"):
        backfill.apply_step(run, plan.steps[0])


def test_an_undo_that_meets_another_remedy_leaves_the_journal_as_it_was(spark: Any, environment: Environment) -> None:
    plan, other = plan_of(environment, "reset", 1), plan_of(environment, "backfill", 2)
    enter(spark, environment, plan, BEGUN, FINISHED)
    # Once for the claim, once when the undo looks at what it would lose.
    chain = Watched(environment, 2, lambda: enter(spark, environment, other, BEGUN))

    with pytest.raises(Refused) as refused:
        undo_remedy(spark, environment, chain, plan, chain.confirm)

    assert refused.value.code == CODE
    assert states_of(environment) == [FINISHED, BEGUN]


def test_a_stage_that_runs_already_reads_its_input_itself(spark: Any, environment: Environment) -> None:
    stage = build_stages({})[0]
    plan, said = plan_of(environment, "backfill", 1), list[str]()
    journal = Journal((JournalEntry(plan.digest, 0, BEGUN),))
    run = StepContext(spark, environment, read_chain(environment, [stage]), plan, journal, said.append)
    owner = open_gate(spark, environment, stage)
    try:
        facts = run_step.apply_step(run, Step(f"run:{STAGE}", "run", "run it", STAGE))
    finally:
        owner.ended("stopped", "test")

    assert "sensor-raw-ingest is running already" in facts["left_to"]
    assert "runs already" in said[0]


def test_a_swap_is_taken_back_however_many_commits_came_since(
    spark: Any, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand; Spark takes half a minute to read so many.
    monkeypatch.setattr(commit_once, "_COMMITS", 5)
    table = environment.table("sensor_gold")
    step = Step("swap:sensor_gold", "swap", "swap", "merge-gold", {"table": table.name})
    plan = Plan("reset", "merge-gold", "beside", environment_facts(environment), 1, ("merge-gold",), {}, (step,))
    spark.range(3).write.format("delta").save(table.path)
    note = note_of(plan.digest, step.id)
    spark.range(5).write.format("delta").mode("overwrite").option("userMetadata", note).save(table.path)
    for version in range(2, 9):
        write_commit(Path(table.path), version, info("OPTIMIZE"))
    facts = {"check": {"live": {table.name: 0}}, step.id: {"before": 0, "after": 1}}
    entries = [JournalEntry(plan.digest, 0, BEGUN)] + [
        JournalEntry(plan.digest, number, DONE, step=name, facts=facts[name]) for number, name in enumerate(facts, 1)
    ]
    for entry in entries:
        append_entry(spark, environment, entry)
    chain = read_chain(environment, build_stages({}))

    swap.undo_step(StepContext(spark, environment, chain, plan, Journal(tuple(entries)), print), step)

    assert spark.read.format("delta").load(table.path).count() == 3
