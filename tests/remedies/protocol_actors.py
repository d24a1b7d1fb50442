"""Two drivers and two operators in the model's world, who stop, wait and die anywhere; and what may never be seen."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

from surestart.errors import Refused
from surestart.journal.journal import BEGUN, FINISHED, UNDOING
from surestart.journal.protocol import changes_content
from surestart.remedies.apply.undo import undo_order
from surestart.remedies.basis.plan import Plan
from tests.remedies.protocol_remedy import (
    BATCH,
    LOST,
    POSITIONS,
    RESET,
    REWIND,
    apply_plan,
    check_recoverable,
    digest_of,
    forget_plans,
    former_state,
    is_touched,
    make_plan,
    undo_remedy,
)
from tests.remedies.protocol_stage import run_stage
from tests.remedies.protocol_world import (
    DESERIALIZE,
    GOLD,
    RAW,
    STAGES,
    TABLES,
    Rules,
    Steps,
    Violation,
    World,
    newest_per_key,
)

DRIVERS, OPERATORS = ("driver 1", "driver 2"), ("operator 1", "operator 2")
TO_THE_END = 1_000
# Mostly to the end, else to one of the places in between; the first ones are where claims and looks interleave.
STOPS = [TO_THE_END] * 12 + [1, 2, 3] * 2 + list(range(4, 31))
FATES = [(stop, dies) for stop in STOPS for dies in (False, True)]
HOW = (RESET, RESET, POSITIONS, BATCH, LOST, REWIND)
# Every act with all that it can be given, so that one draw decides it.
ACTS: dict[str, list[Any]] = {
    "arrive": list(product((0, 1), (1, 2))),
    "run": list(product(DRIVERS, STAGES, (1, 2, 9), FATES)),
    "run_all": [STAGES[:1], STAGES[:2], STAGES, STAGES * 2],
    "lose_a_row": STOPS,
    "die": list(product(STAGES, (1, 9), (3, 4, 5))),
    "plan": list(product(HOW, (RAW, RAW, DESERIALIZE, GOLD), (0, 1, 2), (False, True))),
    "plan_and_apply": list(
        product(HOW, (RAW, RAW, DESERIALIZE, GOLD), (0, 1, 2), (False, False, True), OPERATORS, FATES)
    ),
    "there_and_back": list(
        product(HOW, (RAW, RAW, DESERIALIZE, GOLD), (0, 1, 2), (STAGES[:0], STAGES[:1], STAGES), (1, 2, 9), FATES)
    ),
    "one_after_another": list(
        product(*[list(product(HOW, (RAW, RAW, DESERIALIZE, GOLD), (0, 1), (False, True, True)))] * 2, (1, 9))
    ),
    "apply": list(product(OPERATORS, (1, 1, 2), FATES)),
    "undo": list(product(OPERATORS, (1, 1, 2), FATES)),
    "go_on": list(product((0, 1, 2), FATES)),
    "expire": [0, 1, 2],
    "lose_checkpoint": list(STAGES),
    "vacuum": list(TABLES),
}
BEGINNINGS = list(product((False, True), (1, 2, 3), (1, 2, 3)))
# One draw of each is as good as any other, and all of them are some ten thousand.
ACTS["one_after_another"] = random.Random(0).sample(ACTS["one_after_another"], 500)


_END = (TO_THE_END, True)
# Found by the machine and made short: what chance meets once in some thousand schedules.
KNOWN: list[tuple[tuple[bool, int, int], list[tuple[str, Any]]]] = [
    (
        (False, 2, 9),
        [
            ("there_and_back", (RESET, RAW, 0, STAGES[:1], 9, _END)),
            ("arrive", (0, 1)),
            ("run", (DRIVERS[0], RAW, 9, _END)),
            ("die", (DESERIALIZE, 9, 3)),
        ],
    ),
    (
        (True, 3, 2),
        [
            ("plan_and_apply", (RESET, GOLD, 1, False, OPERATORS[1], _END)),
            ("undo", (OPERATORS[1], 1, (1, False))),
            ("plan_and_apply", (POSITIONS, RAW, 0, False, OPERATORS[0], _END)),
        ],
    ),
    # An undo dies where nothing was brought back yet, and a VACUUM takes what it needs.
    ((False, 2, 9), [("there_and_back", (RESET, GOLD, 0, STAGES, 9, (3, True))), ("vacuum", "gold")]),
    ((False, 2, 9), [("there_and_back", (RESET, RAW, 0, STAGES, 9, (3, True))), ("vacuum", "good")]),
    # A replay from a batch that was written before rows were taken away.
    (
        (True, 2, 1),
        [
            ("there_and_back", (POSITIONS, RAW, 1, STAGES, 1, (5, True))),
            ("undo", (OPERATORS[0], 1, _END)),
            ("one_after_another", ((BATCH, RAW, 0, False), (RESET, DESERIALIZE, 1, True), 1)),
        ],
    ),
    # A later remedy, of another stage, before deserialize has got past what an undo has taken back.
    (
        (False, 2, 9),
        [
            ("there_and_back", (RESET, RAW, 0, STAGES[:1], 9, _END)),
            ("plan_and_apply", (POSITIONS, GOLD, 9, False, OPERATORS[0], _END)),
        ],
    ),
    # A stage below has lost its checkpoint, and its table holds what a rewind above it takes back.
    (
        (False, 2, 9),
        [
            ("arrive", (0, 1)),
            ("run_all", STAGES),
            ("lose_checkpoint", GOLD),
            ("plan_and_apply", (REWIND, RAW, 0, False, OPERATORS[0], _END)),
        ],
    ),
]
# What was seen on real Spark: each stopped deserialize for ever.
SEEN: dict[str, list[tuple[str, Any]]] = {
    "an undone reset of raw-ingest, then an undone replay of deserialize": [
        ("one_after_another", ((RESET, RAW, 0, True), (BATCH, DESERIALIZE, 1, True), 9)),
    ],
    "an undone replay of raw-ingest, then a replay of merge-gold": [
        ("one_after_another", ((POSITIONS, RAW, 9, True), (POSITIONS, GOLD, 9, False), 9)),
    ],
}


class Actors:
    def __init__(self, rules: Rules) -> None:
        self.world = World(rules)
        self.running: dict[str, Steps] = {}
        self.plans: list[Plan] = []
        forget_plans()

    def the_stages_have_run(self, given: tuple[bool, int, int], stops: Sequence[int]) -> None:
        """given: whole files or records, rows of each, and how many a batch takes."""
        self.world.whole_files, rows, limit = given
        for part in (0, 1):
            self.arrive((part, rows))
        for stage, stop in zip(STAGES, stops, strict=True):
            self._begin(DRIVERS[0], run_stage(self.world, DRIVERS[0], stage, limit), (stop, True))
        self.arrive((1, 1))

    def arrive(self, what: tuple[int, int]) -> None:
        part, rows = what
        source = self.world.source
        if self.world.whole_files:
            source[len(source)] = (0, rows)
        else:
            low, high = source.get(part, (0, 0))
            source[part] = (low, high + rows)

    def run(self, what: tuple[str, str, int, tuple[int, bool]]) -> None:
        who, stage, limit, fate = what
        self._begin(who, run_stage(self.world, who, stage, limit), fate)

    def die(self, what: tuple[str, int, int]) -> None:
        """A driver dies around its first batch."""
        stage, limit, stop = what
        self._begin(DRIVERS[0], run_stage(self.world, DRIVERS[0], stage, limit), (stop, True))

    def lose_a_row(self, stop: int) -> None:
        """A fault of former days: deserialize drops a row."""
        self._begin(DRIVERS[0], run_stage(self.world, DRIVERS[0], DESERIALIZE, 2, lossy=True), (stop, True))

    def run_all(self, stages: tuple[str, ...], limit: int = 9) -> None:
        for stage in stages:
            self._begin(DRIVERS[1], run_stage(self.world, DRIVERS[1], stage, limit), (TO_THE_END, True))

    def plan(self, remedy: tuple[str, str, int, bool]) -> Plan | None:
        """remedy: how, of which stage, from where, and whether the stages are run."""
        try:
            self.plans.append(make_plan(self.world, *remedy))
        except Refused:
            return None
        return self.plans[-1]

    def plan_and_apply(self, what: tuple[str, str, int, bool, str, tuple[int, bool]]) -> None:
        how, stage, cut, runs, who, fate = what
        made = self.plan((how, stage, cut, runs))
        if made is not None:
            self._begin(who, apply_plan(self.world, who, made), fate)

    def there_and_back(self, what: tuple[str, str, int, tuple[str, ...], int, tuple[int, bool]]) -> None:
        """A remedy is applied, some stages run with what has arrived meanwhile, and it is undone."""
        how, stage, cut, stages, limit, fate = what
        before = len(self.plans)
        self.plan_and_apply((how, stage, cut, False, OPERATORS[0], (TO_THE_END, True)))
        if len(self.plans) > before:
            self.arrive((0, 2))
            self.run_all(stages, limit)
            self._begin(OPERATORS[0], undo_remedy(self.world, OPERATORS[0], digest_of(self.plans[-1])), fate)

    def one_after_another(self, what: tuple[tuple[str, str, int, bool], tuple[str, str, int, bool], int]) -> None:
        """Two remedies, each applied, run with what has arrived meanwhile, and undone or not; between them the stages
        run once more, with nothing new."""
        *remedies, limit = what
        for how, stage, cut, undone in remedies:
            before = len(self.plans)
            self.plan_and_apply((how, stage, cut, False, OPERATORS[0], _END))
            self.arrive((0, 2))
            self.run_all(STAGES, limit)
            if len(self.plans) > before and undone:
                self._begin(OPERATORS[0], undo_remedy(self.world, OPERATORS[0], digest_of(self.plans[-1])), _END)
                self.run_all(STAGES, limit)

    def apply(self, what: tuple[str, int, tuple[int, bool]]) -> None:
        who, back, fate = what
        if len(self.plans) >= back:
            self._begin(who, apply_plan(self.world, who, self.plans[-back]), fate)

    def undo(self, what: tuple[str, int, tuple[int, bool]]) -> None:
        who, back, fate = what
        if len(self.plans) >= back:
            self._begin(who, undo_remedy(self.world, who, digest_of(self.plans[-back])), fate)

    def go_on(self, what: tuple[int, tuple[int, bool]]) -> None:
        which, fate = what
        if self.running:
            self._advance(list(self.running)[which % len(self.running)], fate)

    def expire(self, part: int) -> None:
        """The source lets its oldest rows go."""
        if part in self.world.source:
            low, high = self.world.source[part]
            new = high if self.world.whole_files else min(high, low + 1)
            # While an undo stands half-way its rows are neither here nor there.
            half = any(journal.state == UNDOING for journal in self.world.journals())
            there = set() if half else set(self.world.positions(RAW))
            self.world.may_miss |= {(part, offset) for offset in range(low, new)} - there
            self.world.source[part] = (new, high)

    def vacuum(self, name: str) -> None:
        """Also after an undo has died that had brought nothing back yet, and of the first table while it runs: that
        must be no dead end. Else nobody is to run one while a remedy is half-way (docs/remedies.md)."""
        for journal in self.world.journals():
            if journal.state == BEGUN:
                return
            if journal.state == UNDOING:
                first = next(step for step in undo_order(journal.first.facts["plan"]) if changes_content(step.kind))
                if self.running and name != first.arguments["table"]:
                    return
                if former_state(journal) == BEGUN or is_touched(self.world, journal):
                    return
        self.world.vacuumed[name] = self.world.tables[name].version

    def lose_checkpoint(self, stage: str) -> None:
        world = self.world
        if stage not in world.claims and not any(journal.is_open for journal in world.journals()):
            world.checkpoints[stage] = None

    def check(self) -> None:
        """No position is there twice, and an undo has what it needs."""
        check_recoverable(self.world)
        for stage in (RAW, DESERIALIZE):
            found = Counter(position for position in self.world.positions(stage) if position[0] is not None)
            twice = [position for position, count in found.items() if count > 1]
            if twice:
                raise Violation(f"{stage} wrote twice: {twice}")
        if any(row[0] is None for row in self.world.tables["quarantine"].rows()):
            raise Violation("the marker row of an undo was read by the stage below")

    def end(self) -> None:
        """Everybody goes on to the end, what is open is finished or undone, the stages run; then the remedies that
        stand are undone, the newest first, and they run again. Each time every row is counted."""
        for who in list(self.running):
            self._advance(who, (TO_THE_END, True))
        self._finish_all()
        self.check_exact()
        for journal in reversed(self.world.journals()):
            if journal.state != FINISHED:
                continue
            self._begin(OPERATORS[0], undo_remedy(self.world, OPERATORS[0], journal.digest), (TO_THE_END, True))
            # Something new, so that a batch is planned: the next start looks at that one.
            self.arrive((1, 1))
            self._finish_all()
            self.check_exact()

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

    def _undo_or_give_up(self, digest: str) -> None:
        """It is undone; or it is given up, and no stage waits for it any longer."""
        self.running["last"] = undo_remedy(self.world, "last", digest)
        problem = self._advance("last", (TO_THE_END, True))
        left = next(one for one in self.world.journals() if one.digest == digest)
        if problem is not None and (problem.code != "UndoTooLate" or left.is_open):
            raise Violation(f"stuck: {problem.code}: {problem.what}")

    def _finish_all(self) -> None:
        world = self.world
        for journal in world.journals():
            plan = journal.first.facts["plan"]
            if journal.state == UNDOING or (journal.is_open and world.now % 2):
                self._undo_or_give_up(journal.digest)
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
                self.check()

    def check_exact(self) -> None:
        """Counted from the source, by nobody of those who wrote."""
        world = self.world
        self.check()
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


def act_as_known(rules: Rules, known: Sequence[tuple[tuple[bool, int, int], list[tuple[str, Any]]]] = KNOWN) -> None:
    for given, acts in known:
        actors = Actors(rules)
        actors.the_stages_have_run(given, [TO_THE_END] * len(STAGES))
        for name, what in acts:
            getattr(actors, name)(what)
            actors.check()
        actors.end()


def act_at_random(rules: Rules, seed: int, acts: int = 12) -> None:
    """One schedule; raises Violation."""
    chance = random.Random(seed)
    actors = Actors(rules)
    actors.the_stages_have_run(chance.choice(BEGINNINGS), chance.choices(STOPS, k=3))
    names = list(ACTS)
    for _ in range(acts):
        name = chance.choice(names)
        getattr(actors, name)(chance.choice(ACTS[name]))
        actors.check()
    actors.end()
