"""The remedy protocol under arbitrary schedules: two drivers and two operators who stop and die anywhere.

1,000 schedules by Hypothesis in `make test`, 5,000 in `make test-all`; each planted bug is found within as many, by
seeds. `PROTOCOL_SCHEDULES=100000` runs more; `PROTOCOL_SHRINK=1` makes a found schedule short.
"""

from __future__ import annotations

import os
import random
import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from surestart.remedies.basis.plan import Plan, parse_plan
from tests.remedies.protocol_actors import ACTS, BEGINNINGS, SEEN, STOPS, Actors, act_as_known, act_at_random
from tests.remedies.protocol_remedy import RESET
from tests.remedies.protocol_world import RAW, Rules, Violation

SCHEDULES = int(os.environ.get("PROTOCOL_SCHEDULES", "5000"))
PHASES = [Phase.generate, Phase.shrink] if os.environ.get("PROTOCOL_SHRINK") else [Phase.generate]

# One draw decides where all three stages stand; drawn one by one they cost as much as three acts.
_chance = random.Random(0)
_BEGUN = [(_chance.choice(BEGINNINGS), _chance.choices(STOPS, k=3)) for _ in range(500)]


class Protocol(RuleBasedStateMachine):
    protocol = Rules()

    def __init__(self) -> None:
        super().__init__()
        self.actors = Actors(self.protocol)

    @initialize(begun=st.sampled_from(_BEGUN))
    def the_stages_have_run(self, begun: tuple[tuple[bool, int, int], list[int]]) -> None:
        self.actors.the_stages_have_run(*begun)

    @invariant()
    def holds(self) -> None:
        self.actors.check()

    def teardown(self) -> None:
        # What was found is not to be covered by what follows from it.
        if sys.exc_info()[0] is None:
            self.actors.end()


def _rule(name: str) -> Any:
    def act(self: Protocol, what: Any) -> None:
        getattr(self.actors, name)(what)

    act.__name__ = name
    return rule(what=st.sampled_from(ACTS[name]))(act)


for _name in ACTS:
    setattr(Protocol, _name, _rule(_name))


def run_machine(rules: Rules, schedules: int) -> None:
    machine: Any = type("Protocol", (Protocol,), {"protocol": rules})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=schedules,
            stateful_step_count=8,
            deadline=None,
            derandomize=True,
            database=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )


LONG = pytest.mark.long(instead="test_no_schedule_breaks_the_protocol")


@pytest.mark.parametrize("schedules", [min(SCHEDULES, 1000), pytest.param(SCHEDULES, marks=LONG)])
def test_no_schedule_breaks_the_protocol(schedules: int) -> None:
    run_machine(Rules(), schedules)


@pytest.mark.parametrize("bug", [one.name for one in fields(Rules)])
def test_a_planted_bug_is_found(bug: str) -> None:
    rules = replace(Rules(), **{bug: False})
    with pytest.raises(Violation):
        _act_many_times(rules)


def test_the_schedules_that_once_broke_it_do_no_more() -> None:
    act_as_known(Rules())


@pytest.mark.parametrize("whole_files", [False, True])
@pytest.mark.parametrize("name", SEEN)
def test_what_was_seen_is_found_with_the_mend_taken_out(name: str, whole_files: bool) -> None:
    known = [((whole_files, 2, 9), SEEN[name])]
    with pytest.raises(Violation, match="IGNORE_CHANGES"):
        act_as_known(Rules(last_batch_asked_again=False), known)
    act_as_known(Rules(), known)


def _act_many_times(rules: Rules) -> None:
    act_as_known(rules)
    for seed in range(SCHEDULES):
        act_at_random(rules, seed)


def test_a_plan_of_the_model_is_a_plan() -> None:
    actors = Actors(Rules())
    actors.the_stages_have_run((False, 2, 1), (1000, 1000, 1000))
    made = actors.plan((RESET, RAW, 0, True))
    assert isinstance(made, Plan)
    assert parse_plan(made.as_json(), "the model's").digest == made.digest
