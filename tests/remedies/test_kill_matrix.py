"""Every remedy of every stage, killed at every place it passes; then the same plan again, another one, and an undo.

trace    an unharmed run writes down every failpoint it passes
kill     once at each: the driver dies by SIGKILL on a copy of the environment
hold     no half-done step is visible: a touched stage starts only where nothing was begun or all was released,
         and no other remedy begins meanwhile
end      apply goes on, acts once and every row is there once; from the same ruin, undo gives back checkpoints byte
         for byte and tables row for row, or says that what a backfill has written stays; a plan made then comes to its
         end as well

A place takes 15 to 40 s, a case 5 to 30 minutes; so each comes in parts, of every so many places. KILL_EVERY=2 takes
every second place of each case.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import FINISHED, RELEASED, WITHDRAWN, Journal, read_journals
from surestart.journal.unfinished import CODE
from surestart.remedies.apply.apply import ALREADY
from surestart.remedies.basis.plan import Plan
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.runs.runner import run_stage
from tests.foundation.rows import TABLES
from tests.gate.tree_bytes import bytes_of
from tests.remedies.remedy import (
    SETTINGS,
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    one_batch_more,
    replay,
    request,
    reset,
    rewind,
    run_stages,
    undo,
)
from tests.remedies.shared_driver import PORT, SECRET

pytestmark = pytest.mark.chaos

Planner = Callable[[Any, Environment], Plan]
HOLE = "offset BETWEEN 2 AND 5"
EVERY = int(os.environ.get("KILL_EVERY", "1"))
# Of each table and each checkpoint.
EACH_TIME = (".clear", ".retire", ".restore", ".rewind", "clear.after_commit", "restore.after_commit")
PARTS, PARTS_OF_AN_UNDO = 4, 2


@dataclass(frozen=True)
class Case:
    """`prepare` brings the environment to where the remedy is planned. `holds`: its stages may not start half-way.
    `ends_exact`: every row is there once when it has ended; `ends_as_before`: the tables hold what they held.
    `other`: a plan that may not begin meanwhile."""

    plan: Planner
    prepare: Callable[[Any, Environment], object] = lambda spark, environment: None
    holds: bool = True
    ends_exact: bool = True
    ends_as_before: bool = False
    other: Planner = lambda spark, environment: reset(spark, environment, "merge-gold", run=True)


def make_hole(spark: Any, environment: Environment, stage: str, *tables: str) -> None:
    """Rows of one file are gone from the tables of a stage and below; the streams below began anew behind that."""
    file = sorted(Path(environment.landing).iterdir())[1]
    for name in tables:
        spark.sql(f"DELETE FROM {environment.table(name).sql} WHERE source LIKE '%{file.name}' AND {HOLE}")
    below = list(chain_of(environment).below(stage))[1:]
    if below:
        for link in below:
            shutil.rmtree(link.checkpoint)
        apply(spark, environment, replay(spark, environment, below[0].name, ReplayFrom()))
        for link in below:
            run_stage(spark, environment, link.stage)


def backfill(stage: str) -> Planner:
    return lambda spark, environment: plan_backfill(
        spark, environment, chain_of(environment), stage, (), ArrivalTime(), request(run=True)
    )


def retire(stage: str, clear: bool) -> Planner:
    return lambda spark, environment: plan_retire(spark, environment, chain_of(environment), stage, clear, request())


def of_stage(stage: str) -> Planner:
    return lambda spark, environment: reset(spark, environment, stage, run=True)


def landed(environment: Environment, number: int) -> Path:
    return sorted(Path(environment.landing).iterdir())[number]


READ = ("sensor_readings_deserialized", "sensor_quarantine", "sensor_gold")
STAGES = ("raw-ingest", "deserialize", "merge-gold")
CASES = {
    **{
        f"reset {stage}": Case(lambda spark, environment, stage=stage: reset(spark, environment, stage, run=True))
        for stage in STAGES
    },
    **{
        f"replay {stage}": Case(
            lambda spark, environment, stage=stage: replay(spark, environment, stage, ReplayFrom(batch=1), run=True)
        )
        for stage in STAGES
    },
    "rewind raw-ingest": Case(lambda spark, environment: rewind(spark, environment, "raw-ingest", 1, run=True)),
    **{
        f"rewind {stage}": Case(
            lambda spark, environment, stage=stage: rewind(spark, environment, stage, 0, run=True), one_batch_more
        )
        for stage in STAGES[1:]
    },
    "backfill raw-ingest": Case(
        backfill("raw-ingest"),
        lambda spark, environment: make_hole(spark, environment, "raw-ingest", "sensor_raw", *READ),
        holds=False,
        other=of_stage("raw-ingest"),
    ),
    "backfill deserialize": Case(
        backfill("deserialize"),
        lambda spark, environment: make_hole(spark, environment, "deserialize", *READ),
        holds=False,
        other=of_stage("deserialize"),
    ),
    "backfill merge-gold": Case(
        backfill("merge-gold"),
        lambda spark, environment: spark.sql(
            f"DELETE FROM {environment.table('sensor_gold').sql} WHERE {HOLE}"
        ).collect(),
        holds=False,
        other=of_stage("merge-gold"),
    ),
    **{f"retire {stage}": Case(retire(stage, False), ends_exact=False, other=of_stage(stage)) for stage in STAGES},
    "retire merge-gold and its table": Case(retire("merge-gold", True), ends_exact=False),
    "lost checkpoint of raw-ingest": Case(
        lambda spark, environment: replay(spark, environment, "raw-ingest", ReplayFrom(), run=True),
        lambda spark, environment: shutil.rmtree(environment.checkpoint("raw-ingest")),
    ),
    "positions of raw-ingest": Case(
        lambda spark, environment: replay(
            spark,
            environment,
            "raw-ingest",
            ReplayFrom(positions={f"file:{landed(environment, 2)}": {"0": 4}}),
            run=True,
        )
    ),
    "keep what raw-ingest has lost": Case(
        lambda spark, environment: reset(spark, environment, "raw-ingest", run=True, keep_lost=True),
        lambda spark, environment: landed(environment, 0).unlink(),
        ends_exact=False,
        ends_as_before=True,
    ),
}


class Ground:
    """The environment and copies of it, each put back as often as it is needed."""

    def __init__(self, spark: Any, environment: Environment, place: Path) -> None:
        self.spark, self.environment, self.place = spark, environment, place
        self.root = Path(environment.root)

    def keep(self, name: str) -> None:
        shutil.rmtree(self.place / name, ignore_errors=True)
        shutil.copytree(self.root, self.place / name)

    def put_back(self, name: str) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.place / name, self.root)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def drive(self, verb: str, plan: Plan, point: str = "") -> tuple[int, list[str], str]:
        """Exit code, the failpoints it passed, what it said."""
        file, trace = self.place / "plan.json", self.place / "trace"
        file.write_text(plan.as_json())
        trace.unlink(missing_ok=True)
        gateway = self.spark.sparkContext._gateway
        given = {
            **os.environ,
            "SURESTART_FAILPOINT": point,
            PORT: str(gateway.gateway_parameters.port),
            SECRET: gateway.gateway_parameters.auth_token,
        }
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "tests.remedies.shared_driver", str(self.root), verb, str(file), str(trace)],
                env=given,
                start_new_session=True,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            take_callbacks_back(gateway)
        return ran.returncode, trace.read_text().split() if trace.exists() else [], ran.stderr[-3000:]

    def trace(self, verb: str, plan: Plan) -> list[str]:
        self.keep("unharmed")
        code, passed, said = self.drive(verb, plan)
        assert code == 0, said
        self.put_back("unharmed")
        return passed

    def kill(self, verb: str, plan: Plan, point: str) -> None:
        code, passed, said = self.drive(verb, plan, point)
        assert code == -signal.SIGKILL, said
        assert passed[-1] == point.partition(":")[0]


def take_callbacks_back(gateway: Any) -> None:
    """The JVM calls the functions of foreachBatch in the process that began last; that one has ended."""
    from py4j.java_gateway import JavaObject

    if gateway.__dict__.get("_callback_server") is not None:
        server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
        server.resetCallbackClient(server.getCallbackClient().getAddress(), gateway._python_proxy_port)


def places(passed: list[str], case: str) -> list[str]:
    """Each name once, as `name:n`; which of its times is chosen by the case, so that cases differ. Each table and each
    checkpoint where a step of theirs ends."""
    chance, found = random.Random(case), list[str]()
    for name, times in Counter(passed).items():
        every = name.endswith(
            (".clear", ".retire", ".restore", ".rewind", "clear.after_commit", "restore.after_commit")
        )
        found += [f"{name}:{number}" for number in (range(1, times + 1) if every else [chance.randint(1, times)])]
    return found[chance.randrange(EVERY) :: EVERY]


def journal_of(environment: Environment, plan: Plan) -> Journal | None:
    return next((one for one in read_journals(environment) if one.digest == plan.digest), None)


def assert_held(ground: Ground, plan: Plan, other: Plan, verb: str, holds: bool) -> None:
    """Between the kill and its end: nothing can begin over a half-done remedy, and nothing is changed by trying."""
    spark, environment = ground.spark, ground.environment
    before = bytes_of(environment)
    with pytest.raises(Refused) as refused:
        apply(spark, environment, other)
    assert refused.value.code == CODE
    assert plan.digest[:12] in refused.value.what
    if holds:
        for stage in build_stages(SETTINGS):
            if stage.name in plan.touched:
                with pytest.raises(Refused) as refused:
                    run_stage(spark, environment, stage)
                assert refused.value.code == CODE
                assert f"surestart {verb} {plan.digest[:12]}" in str(refused.value.next)
    assert bytes_of(environment) == before


def assert_goes_on(ground: Ground, plan: Plan, case: Case, before: dict[str, Any]) -> None:
    spark, environment = ground.spark, ground.environment
    apply(spark, environment, plan)
    journal = journal_of(environment, plan)
    assert journal is not None
    assert journal.state == FINISHED
    assert len(journal.done) == len(plan.steps)
    ended = bytes_of(environment)
    assert apply(spark, environment, plan).outcome == ALREADY
    assert bytes_of(environment) == ended
    if case.ends_as_before:
        found = contents(spark, environment)
        assert {name for name in TABLES if found[name] != before[name]} == set()
    if case.ends_exact:
        assert_ends_exact(ground)


def assert_ends_exact(ground: Ground) -> None:
    land_more(ground.environment)
    run_stages(ground.spark, ground.environment)
    assert_exact(ground.environment)


def assert_another_ends(ground: Ground, case: Case) -> None:
    """A plan that is made now, for the same."""
    another = case.plan(ground.spark, ground.environment)
    if another.steps:
        apply(ground.spark, ground.environment, another)
    if case.ends_exact:
        assert_ends_exact(ground)


def assert_withdrawn(ground: Ground, plan: Plan) -> None:
    """Of a backfill: it writes no more rows; what it has written stays."""
    with contextlib.suppress(Refused):
        undo(ground.spark, ground.environment, plan)
    journal = journal_of(ground.environment, plan)
    assert journal is not None
    assert not journal.is_unfinished


def assert_undone(ground: Ground, plan: Plan, before: dict[str, Any]) -> None:
    undo(ground.spark, ground.environment, plan)
    journal = journal_of(ground.environment, plan)
    assert journal is not None
    assert journal.state == WITHDRAWN
    found = contents(ground.spark, ground.environment)
    assert {name for name in before if found[name] != before[name]} == set()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", CASES)
def test_an_apply_killed_at_every_place_goes_on_or_is_undone(
    spark: Any, stood: Environment, tmp_path: Path, name: str, part: int, classic_only: None
) -> None:
    case, ground = CASES[name], Ground(spark, stood, tmp_path)
    case.prepare(spark, stood)
    before = contents(spark, stood)
    plan = case.plan(spark, stood)
    other = case.other(spark, stood)
    points = places(ground.trace("apply", plan), name)
    assert len(points) >= 10 / EVERY
    ground.keep("before")
    chosen = random.Random(name).choice(points)
    for point in points[part::PARTS]:
        print(f"{name}: killed at {point}")
        ground.put_back("before")
        ground.kill("apply", plan, point)
        ground.keep("killed")
        journal = journal_of(stood, plan)
        if journal is None:
            assert contents(spark, stood) == before
        elif journal.is_unfinished:
            assert_held(ground, plan, other, "apply", case.holds)
        else:
            assert journal.state in (RELEASED, FINISHED)
        assert_goes_on(ground, plan, case, before)
        if journal is None:
            continue
        ground.put_back("killed")
        if plan.undo:
            assert_undone(ground, plan, before)
        else:
            assert_withdrawn(ground, plan)
        if point in (chosen, points[-1]) or not plan.undo:
            assert_another_ends(ground, case)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("backfill")])
def test_a_backfill_whose_withdrawal_was_killed_is_withdrawn(
    spark: Any, stood: Environment, tmp_path: Path, name: str, classic_only: None
) -> None:
    case, ground = CASES[name], Ground(spark, stood, tmp_path)
    case.prepare(spark, stood)
    plan = case.plan(spark, stood)
    ground.kill("apply", plan, "remedy.begun:1")
    ground.keep("begun")
    for point in places(ground.trace("undo", plan), name):
        ground.put_back("begun")
        ground.kill("undo", plan, point)
        with pytest.raises(Refused, match="is being undone"):
            apply(spark, stood, plan)
        assert_withdrawn(ground, plan)
        assert_another_ends(ground, case)


@pytest.mark.parametrize("part", range(PARTS_OF_AN_UNDO))
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("backfill")])
def test_an_undo_killed_at_every_place_goes_on(
    spark: Any, stood: Environment, tmp_path: Path, name: str, part: int, classic_only: None
) -> None:
    case, ground = CASES[name], Ground(spark, stood, tmp_path)
    case.prepare(spark, stood)
    before = contents(spark, stood)
    plan = case.plan(spark, stood)
    apply(spark, stood, plan)
    other = case.other(spark, stood)
    points = places(ground.trace("undo", plan), name)
    assert len(points) >= 4 / EVERY
    ground.keep("applied")
    for point in points[part::PARTS_OF_AN_UNDO]:
        print(f"{name}: its undo killed at {point}")
        ground.put_back("applied")
        ground.kill("undo", plan, point)
        journal = journal_of(stood, plan)
        assert journal is not None
        if journal.is_unfinished:
            assert_held(ground, plan, other, "undo", case.holds)
            with pytest.raises(Refused, match="is being undone"):
                apply(spark, stood, plan)
        if journal.state != WITHDRAWN:
            assert_undone(ground, plan, before)
        with pytest.raises(Refused):
            apply(spark, stood, plan)
