"""Remedies, undos, new data, runs and kills one after another on real Spark, chosen by a seed; and any such list again.

    land N                           new readings, and corrections of old ones
    run STAGE…                       each to the end of its data
    remedy HOW STAGE [run]           plan and apply; or refused beforehand, with nothing changed
    undo N                           of the N-th newest remedy that was applied
    hole STAGE                       rows of a table are deleted by hand, and a backfill brings them again
    lose STAGE                       a checkpoint is deleted by hand, and a replay finds where its output ends
    kill POINT again|undo, and then one of run, remedy, undo: its process dies there by SIGKILL, and then ...

Behind the last act every remedy is at its end, each stage starts, and every row is there once, by a recount of the
tables' files in plain Python. Whatever is refused on the way must say so beforehand.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensor_pipeline.stages import build_stages, count
from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, StoppedHalfway, UsageError
from surestart.failpoints import VARIABLE
from surestart.journal.journal import FINISHED, RELEASED, UNDOING, WITHDRAWN, Journal, read_journals
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import find_applied, undo_remedy
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.basis.rows_that_stay import ALL_OF, StayRule, find_stay_marks
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill
from surestart.remedies.planning.plan_replay import ReplayFrom, plan_replay
from surestart.remedies.planning.plan_reset import plan_reset, plan_reset_beside
from surestart.remedies.planning.plan_rewind import plan_rewind
from surestart.remedies.planning.rewind_choice import RewindTo
from surestart.remedies.planning.wanted import Request
from surestart.runs.runner import run_stage
from surestart.stage import Stage
from tests.remedies.shared_driver import PORT, SECRET

Act = tuple[Any, ...]
STAGES = ("raw-ingest", "deserialize", "merge-gold")
REFUSED = (Refused, CannotTell, UsageError)
TABLES_OF = {
    "raw-ingest": ("sensor_raw", "sensor_readings_deserialized", "sensor_quarantine", "sensor_gold"),
    "merge-gold": ("sensor_gold",),
}
# Where a process of theirs may die; one that is not passed kills nobody.
POINTS = {
    "remedy": (
        "remedy.begun:1", "remedy.clear.after_commit:1", "remedy.clear.after_commit:2", "remedy.done.clear:3",
        "remedy.move.after_file:4", "remedy.move.before_removal:2", "remedy.done.retire:1", "remedy.done.start:1",
        "remedy.journaled.start:1", "remedy.released:1", "remedy.swap.after_commit:1", "remedy.done.check:1",
    ),
    "undo": (
        "remedy.undoing:1", "remedy.restore.after_commit:1", "remedy.restore.after_commit:2",
        "remedy.restore.after_file:3", "remedy.undone.clear:2", "remedy.undone.retire:1", "remedy.undone.start:1",
        "remedy.withdrawn:1", "remedy.undone.swap:1",
    ),
    "run": ("append.before_commit:1", "append.after_commit:1", "split.between:1", "merge.after_commit:1"),
}  # fmt: skip


@dataclass
class Lab:
    """land: so many readings arrive. also_exact: what else has to hold in the end. settings: of the stages. by_path:
    where the files of a catalog's tables are, for the recount."""

    spark: Any
    environment: Environment
    place: Path
    land: Callable[[int], object]
    settings: Mapping[str, str] = field(default_factory=lambda: {"max_files_per_trigger": "2"})
    also_exact: Callable[[], object] = lambda: None
    by_path: Environment | None = None
    said: list[str] = field(default_factory=list)

    @property
    def chain(self) -> Chain:
        return read_chain(self.environment, build_stages(self.settings))

    def begin(self) -> None:
        """The stages have run twice."""
        for readings in (40, 20):
            self._land(readings)
            self._run(*STAGES)

    def do(self, acts: Sequence[Act], again: str = "") -> None:
        """All of them; and in the end every stage starts, and every row is there once. again: what repeats it."""
        self.said.append(again)
        try:
            for act in acts:
                self.said.append(" ".join(map(str, act)))
                getattr(self, f"_{act[0]}")(*act[1:])
            self.said.append("to the end")
            self.end()
        finally:
            print("\n".join(self.said))

    def do_seed(self, seed: int) -> None:
        test = os.environ["PYTEST_CURRENT_TEST"].partition("[")[0]
        self.do(acts_of(seed), f"SEQUENCES={seed} pytest -m chaos {test}")

    def end(self) -> None:
        for journal in read_journals(self.environment, self.spark):
            if journal.is_unfinished:
                self._bring_to_its_end(journal, "again")
        self._run(*STAGES)
        self.assert_exact()
        # And once more with new data: a start looks at the batch before it too.
        self._land(10)
        self._run(*STAGES)
        self.assert_exact()

    def assert_exact(self) -> None:
        found = count(self.by_path or self.environment, self.settings)
        assert found is not None
        assert (found.lost, found.duplicated, dict(found.faults), dict(found.pending)) == (0, 0, {}, {})
        self.also_exact()

    # --- acts

    def _land(self, readings: int) -> None:
        self.land(readings)

    def _run(self, *stages: str) -> None:
        for stage in build_stages(self.settings):
            if stage.name not in stages:
                continue
            if not Path(self.environment.checkpoint(stage.name)).exists():
                self._run_without_checkpoint(stage)
            else:
                run_stage(self.spark, self.environment, stage)

    def _run_without_checkpoint(self, stage: Stage) -> None:
        """An undo has brought the time back at which it was lost: refused, and led out of by what is named there."""
        try:
            run_stage(self.spark, self.environment, stage)
        except Refused as problem:
            self.said.append(f"    refused: {problem.code}: {problem.what}")
            if not str(problem.next).startswith("surestart plan "):
                raise
            assert self._remedied("from-output", stage.name)
            run_stage(self.spark, self.environment, stage)

    def _remedy(self, how: str, stage: str, run: bool = False) -> None:
        made = self._plan(how, stage, run)
        if made is not None:
            self._or_refused(lambda: self._apply(made))

    def _undo(self, back: int) -> None:
        journal = self._applied(back)
        if journal is not None:
            self._or_refused(lambda: self._take_back(self._plan_of(journal)))

    def _hole(self, stage: str) -> None:
        """Of gold; or of raw with all below, whose streams then begin anew."""
        for name in TABLES_OF[stage]:
            self.spark.sql(f"DELETE FROM {self.environment.table(name).sql} WHERE offset % 7 = 3").collect()
        if stage != "merge-gold" and not self._remedied("from-output", "deserialize"):
            # The stages below read on: a table of theirs was changed by hand, and nothing else brings them past it.
            raise AssertionError("no way past rows that were deleted by hand")
        self._run(*STAGES[1:])
        # With what it lacks, before anything else; where a backfill is refused, from the beginning.
        assert self._remedied("backfill", stage) or self._remedied("reset", stage)
        self._run(*STAGES)
        self.assert_exact()

    def _lose(self, stage: str) -> None:
        shutil.rmtree(self.environment.checkpoint(stage), ignore_errors=True)
        assert self._remedied("from-output", stage)

    def _kill(self, point: str, then: str, act: Act) -> None:
        """The act in a process of its own, which dies there; then it goes on, or is taken back."""
        if act[0] == "run":
            # Without anything new no batch is written in which it could die.
            self._land(10)
            self._drive("run", "+".join(act[1:]), point)
            return
        plan = self._plan(act[1], act[2], False) if act[0] == "remedy" else None
        journal = self._applied(act[1]) if act[0] == "undo" else None
        if plan is None and journal is None:
            return
        verb = "apply" if plan else "undo"
        self._drive(verb, self._written(plan or self._plan_of(journal)), point)
        for one in read_journals(self.environment, self.spark):
            if one.is_unfinished:
                self._bring_to_its_end(one, then)

    # --- what they are made of

    def _plan(self, how: str, stage: str, run: bool) -> Plan | None:
        return self._or_refused(lambda: self._make_plan(how, stage, run))

    def _make_plan(self, how: str, stage: str, run: bool) -> Plan:
        given = self.spark, self.environment, self.chain
        request = Request(settings=self.settings, run=run)
        if how == "reset":
            return plan_reset(*given, stage, request)
        if how == "beside":
            return plan_reset_beside(*given, stage, request)
        if how == "backfill":
            return plan_backfill(*given, stage, (), ArrivalTime(), request)
        if how.startswith("rewind-"):
            return plan_rewind(*given, stage, RewindTo(batch=int(how.removeprefix("rewind-"))), request)
        if how == "from-output":
            return plan_replay(*given, stage, ReplayFrom(output=True), request)
        if how == "from-middle":
            return plan_replay(*given, stage, ReplayFrom(positions=self._middle(stage)), request)
        return plan_replay(*given, stage, ReplayFrom(batch=int(how.removeprefix("from-batch-"))), request)

    def _middle(self, stage: str) -> dict[str, dict[str, int]]:
        """Half of every second partition or file that its output holds."""
        outputs = self.chain.link(stage).outputs
        held = {one.table.name: self._version(one.table.name) for one in outputs}
        marks = sorted(map(tuple, find_stay_marks(self.spark, self.environment, StayRule(ALL_OF, held=held)).collect()))
        named: dict[str, dict[str, int]] = {}
        for source, partition, below in marks[::2]:
            named.setdefault(source, {})[str(partition)] = below // 2
        return named

    def _version(self, name: str) -> int:
        table = self.environment.table(name)
        return int(self.spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]["version"])

    def _apply(self, plan: Plan) -> None:
        if plan.steps:
            apply_plan(self.spark, self.environment, self.chain, plan, lambda plan: plan.target)

    def _take_back(self, plan: Plan) -> None:
        undo_remedy(self.spark, self.environment, self.chain, plan, lambda plan: plan.target)

    def _remedied(self, how: str, stage: str) -> bool:
        made = self._plan(how, stage, False)
        return made is not None and self._or_refused(lambda: self._apply(made) or True) is not None

    def _applied(self, back: int) -> Journal | None:
        found = [
            one
            for one in read_journals(self.environment, self.spark)
            if one.state in (RELEASED, FINISHED) and one.first.remedy != "backfill"
        ]
        return found[-1 - back] if len(found) > back else None

    def _plan_of(self, journal: Journal | None) -> Plan:
        assert journal is not None
        return find_applied(self.spark, self.environment, journal.digest)

    def _bring_to_its_end(self, journal: Journal, then: str) -> None:
        plan = self._plan_of(journal)
        if journal.state == UNDOING or (then == "undo" and plan.undo):
            self._take_back(plan)
        else:
            self._apply(plan)
        state = next(one.state for one in read_journals(self.environment, self.spark) if one.digest == journal.digest)
        assert state in (FINISHED, WITHDRAWN), state

    def _or_refused(self, act: Callable[[], Any]) -> Any:
        """What it gives; None where it is refused beforehand: nothing stands half-way then."""
        refused = None
        try:
            return act()
        except StoppedHalfway:
            raise
        except REFUSED as problem:
            refused = problem
        self.said.append(f"    refused: {refused.code}: {refused.what}")
        half = [one.digest for one in read_journals(self.environment, self.spark) if one.is_unfinished]
        assert (bool(str(refused.next)), half) == (True, []), refused
        return None

    def _written(self, plan: Plan) -> str:
        file = self.place / "plan.json"
        file.write_text(plan.as_json())
        return str(file)

    def _drive(self, verb: str, what: str, point: str) -> None:
        """A process of its own on the JVM of the tests does it, and dies at that point if it passes there."""
        from tests.remedies.test_kill_matrix import take_callbacks_back

        gateway = self.spark.sparkContext._gateway
        given = {
            **os.environ,
            VARIABLE: point,
            PORT: str(gateway.gateway_parameters.port),
            SECRET: gateway.gateway_parameters.auth_token,
        }
        body = json.dumps({"environment": vars(self.environment), "settings": dict(self.settings)})
        command = [sys.executable, "-m", "tests.remedies.sequence_driver", body, verb, what]
        try:
            ran = subprocess.run(
                command, env=given, start_new_session=True, capture_output=True, text=True, check=False
            )
        finally:
            take_callbacks_back(gateway)
        assert ran.returncode in (0, 3, -signal.SIGKILL), ran.stderr[-3000:]
        if ran.returncode == 3:
            self.said.append(f"    refused: {ran.stderr.splitlines()[-1]}")
        elif ran.returncode == 0:
            self.said.append("    it did not pass there")


