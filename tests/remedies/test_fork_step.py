"""A fork planned, written, declared and judged, without Spark: what Delta makes of a clone is put there by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import surestart
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.fork import open_fork
from surestart.history.claim_file import claims_folder
from surestart.journal.journal import BEGUN, Journal, JournalEntry
from surestart.remedies.basis.plan import Plan, check_names, check_touched, parse_plan
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.planning.plan_fork import plan_fork
from surestart.remedies.planning.rewind_choice import RewindTo
from surestart.remedies.planning.wanted import Request
from surestart.remedies.steps import clone, fork
from surestart.report.html.plan import render_plan_html
from surestart.report.text.plan import render_plan
from surestart.streams.as_pipeline import environment_of_streams, stage_of_stream
from surestart.streams.project_file import read_project_file
from surestart.verdict.ask_stages import ask_stage
from surestart.words.finding import Verdict
from tests.deltalog.handmade import add, create, info, txn, write_commit
from tests.remedies.move import dies_at, write_entries
from tests.remedies.remedy import chain_of
from tests.remedies.test_rewind_step import LAST, OLD, STAGE, fill

NOW = 1_790_000_000_000


@pytest.fixture
def stood(environment: Environment) -> Environment:
    fill(environment)
    for batch in range(LAST + 1):
        (Path(environment.table("sensor_raw").path) / f"{batch}.parquet").write_bytes(b"rows")
        (Path(environment.landing) / str(batch)).write_text("landed")
    return environment


def plan_of(environment: Environment, folder: Path, batch: int | None) -> Plan:
    to = RewindTo(batch)
    return plan_fork(None, environment, chain_of(environment), STAGE, to, str(folder), Request({}))  # type: ignore[arg-type]


def running(environment: Environment, plan: Plan) -> StepContext:
    entries = (JournalEntry(plan.digest, 0, BEGUN, remedy="rewind", stage=STAGE),)
    write_entries(environment, entries)
    return StepContext(None, environment, chain_of(environment), plan, Journal(entries), print)  # type: ignore[arg-type]


def cloned(plan: Plan) -> None:
    """As Delta does it: a log of its own over the files of the original, and then the pair."""
    said = plan.steps[0].arguments
    table, of = Path(str(said["to"])), "file:/data/tables/sensor_raw"
    made = {"source": "delta.`/data/tables/sensor_raw`", "sourceVersion": str(said["version"])}
    batches = range(int(said["version"]))
    write_commit(table, 0, info("CLONE", operationParameters=made), *create()[1:], *(add(f"{of}/{n}") for n in batches))
    write_commit(table, 1, info("WRITE", timestamp=NOW), txn(str(said["query_id"]), int(said["batch"]), NOW))


def originals(environment: Environment) -> dict[str, Any]:
    tables = Path(environment.root) / "tables"
    found = {path.name: read_manifest(path) for path in tables.iterdir() if path.name != "surestart_remedies"}
    return {**found, "checkpoint": read_manifest(Path(environment.checkpoint(STAGE)))}


def made(environment: Environment, folder: Path, batch: int | None) -> tuple[Plan, StepContext]:
    plan = plan_of(environment, folder, batch)
    run = running(environment, plan)
    folder.mkdir()
    cloned(plan)
    (folder / "tables").rename(folder.with_name("by-hand"))
    folder.rmdir()
    fork.open_folder(folder, {**plan.steps[0].arguments["note"], "digest": plan.digest})
    folder.with_name("by-hand").rename(folder / "tables")
    return plan, run


@pytest.mark.parametrize("batch", [0, 1, LAST, None])
def test_a_fork_is_planned_written_declared_and_safe(stood: Environment, tmp_path: Path, batch: int | None) -> None:
    before, folder = originals(stood), tmp_path / "fork"
    plan, run = made(stood, folder, batch)
    wanted = LAST if batch is None else batch
    assert parse_plan(plan.as_json(), "it").digest == plan.digest
    check_names(plan, chain_of(stood), stood)
    check_touched(plan, chain_of(stood), stood)
    assert (plan.queries, plan.touched, plan.preconditions) == ((), (), {})
    assert plan.steps[0].arguments["version"] == wanted + 1

    assert f", {plan.method}\n" in render_plan(plan)
    assert "Nothing else is touched" in render_plan_html(plan)
    clone.apply_step(run, plan.steps[0])
    facts = fork.apply_step(run, plan.steps[1])
    again = fork.apply_step(run, plan.steps[1])
    assert facts == again
    project = read_project_file(folder / "surestart.toml")
    found = read_checkpoint(project.streams[0].checkpoint)
    assert (found.latest_planned, found.query_id) == (wanted, plan.steps[1].arguments["query_id"])
    judged = ask_stage(environment_of_streams(project), stage_of_stream(project.streams[0]))
    assert judged.verdict is Verdict.SAFE, judged.findings
    assert originals(stood) == before
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "fork.json", "surestart.toml", "tables"]
    fork.check_fork(run)
    assert fork.undo_step(run, plan.steps[1]) == {"dropped": True}
    assert clone.undo_step(run, plan.steps[0]) == {"dropped": False}
    assert not folder.exists()
    assert originals(stood) == before


@pytest.mark.parametrize("point", ["remedy.rewind.after_file:2", "remedy.fork.cut", "remedy.fork.declared"])
def test_a_fork_that_died_goes_on_or_is_dropped(stood: Environment, tmp_path: Path, point: str) -> None:
    before, folder = originals(stood), tmp_path / "fork"
    plan, run = made(stood, folder, 1)
    dies_at(point, lambda: fork.apply_step(run, plan.steps[1]))
    fork.apply_step(run, plan.steps[1])
    assert read_project_file(folder / "surestart.toml").streams
    fork.undo_step(run, plan.steps[1])
    assert not folder.exists()
    assert originals(stood) == before


def test_one_of_our_stages_runs_in_the_fork_and_reads_what_the_original_reads(
    stood: Environment, tmp_path: Path
) -> None:
    folder = tmp_path / "fork-2026-11-20"
    plan, run = made(stood, folder, 1)
    fork.apply_step(run, plan.steps[1])
    there = open_fork(stood, folder)
    (code,) = [one for one in build_stages({}) if one.name == STAGE]

    assert there.table("sensor_raw").path == f"{folder}/tables/sensor_raw"
    assert there.table("sensor_gold").path == stood.table("sensor_gold").path
    assert there.table("surestart_runs").path == f"{folder}/tables/surestart_runs"
    assert there.checkpoint(STAGE) == plan.steps[1].arguments["to"]
    assert claims_folder(there) == folder / "claims"
    assert code.declare(there).sources == code.declare(stood).sources
    (judged,) = surestart.diagnose(there, [code])
    assert judged.verdict is Verdict.SAFE, judged.findings
    with pytest.raises(UsageError):
        open_fork(stood, tmp_path)


def test_what_no_clone_can_be_made_of_is_refused(stood: Environment, tmp_path: Path) -> None:
    table = Path(stood.table("sensor_raw").path)
    (table / "0.parquet").unlink()
    with pytest.raises(Refused) as gone:
        plan_of(stood, tmp_path / "fork", 1)
    assert gone.value.code == "VersionGone"
    table.rename(table.with_name("elsewhere"))
    with pytest.raises(UsageError) as unwritten:
        plan_of(stood, tmp_path / "fork", 1)
    assert unwritten.value.code == "ForkNotOffered"
    table.with_name("elsewhere").rename(table)
    (table / "0.parquet").write_bytes(b"rows")
    with pytest.raises(Refused) as future:
        plan_of(stood, tmp_path / "fork", LAST + 1)
    assert future.value.code == "BatchNotPossible"
    assert not (tmp_path / "fork").exists()


def test_a_stream_that_was_rewound_meanwhile_is_not_forked(stood: Environment, tmp_path: Path) -> None:
    """Its batch 1 is another one by now."""
    plan, run = made(stood, tmp_path / "fork", 1)
    metadata = Path(stood.checkpoint(STAGE)) / "metadata"
    metadata.write_text(metadata.read_text().replace(OLD, "another"))
    with pytest.raises(Refused) as said:
        fork.apply_step(run, plan.steps[1])
    assert said.value.code == "PlanStale"


def test_a_fork_whose_clone_knows_nothing_of_it_is_not_offered_as_safe(stood: Environment, tmp_path: Path) -> None:
    plan, run = made(stood, tmp_path / "fork", 1)
    table = Path(str(plan.steps[0].arguments["to"]))
    (table / "_delta_log" / f"{1:020}.json").unlink()
    write_commit(table, 1, info("WRITE", timestamp=NOW), txn(str(plan.steps[0].arguments["query_id"]), 3, NOW))
    with pytest.raises(Refused) as said:
        fork.apply_step(run, plan.steps[1])
    assert said.value.code == "CutNotSafe"
    assert not (tmp_path / "fork" / "surestart.toml").exists()
