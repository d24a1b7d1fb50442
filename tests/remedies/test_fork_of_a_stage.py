"""A fork of one of surestart's own stages: new code on the state and the rows of a batch, by `open_fork`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import surestart
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.failpoints import VARIABLE
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.planning.plan_remedy import plan_remedy
from surestart.remedies.planning.wanted import Wanted
from tests.foundation.rows import table_rows
from tests.remedies.remedy import SETTINGS, chain_of, contents, land_more, one_batch_more

KILLED = (
    "remedy.fork.opened",
    "remedy.fork.cloned",
    "remedy.fork.told",
    "remedy.rewind.after_file:2",
    "remedy.fork.cut",
    "remedy.fork.declared",
)


class Died(BaseException):
    """In place of a process that is killed: nothing of the code catches it."""


def logs(environment: Environment) -> dict[str, Any]:
    """Each file of each table of the original but the journal's, in which the plan itself is."""
    tables = Path(environment.root) / "tables"
    return {path.name: read_manifest(path) for path in tables.iterdir() if path.name != "surestart_remedies"}


def fork_of(spark: Any, environment: Environment, stage: str, folder: Path, batch: int) -> Any:
    wanted = Wanted("rewind", stage, to_batch=batch, beside=str(folder))
    return plan_remedy(spark, environment, chain_of(environment), wanted, settings=SETTINGS)


def apply(spark: Any, environment: Environment, plan: Any) -> None:
    apply_plan(spark, environment, chain_of(environment), plan, lambda asked: asked.target)


def undo(spark: Any, environment: Environment, plan: Any) -> None:
    undo_remedy(spark, environment, chain_of(environment), plan, lambda asked: asked.target)


@pytest.mark.long(instead="remedies/test_fork_folder.py::test_a_fork_is_dropped_and_nothing_beside_it")
@pytest.mark.parametrize("stage", ["raw-ingest", pytest.param("deserialize", marks=pytest.mark.chaos)])
def test_new_code_runs_on_the_fork_and_the_stage_goes_on(
    spark: Any, stood: Environment, tmp_path: Path, stage: str
) -> None:
    one_batch_more(spark, stood)
    batch = 1 if stage == "raw-ingest" else 0
    before, files = contents(spark, stood), logs(stood)
    plan = fork_of(spark, stood, stage, tmp_path / "fork", batch)
    print("\n".join([*plan.statements, *(step.what for step in plan.steps)]))
    apply(spark, stood, plan)
    fork = surestart.open_fork(stood, tmp_path / "fork")
    link = chain_of(stood).link(stage)
    names = [output.table.name for output in link.outputs]
    rows = {name: table_rows(spark, fork, name).total() for name in names}
    assert sum(rows.values()) < sum(before[name].total() for name in names)

    (code,) = [one for one in build_stages(SETTINGS) if one.name == stage]
    halved = replace(code, transform=lambda given: code.transform(given).where("offset % 2 = 0"))
    surestart.run_stage(spark, fork, halved)
    after = {name: table_rows(spark, fork, name) for name in names}
    # Every second row of what came after the batch, and nothing else.
    added = sum(found.total() for found in after.values()) - sum(rows.values())
    whole = sum(before[name].total() for name in names) - sum(rows.values())
    assert 0 < added < whole
    assert logs(stood) == files
    assert contents(spark, stood) == before

    undo(spark, stood, plan)
    assert not (tmp_path / "fork").exists()
    assert logs(stood) == files
    land_more(stood)


@pytest.mark.chaos
@pytest.mark.parametrize("point", KILLED)
@pytest.mark.parametrize("then", ["apply", "undo"])
def test_a_fork_that_died_is_carried_on_or_dropped(
    spark: Any, stood: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, then: str
) -> None:
    before, files = contents(spark, stood), logs(stood)
    plan = fork_of(spark, stood, "raw-ingest", tmp_path / "fork", 1)
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, point)
        patch.setattr("surestart.failpoints._kill_run", die)
        patch.setattr("surestart.failpoints._reached", type(__import__("collections").Counter())())
        with pytest.raises(Died):
            apply(spark, stood, plan)
    assert logs(stood) == files
    if then == "apply":
        apply(spark, stood, plan)
        fork = surestart.open_fork(stood, tmp_path / "fork")
        assert table_rows(spark, fork, "sensor_raw").total() > 0
    undo(spark, stood, plan)
    assert list(tmp_path.glob("*fork*")) == []
    assert logs(stood) == files
    assert contents(spark, stood) == before


def die() -> None:
    raise Died


@pytest.mark.long(instead="remedies/test_fork_folder.py::test_a_folder_of_somebody_else_is_not_opened")
def test_a_fork_needs_a_folder_and_a_reset_takes_none(spark: Any, stood: Environment, tmp_path: Path) -> None:
    for wanted in (
        Wanted("rewind", "raw-ingest", to_batch=1, beside=True),
        Wanted("rewind", "raw-ingest", to_batch=1, beside=str(tmp_path / "fork"), no_run=True),
        Wanted("reset", "raw-ingest", beside=str(tmp_path / "fork")),
    ):
        with pytest.raises(UsageError):
            plan_remedy(spark, stood, chain_of(stood), wanted)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("somebody's")
    for place in (tmp_path / "taken", Path(stood.landing) / "fork", Path(stood.table("sensor_raw").path) / "fork"):
        with pytest.raises(Refused) as said:
            fork_of(spark, stood, "raw-ingest", place, 1)
        assert said.value.code == "PlaceNotFree"
    with pytest.raises(UsageError) as none:
        surestart.open_fork(stood, tmp_path)
    assert none.value.code == "ForkNotThere"