HOWS = ("reset", "reset", "beside", "from-output", "from-output", "from-batch-0", "from-batch-1", "from-middle")
# Seeds from here on rewind as well; those below are what they were before there was a rewind.
REWINDING = 100
REWINDS = ("rewind-0", "rewind-0", "rewind-1", "rewind-1", "rewind-2") * 3
POINTS_OF_A_REWIND = (
    "remedy.begun:1", "remedy.restore.marked:1", "remedy.restore.after_commit:2", "remedy.rewind.before_pair:1",
    "remedy.rewind.after_pair:2", "remedy.done.restore:3", "remedy.rewind.after_file:3", "remedy.rewind.written:1",
    "remedy.rewind.moved_aside:1", "remedy.rewind.placing:2", "remedy.rewind.after_place:1", "remedy.done.rewind:2",
    "remedy.journaled.rewind:1", "remedy.done.start:1", "remedy.released:1",
)  # fmt: skip


def chosen_seeds(number: int, and_rewinding: int = 0) -> list[int]:
    """So many, and of those that rewind; or those that SEQUENCES names."""
    named = [int(one) for one in os.environ.get("SEQUENCES", "").split(",") if one]
    return named or [*range(number), *range(REWINDING, REWINDING + and_rewinding)]


def acts_of(seed: int, number: int = 7) -> list[Act]:
    """The same for the same seed, on every machine."""
    hows = HOWS if seed < REWINDING else (*HOWS, *REWINDS)
    chance, found, standing = random.Random(seed), list[Act](), 0
    for _ in range(number):
        act = _act(chance, standing, hows, kills=True)
        found.append(act)
        done = act[3] if act[0] == "kill" else act
        taken_back = act[0] == "kill" and act[2] == "undo"
        if done[0] in ("remedy", "lose") and not taken_back:
            standing += 1
        if done[0] == "undo":
            standing -= 1
    return found


