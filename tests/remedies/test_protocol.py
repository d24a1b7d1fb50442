"""The remedy protocol under arbitrary schedules: two drivers and two operators who stop and die anywhere.

5,000 schedules; each of the planted bugs is found within as many. `PROTOCOL_SCHEDULES=100000` runs more.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from surestart.errors import Refused
from surestart.remedies.journal import FINISHED, UNDOING
from surestart.remedies.plan import Plan
from tests.remedies.protocol_remedy import (
    BATCH,
    LOST,
    POSITIONS,
    RESET,
    apply_plan,
    check_recoverable,
    digest_of,
    forget_plans,
    make_plan,
    undo_remedy,
)
from tests.remedies.protocol_stage import run_stage
from tests.remedies.protocol_world import DESERIALIZE, GOLD, RAW, STAGES, Rules, Steps, Violation, World, newest_per_key

SCHEDULES = int(os.environ.get("PROTOCOL_SCHEDULES", "5000"))
DRIVERS, OPERATORS = ("driver 1", "driver 2"), ("operator 1", "operator 2")
TO_THE_END = 1_000
# Mostly to the end, else to one of the places in between; the first ones are where claims and looks interleave.
STOPS = [TO_THE_END] * 14 + [1, 2, 3] * 3 + list(range(4, 31))
FATES = [(stop, dies) for stop in STOPS for dies in (False, True)]


def one_of(*choices: Iterable[Any]) -> Any:
    """One draw for all arguments of a rule: five times as many schedules in the same time."""
    return st.sampled_from(list(product(*choices)))


class Protocol(RuleBasedStateMachine):
    protocol = Rules()

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.protocol)
        self.running: dict[str, Steps] = {}
        self.plans: list[Plan] = []
        forget_plans()

    @initialize(given=one_of((False, True), (1, 2, 3), (1, 2, 3)), stops=st.tuples(*[st.sampled_from(STOPS)] * 3))
    def the_stages_have_run(self, given: tuple[bool, int, int], stops: tuple[int, ...]) -> None:
        """given: whole files or records, rows of each, and how many a batch takes."""
        self.world.whole_files, rows, limit = given
        for part in (0, 1):
            self.arrive((part, rows))
        for stage, stop in zip(STAGES, stops, strict=True):
            self._begin(DRIVERS[0], run_stage(self.world, DRIVERS[0], stage, limit), (stop, True))
        self.arrive((1, 1))

    @rule(what=one_of((0, 1), (1, 2)))
    def arrive(self, what: tuple[int, int]) -> None:
        part, rows = what
        source = self.world.source
        if self.world.whole_files:
            source[len(source)] = (0, rows)
        else:
            low, high = source.get(part, (0, 0))
            source[part] = (low, high + rows)

    @rule(what=one_of(DRIVERS, STAGES, (1, 2, 9), FATES))
    def run(self, what: tuple[str, str, int, tuple[int, bool]]) -> None:
        who, stage, limit, fate = what
        self._begin(who, run_stage(self.world, who, stage, limit), fate)

    @rule(stop=st.sampled_from(STOPS))
    def lose_a_row(self, stop: int) -> None:
        """A fault of former days: deserialize drops a row."""
        self._begin(DRIVERS[0], run_stage(self.world, DRIVERS[0], DESERIALIZE, 2, lossy=True), (stop, True))

    @rule(stages=st.sampled_from([STAGES[:1], STAGES[:2], STAGES, STAGES * 2]))
    def run_all(self, stages: tuple[str, ...]) -> None:
        for stage in stages:
            self._begin(DRIVERS[1], run_stage(self.world, DRIVERS[1], stage, 9), (TO_THE_END, True))

    @rule(
        remedy=one_of((RESET, RESET, POSITIONS, BATCH, LOST), (RAW, RAW, DESERIALIZE, GOLD), (0, 1, 2), (False, True)),
        what=one_of((*OPERATORS, ""), FATES),
    )
    def plan(self, remedy: tuple[str, str, int, bool], what: tuple[str, tuple[int, bool]]) -> None:
        """remedy: how, of which stage, from where, and whether the stages are run. Nobody: it is kept for later."""
        who, fate = what
        try:
            made = make_plan(self.world, *remedy)
        except Refused:
            return
        self.plans.append(made)
        if who:
            self._begin(who, apply_plan(self.world, who, made), fate)

    @precondition(lambda self: self.plans)
    @rule(what=one_of(OPERATORS, (1, 1, 2), FATES))
    def apply(self, what: tuple[str, int, tuple[int, bool]]) -> None:
        who, back, fate = what
        if len(self.plans) >= back:
            self._begin(who, apply_plan(self.world, who, self.plans[-back]), fate)

    @precondition(lambda self: self.plans)
    @rule(what=one_of(OPERATORS, (1, 1, 2), FATES))
    def undo(self, what: tuple[str, int, tuple[int, bool]]) -> None:
        who, back, fate = what
        if len(self.plans) >= back:
            self._begin(who, undo_remedy(self.world, who, digest_of(self.plans[-back])), fate)

    @precondition(lambda self: self.running)
    @rule(what=one_of((0, 1, 2), FATES))
    def go_on(self, what: tuple[int, tuple[int, bool]]) -> None:
        which, fate = what
        self._advance(list(self.running)[which % len(self.running)], fate)

    @rule(part=st.integers(0, 2))
    def expire(self, part: int) -> None:
        """The source lets its oldest rows go."""
        if part in self.world.source:
            low, high = self.world.source[part]
            new = high if self.world.whole_files else min(high, low + 1)
            there = set(self.world.positions(RAW))
            self.world.may_miss |= {(part, offset) for offset in range(low, new)} - there
            self.world.source[part] = (new, high)

    @rule(stage=st.sampled_from(STAGES))
    def lose_checkpoint(self, stage: str) -> None:
        world = self.world
        if stage not in world.claims and not any(journal.is_open for journal in world.journals()):
            world.checkpoints[stage] = None

    @invariant()
    def no_position_is_there_twice_and_an_undo_has_what_it_needs(self) -> None:
        check_recoverable(self.world)
        for stage in (RAW, DESERIALIZE):
            found = Counter(position for position in self.world.positions(stage) if position[0] is not None)
            twice = [position for position, count in found.items() if count > 1]
            if twice:
                raise Violation(f"{stage} wrote twice: {twice}")
        if any(row[0] is None for row in self.world.tables["quarantine"].rows()):
            raise Violation("the marker row of an undo was read by the stage below")

    def teardown(self) -> None:
        if sys.exc_info()[0] is not None:
            return  # what was found is not to be covered by what follows from it
        for who in list(self.running):
            self._advance(who, (TO_THE_END, True))
        self._finish_all()
        self._check_exact()
        last = [journal for journal in self.world.journals() if journal.state == FINISHED][-1:]
        for journal in last:
            self._begin(OPERATORS[0], undo_remedy(self.world, OPERATORS[0], journal.digest), (TO_THE_END, True))
        if last:
            self._finish_all()
            self._check_exact()

    def _begin(self, who: str, steps: Steps, fate: tuple[int, bool]) -> None:
        if who not in self.running:
            self.running[who] = steps
            self._advance(who, fate)

    def _advance(self, who: str, fate: tuple[int, bool]) -> Refused | None:
        """So many steps further; then it waits there, or is dead. The error that ended it, if one did."""
        if who not in self.running:
            return None
        stop, dies = fate
        try:
            for _ in range(stop):
                next(self.running[who])
        except StopIteration:
            dies = True
        except Refused as problem:
            self._end(who)
            return problem
        if dies:
            self._end(who)
        return None

    def _end(self, who: str) -> None:
        self.running.pop(who).close()  # type: ignore[attr-defined]
        self.world.release(who)

    def _surely(self, steps: Steps) -> None:
        self.running["last"] = steps
        problem = self._advance("last", (TO_THE_END, True))
        if problem is not None:
            raise Violation(f"stuck: {problem.code}: {problem.what}")

    def _finish_all(self) -> None:
        world = self.world
        for journal in world.journals():
            plan = journal.first.facts["plan"]
            if journal.state == UNDOING or (journal.is_open and world.now % 2):
                self._surely(undo_remedy(world, "last", journal.digest))
            elif journal.is_open:
                self.running["try"] = apply_plan(world, "try", plan)
                problem = self._advance("try", (TO_THE_END, True))
                if problem is not None and problem.code != "SourceLostRows":
                    raise Violation(f"stuck: {problem.code}: {problem.what}")
                if problem is not None:
                    self._surely(undo_remedy(world, "last", journal.digest))
        for stage in STAGES:
            if world.checkpoints[stage] is None and stage != GOLD and world.positions(stage):
                self.running["try"] = run_stage(world, "try", stage, 9)
                problem = self._advance("try", (2, True))
                if problem is not None:
                    self._surely(apply_plan(world, "last", make_plan(world, LOST, stage, 0, False)))
        before = None
        while before != world.checkpoints:
            before = dict(world.checkpoints)
            for stage in STAGES:
                self._surely(run_stage(world, "last", stage, 9))
                self.no_position_is_there_twice_and_an_undo_has_what_it_needs()

    def _check_exact(self) -> None:
        """Counted from the source, by nobody of those who wrote."""
        world = self.world
        self.no_position_is_there_twice_and_an_undo_has_what_it_needs()
        produced = {(part, offset) for part, (_, high) in world.source.items() for offset in range(high)}
        raw, readings = set(world.positions(RAW)), set(world.positions(DESERIALIZE))
        if not produced - world.may_miss <= raw <= produced:
            raise Violation(f"raw lacks {sorted(produced - world.may_miss - raw)}, has beyond {sorted(raw - produced)}")
        if not raw - world.lost <= readings <= raw:
            raise Violation(f"deserialize lacks {sorted(raw - world.lost - readings)}, has beyond {readings - raw}")
        good = [row[:2] for row in world.tables["good"].rows()]
        newest = {row[:2] for row in newest_per_key((*position, 0) for position in good).values()}
        gold = sorted(row[:2] for row in world.tables["gold"].rows())
        if gold != sorted(newest):
            raise Violation(f"gold is {gold}, the newest are {sorted(newest)}")


def _run(rules: Rules, schedules: int) -> None:
    machine: Any = type("Protocol", (Protocol,), {"protocol": rules})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=schedules,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate] if not os.environ.get("PROTOCOL_SHRINK") else [Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )


def test_no_schedule_breaks_the_protocol() -> None:
    _run(Rules(), SCHEDULES)


@pytest.mark.parametrize("bug", [one.name for one in fields(Rules)])
def test_a_planted_bug_is_found(bug: str) -> None:
    with pytest.raises(Violation):
        _run(replace(Rules(), **{bug: False}), SCHEDULES)
