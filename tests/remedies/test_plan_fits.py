"""A plan with a digest of its own making is refused before it begins, when it names what is not the pipeline's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import read_journals
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan, Step, check_names, check_touched, environment_facts
from tests.remedies.journal_by_hand import write_journal
from tests.remedies.remedy import chain_of

BELOW = ("deserialize", "merge-gold")


def plan_of(environment: Environment, **changed: Any) -> Plan:
    steps = (
        Step("clear:sensor_gold", "clear", "", "merge-gold", {"table": "sensor_gold", "version": 1, "keeps": False}),
        Step("retire:deserialize", "retire", "", "deserialize", {"manifest": "m"}),
        Step("start", "start", "", arguments={"starts": {name: {"kept": False} for name in BELOW}}),
        Step("run:deserialize", "run", "", "deserialize"),
    )
    world = {name: {"tables": {}} for name in BELOW}
    plan = Plan("reset", "deserialize", "in-place", environment_facts(environment), 1, BELOW, world, steps, undo="yes")
    return replace(plan, **changed)


def step(kind: str, stage: str, **arguments: Any) -> tuple[Step, ...]:
    return (Step("x", kind, "", stage, arguments),)


WRONG = {
    "a table of another stage": {"steps": step("clear", "merge-gold", table="sensor_raw")},
    "no table of anybody's": {"steps": step("clear", "merge-gold", table="payroll")},
    "a stage that is not there": {"steps": step("retire", "payroll")},
    "a stage that is not there, as the first": {"stage": "payroll"},
    "a start of a stage that is not there": {"steps": step("start", "", starts={"payroll": {}})},
    "a database that is not there": {"steps": step("database", "merge-gold", target="payroll", place="here")},
    "fewer stages claimed": {"touched": ("deserialize",)},
    "no preconditions": {"preconditions": {}},
    "a change above": {"steps": step("retire", "raw-ingest")},
}


def test_a_plan_as_it_was_made_fits(environment: Environment) -> None:
    plan, chain = plan_of(environment), chain_of(environment)
    check_names(plan, chain, environment)
    check_touched(plan, chain, environment)


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_the_pipelines_is_refused_before_anything_is_begun(environment: Environment, what: str) -> None:
    plan = plan_of(environment, **WRONG[what])
    with pytest.raises(Refused) as refused:
        # No session: it is refused before one is asked.
        apply_plan(None, environment, chain_of(environment), plan, lambda plan: plan.target)  # type: ignore[arg-type]
    assert refused.value.code == "PlanDoesNotFit"
    assert f"--root {environment.root}" in str(refused.value.next)
    assert read_journals(environment) == ()


def test_an_undo_without_the_stages_code_is_refused_too(environment: Environment) -> None:
    plan = plan_of(environment)
    write_journal(environment, plan.digest, "finished", "sensor-deserialize")
    chain = chain_of(environment)
    fewer = read_chain(environment, [link.stage for link in chain if link.name != "merge-gold"])
    with pytest.raises(Refused, match="not of this pipeline") as refused:
        undo_remedy(None, environment, fewer, plan, lambda plan: plan.target)  # type: ignore[arg-type]
    assert "surestart plan" not in str(refused.value.next)