def _act(chance: random.Random, standing: int, hows: Sequence[str], kills: bool) -> Act:
    """standing: so many remedies can be undone. hows: what a remedy is chosen from."""
    kinds = {"land": 2, "run": 3, "remedy": 4, "undo": 5 if standing else 0, "hole": 1, "lose": 1, "kill": 3 * kills}
    kind = chance.choices(list(kinds), list(kinds.values()))[0]
    if kind == "land":
        return ("land", chance.choice((10, 20, 30)))
    if kind == "run":
        # All of them more often than not: a stage may also stay behind.
        return ("run", *STAGES[: chance.choice((1, 2, 3, 3))])
    if kind == "remedy":
        stages = ("raw-ingest", "raw-ingest", "deserialize", "merge-gold")
        return ("remedy", chance.choice(hows), chance.choice(stages), chance.random() < 0.3)
    if kind == "undo":
        return ("undo", chance.choice((0, 0, 0, 1)) if standing > 1 else 0)
    if kind == "hole":
        return ("hole", chance.choice(tuple(TABLES_OF)))
    if kind == "lose":
        return ("lose", chance.choice(STAGES))
    act = _act(chance, standing, hows, kills=False)
    while act[0] not in POINTS:
        act = _act(chance, standing, hows, kills=False)
    rewinds = act[0] == "remedy" and act[1] in REWINDS
    points = POINTS_OF_A_REWIND if rewinds else POINTS[act[0]]
    return ("kill", chance.choice(points), chance.choice(("again", "undo")), act)
