"""A remedy killed anywhere goes on, or is undone; until then no stage that it touches starts, and no other remedy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli.main import build_parser
from surestart.cli.plan import make_plan
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import FINISHED, WITHDRAWN, read_journals
from surestart.journal.unfinished import CODE
from surestart.remedies.basis.plan import Plan
from surestart.runs.runner import run_stage
from tests.gate.tree_bytes import bytes_of
from tests.remedies.remedy import (
    SETTINGS,
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    reset,
    run_stages,
    undo,
)


def killed(environment: Environment, verb: str, plan: Plan, point: str, place: Path) -> None:
    """A driver of its own was applying or undoing the plan, and was killed there with its JVM."""
    file = place / "plan.json"
    file.write_text(plan.as_json())
    died = subprocess.run(
        [sys.executable, "-m", "tests.remedies.drive", environment.root, verb, str(file)],
        env={**os.environ, "SURESTART_FAILPOINT": point},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]


def assert_no_stage_starts(spark: Any, environment: Environment, plan: Plan, verb: str) -> None:
    for stage in build_stages(SETTINGS):
        if stage.name not in plan.touched:
            continue
        before = bytes_of(environment)
        with pytest.raises(Refused) as refused:
            run_stage(spark, environment, stage)
        assert refused.value.code == CODE
        assert f"surestart {verb} {plan.digest[:12]}" in str(refused.value.next)
        assert bytes_of(environment) == before


def assert_no_other_remedy(spark: Any, environment: Environment, plan: Plan, other: Plan) -> None:
    """Neither planned now, nor applied when it was planned before."""
    arguments = build_parser("plan").parse_args(["plan", "reset", "deserialize", "--root", environment.root])
    before = bytes_of(environment)
    with pytest.raises(Refused) as refused:
        make_plan(spark, environment, chain_of(environment), arguments, SETTINGS)
    assert refused.value.code == CODE
    with pytest.raises(Refused) as refused:
        apply(spark, environment, other)
    assert refused.value.code == CODE
    assert plan.digest[:12] in refused.value.what
    assert bytes_of(environment) == before


def assert_applied(spark: Any, environment: Environment, plan: Plan) -> None:
    """The same plan goes on, acts once, and the stages bring every row once."""
    apply(spark, environment, plan)
    (journal,) = (one for one in read_journals(environment) if one.digest == plan.digest)
    assert journal.state == FINISHED
    assert len(journal.done) == len(plan.steps)
    before = bytes_of(environment)
    apply(spark, environment, plan)
    assert bytes_of(environment) == before
    land_more(environment)
    run_stages(spark, environment)
    assert_exact(environment)


def assert_undone(spark: Any, environment: Environment, plan: Plan, before: dict[str, Any]) -> None:
    """Checkpoints byte for byte, tables row for row, and the stages go on from there."""
    undo(spark, environment, plan)
    (journal,) = (one for one in read_journals(environment) if one.digest == plan.digest)
    assert journal.state == WITHDRAWN
    found = contents(spark, environment)
    assert {name for name in before if found[name] != before[name]} == set()
    land_more(environment)
    run_stages(spark, environment)
    assert_exact(environment)


@contextmanager
def put_back_after(environment: Environment, place: Path) -> Iterator[None]:
    """What the block does to the environment is taken back."""
    root = Path(environment.root)
    shutil.copytree(root, place / "as-killed")
    yield
    shutil.rmtree(root)
    shutil.copytree(place / "as-killed", root)


@pytest.mark.long(
    instead="remedies/test_commit_once.py::test_an_undo_that_died_between_its_mark_and_its_restore_goes_on"
)
def test_a_remedy_killed_between_two_tables_holds_its_stages_and_goes_on(
    spark: Any, stood: Environment, tmp_path: Path
) -> None:
    plan = reset(spark, stood, "deserialize")

    killed(stood, "apply", plan, "remedy.clear.after_commit:2", tmp_path)

    assert_no_stage_starts(spark, stood, plan, "apply")
    assert_applied(spark, stood, plan)


HALF_WAY = [
    "remedy.begun",
    "remedy.clear.after_commit:1",
    "remedy.clear.after_commit:3",
    "remedy.done.clear",
    "remedy.move.before_removal",
    "remedy.done.retire",
    "remedy.done.start",
    "remedy.journaled.start",
]


@pytest.mark.chaos
@pytest.mark.parametrize("point", [*HALF_WAY, "remedy.released"])
def test_a_remedy_killed_anywhere_goes_on_or_is_undone(
    spark: Any, stood: Environment, tmp_path: Path, point: str
) -> None:
    before = contents(spark, stood)
    other, plan = reset(spark, stood, "deserialize"), reset(spark, stood, "raw-ingest")

    killed(stood, "apply", plan, point, tmp_path)

    if point in HALF_WAY:
        assert_no_stage_starts(spark, stood, plan, "apply")
        assert_no_other_remedy(spark, stood, plan, other)
    with put_back_after(stood, tmp_path):
        assert_applied(spark, stood, plan)
    assert_undone(spark, stood, plan, before)


@pytest.mark.chaos
@pytest.mark.parametrize("ran", [False, True], ids=["not run since", "run since"])
@pytest.mark.parametrize("point", ["remedy.undoing", "remedy.restore.after_commit", "remedy.undone.retire"])
def test_an_undo_killed_anywhere_goes_on(spark: Any, stood: Environment, tmp_path: Path, point: str, ran: bool) -> None:
    before = contents(spark, stood)
    plan = reset(spark, stood, "raw-ingest")
    apply(spark, stood, plan)
    if ran:
        land_more(stood)
        run_stages(spark, stood)

    killed(stood, "undo", plan, point, tmp_path)

    assert_no_stage_starts(spark, stood, plan, "undo")
    with pytest.raises(Refused, match="is being undone"):
        apply(spark, stood, plan)
    assert_undone(spark, stood, plan, before)
