"""Apply and undo stop the jobs of their stages first and set them as they were at the end, whatever happens between.

The client is the real databricks-sdk, which finds the workspace by its environment variables; the workspace is ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli.main import build_parser
from surestart.cli.plan import make_plan
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused, StoppedHalfway, SurestartError
from surestart.history.run_record import RunRecord
from surestart.journal.journal import FILLING, FINISHED, RELEASED, WITHDRAWN, Journal, read_journals
from surestart.journal.protocol import UNPAUSE
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.beside import BesideNotExact
from surestart.remedies.basis.plan import Plan, Step, parse_plan
from surestart.remedies.basis.step_context import StopOptions
from surestart.remedies.jobs.plan_jobs import add_jobs, is_known_to_jobs, stops_jobs
from surestart.remedies.jobs.state import JobState, JobTrigger
from surestart.report.text.plan import render_plan
from surestart.runs.start_gate import open_gate
from tests.foundation.rows import TABLES
from tests.remedies.jobs_api_server import JobsApi, jobs_api
from tests.remedies.remedy import SETTINGS, assert_exact, chain_of, contents, run_stages
from tests.remedies.test_beside import delete_a_row
from tests.remedies.test_databricks_jobs import CRON, FILES
from tests.remedies.test_killed import assert_no_stage_starts, killed

STAGE, OURS, PAUSED_BY_SOMEBODY = "merge-gold", 11, 12
QUICK = StopOptions(poll_seconds=0.001, limit_seconds=20.0)


@pytest.fixture
def workspace(stood: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[JobsApi]:
    """Two jobs run the stage: one by a schedule, with an active run, and one that somebody has paused."""
    with jobs_api() as server:
        monkeypatch.setenv("DATABRICKS_HOST", server.url)
        monkeypatch.setenv("DATABRICKS_TOKEN", "not-a-secret")
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none"))
        for job_id, trigger in ((OURS, {"schedule": dict(CRON)}), (PAUSED_BY_SOMEBODY, _paused(FILES))):
            server.space.jobs[job_id] = {**job_of(stood), **trigger}
        server.space.add_run(OURS)
        yield server


def _paused(files: dict[str, Any]) -> dict[str, Any]:
    return {"trigger": {**files, "pause_status": "PAUSED"}}


def job_of(environment: Environment, stage: str = STAGE) -> dict[str, Any]:
    words = ["run", stage, "--env=local", f"--set=root={environment.root}"]
    return {
        "name": f"sensor-{stage}",
        "tags": {"pipeline": "sensor", "stage": stage, "environment": "local"},
        "tasks": [{"task_key": "t", "python_wheel_task": {"parameters": words}}],
    }


def planned(spark: Any, environment: Environment, *words: str) -> Plan:
    given = [*(words or ("reset", STAGE, "--no-run")), "--jobs", "all", "--root", environment.root]
    arguments = build_parser("plan").parse_args(["plan", *given])
    return make_plan(spark, environment, chain_of(environment), arguments, SETTINGS)


def quiet(line: str) -> None:
    """Nobody waits."""


def apply(
    spark: Any,
    environment: Environment,
    plan: Plan,
    stopping: StopOptions = QUICK,
    say: Callable[[str], None] = quiet,
) -> Journal:
    done = apply_plan(spark, environment, chain_of(environment), plan, lambda plan: plan.target, say, stopping)
    return done.journal


def undo(
    spark: Any,
    environment: Environment,
    plan: Plan,
    stopping: StopOptions = QUICK,
    say: Callable[[str], None] = quiet,
) -> Journal:
    return undo_remedy(
        spark,
        environment,
        chain_of(environment),
        plan,
        lambda plan: plan.target,
        say,
        stopping=stopping,
    )


def journal_of(environment: Environment, plan: Plan) -> Journal:
    return next(one for one in read_journals(environment) if one.digest == plan.digest)


def are_set_as_before(server: JobsApi) -> bool:
    space = server.space
    ours = space.pause_status(OURS, "schedule") in (None, "UNPAUSED")
    return ours and space.pause_status(PAUSED_BY_SOMEBODY, "trigger") == "PAUSED"


def versions(environment: Environment) -> int:
    return len(list((Path(environment.table("sensor_gold").path) / "_delta_log").glob("*.json")))


@pytest.mark.chaos
def test_jobs_are_stopped_before_anything_is_cleared_and_set_as_they_were_at_the_end(
    spark: Any, stood: Environment, workspace: JobsApi
) -> None:
    before = contents(spark, stood)
    plan = planned(spark, stood, "reset", STAGE)
    assert parse_plan(plan.as_json(), "plan.json").digest == plan.digest
    assert [step.id for step in plan.steps][:3] == ["jobs", "stop", "look"]
    assert plan.steps[-1].id == "unpause"
    assert "sensor-merge-gold (job 11): schedule active; active runs 901" in plan.steps[0].what
    assert workspace.called("update", "runs/cancel") == []

    seen: list[tuple[str, int, str]] = []

    def note(what: str) -> Any:
        return lambda space: seen.append((what, versions(stood), journal_of(stood, plan).state))

    # Called once each: at the first update, which pauses, and then at the one that un-pauses.
    held = versions(stood)
    workspace.meanwhile["update"] = lambda space: (note("pause")(space), _at_the_next(workspace, note("unpause")))
    journal = apply(spark, stood, plan)

    assert (journal.state, journal.paused_jobs) == (FINISHED, None)
    assert [(what, state) for what, _, state in seen] == [("pause", "begun"), ("unpause", RELEASED)]
    assert seen[0][1] == held < seen[1][1]
    assert workspace.space.runs[901].state == "TERMINATED"
    assert are_set_as_before(workspace)
    assert journal.facts("certify")["exact"]
    calls = len(workspace.called("update"))
    apply(spark, stood, plan)
    assert len(workspace.called("update")) == calls

    # The undo that has to wait for too long is given up, and the jobs go on.
    workspace.space.add_run(OURS, after_cancel=None)
    after = contents(spark, stood)
    with pytest.raises(Refused) as refused:
        undo(spark, stood, plan, StopOptions(poll_seconds=0.001, limit_seconds=0.0))
    assert refused.value.code == "RunDoesNotEnd"
    assert "Nothing was taken back. The jobs are set as they were." in refused.value.meaning
    assert journal_of(stood, plan).state == FINISHED
    assert are_set_as_before(workspace)
    assert contents(spark, stood) == after

    workspace.space.runs[902].state = "TERMINATED"
    assert undo(spark, stood, plan).state == WITHDRAWN
    assert are_set_as_before(workspace)
    assert contents(spark, stood) == before
    run_stages(spark, stood)
    assert_exact(stood)


def _at_the_next(server: JobsApi, act: Any) -> None:
    server.meanwhile["update"] = act


# The point, and what continues it. What the stages do afterwards is left to `make chaos`.
FIRST = "remedy.jobs_stopped"
POINTS = [
    pytest.param(FIRST, "apply", marks=pytest.mark.chaos),
    pytest.param("remedy.journaled.jobs", "apply", marks=pytest.mark.chaos),
    pytest.param("jobs.after_pause", "undo", marks=pytest.mark.chaos),
    pytest.param("remedy.journaled.look", "undo", marks=pytest.mark.chaos),
    pytest.param("remedy.done.clear", "undo", marks=pytest.mark.chaos),
    pytest.param("jobs.after_unpause", "apply", marks=pytest.mark.chaos),
]


@pytest.mark.parametrize(("point", "verb"), POINTS)
def test_killed_with_paused_jobs_it_goes_on_and_leaves_none_paused_that_was_not(
    spark: Any, stood: Environment, workspace: JobsApi, tmp_path: Path, point: str, verb: str
) -> None:
    before = contents(spark, stood)
    plan = planned(spark, stood)

    killed(stood, "apply", plan, point, tmp_path)

    if point == "jobs.after_unpause":
        assert journal_of(stood, plan).state == RELEASED
    else:
        assert_no_stage_starts(spark, stood, plan, "apply")
    if verb == "undo":
        assert undo(spark, stood, plan).state == WITHDRAWN
        assert contents(spark, stood) == before
    else:
        assert apply(spark, stood, plan).state == FINISHED
    assert journal_of(stood, plan).paused_jobs is None
    assert are_set_as_before(workspace)
    if point != FIRST:
        run_stages(spark, stood)
        assert_exact(stood)


LONG = pytest.mark.long(instead="test_what_fails_before_the_first_row_goes_leaves_the_jobs_as_they_were")


@pytest.mark.parametrize(
    "why",
    [
        "a live stage",
        pytest.param("a run that does not end", marks=LONG),
        pytest.param("moved meanwhile", marks=LONG),
        "another job",
    ],
)
def test_what_fails_before_the_first_row_goes_leaves_the_jobs_as_they_were(
    spark: Any, stood: Environment, workspace: JobsApi, why: str
) -> None:
    before = contents(spark, stood)
    plan = planned(spark, stood)
    stopping, code = QUICK, "PlanStale"
    run = None
    if why == "a live stage":
        run, code = open_gate(spark, stood, build_stages({})[2]), "OWNER_RUNNING"
    elif why == "a run that does not end":
        stopping, code = StopOptions(poll_seconds=0.001, limit_seconds=0.0), "RunDoesNotEnd"
        workspace.space.runs[901].after_cancel = None
    elif why == "another job":
        workspace.space.jobs[13] = {**job_of(stood), "schedule": dict(CRON)}
    else:
        stray = Path(stood.checkpoint(STAGE)) / "offsets" / "99"
        workspace.meanwhile["runs/cancel"] = lambda space: stray.write_text("v1\n{}\n{}\n")
    try:
        with pytest.raises(SurestartError) as refused:
            apply(spark, stood, plan, stopping)
    finally:
        if run is not None:
            run.ended("stopped", "test")
    assert (refused.value.code, refused.value.exit_code) == (code, 3)
    assert are_set_as_before(workspace)
    if why == "another job":
        assert read_journals(stood) == ()
        assert workspace.called("update", "runs/cancel") == []
        return
    assert journal_of(stood, plan).state == WITHDRAWN
    assert UNPAUSE in journal_of(stood, plan).undone
    if why == "moved meanwhile":
        stray.unlink()
    assert contents(spark, stood) == before
    # Nothing holds the stage: it starts as if nobody had tried.
    open_gate(spark, stood, build_stages({})[2]).ended("stopped", "test")


@pytest.mark.long(instead="test_what_fails_before_the_first_row_goes_leaves_the_jobs_as_they_were")
def test_a_failure_after_the_release_leaves_no_job_paused(spark: Any, stood: Environment, workspace: JobsApi) -> None:
    """From there on the stages may start, and nobody knows when the command is run again."""
    plan = planned(spark, stood, "reset", STAGE)
    damage = Path(stood.checkpoint(STAGE)) / "offsets" / "0"

    def say(line: str) -> None:
        if line.startswith("run sensor-"):
            damage.parent.mkdir(parents=True)
            damage.write_text("no log")

    with pytest.raises(StoppedHalfway) as stopped:
        apply(spark, stood, plan, say=say)

    assert "paused" not in stopped.value.meaning
    journal = journal_of(stood, plan)
    assert (journal.state, journal.paused_jobs) == (RELEASED, None)
    assert are_set_as_before(workspace)
    shutil.rmtree(damage.parents[1])

    assert apply(spark, stood, plan).state == FINISHED
    assert are_set_as_before(workspace)
    assert_exact(stood)


@pytest.mark.long(instead="test_what_fails_before_the_first_row_goes_leaves_the_jobs_as_they_were")
@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_a_job_that_was_deployed_anew_while_the_remedy_lay_half_way_is_stopped_in_its_place(
    spark: Any, stood: Environment, workspace: JobsApi, verb: str
) -> None:
    before = contents(spark, stood)
    plan = planned(spark, stood)
    with pytest.raises(KeyboardInterrupt):
        apply(spark, stood, plan, say=interrupted_at("remove"))
    assert workspace.space.pause_status(OURS, "schedule") == "PAUSED"
    del workspace.space.jobs[OURS]
    workspace.space.jobs[13] = {**job_of(stood), "schedule": dict(CRON)}
    workspace.space.add_run(13)
    seen: list[str | None] = []

    def note(line: str) -> None:
        if line.startswith(("remove", "take back")):
            seen.append(workspace.space.pause_status(13, "schedule"))

    ended = apply(spark, stood, plan, say=note) if verb == "apply" else undo(spark, stood, plan, say=note)

    assert ended.state == (FINISHED if verb == "apply" else WITHDRAWN)
    assert set(seen) == {"PAUSED"}
    assert workspace.space.runs[902].state == "TERMINATED"
    assert workspace.space.pause_status(13, "schedule") == "UNPAUSED"
    assert workspace.space.pause_status(PAUSED_BY_SOMEBODY, "trigger") == "PAUSED"
    if verb == "undo":
        assert contents(spark, stood) == before


@pytest.mark.chaos
def test_a_later_remedy_starts_the_jobs_that_a_dead_one_had_left_paused(
    spark: Any, stood: Environment, workspace: JobsApi, tmp_path: Path
) -> None:
    first = planned(spark, stood)
    killed(stood, "apply", first, "remedy.released", tmp_path)
    assert workspace.space.pause_status(OURS, "schedule") == "PAUSED"

    second = planned(spark, stood, "reset", STAGE)

    assert "sensor-merge-gold (job 11): schedule active" in second.steps[0].what
    assert apply(spark, stood, second).state == FINISHED
    assert are_set_as_before(workspace)
    # Nothing is left for the first one to set back.
    assert not journal_of(stood, first).leaves_jobs_paused
    calls = len(workspace.called("update"))
    apply(spark, stood, first)
    assert len(workspace.called("update")) == calls
    undo(spark, stood, second)
    assert are_set_as_before(workspace)


BESIDE = ("reset", STAGE, "--beside", "--no-run")


@pytest.mark.long(instead="test_what_fails_before_the_first_row_goes_leaves_the_jobs_as_they_were")
def test_a_reset_beside_stops_the_jobs_for_the_count_and_the_swap_only(
    spark: Any, stood: Environment, workspace: JobsApi
) -> None:
    plan = planned(spark, stood, *BESIDE)
    assert [step.id for step in plan.steps][:5] == [f"fill:{STAGE}", "jobs", "stop", "look", "check"]
    assert [step.id for step in plan.steps][-2:] == ["drop", "unpause"]
    before = contents(spark, stood)
    seen: list[tuple[str, str | None, str]] = []

    def note(line: str) -> None:
        if line.startswith(("fill", "stages stand still", "put the new", "move")):
            run = workspace.space.runs[901].state
            seen.append((line.split()[0], workspace.space.pause_status(OURS, "schedule"), run))

    # A stage that somebody runs by hand: nothing was swapped, so the jobs go on until it is stopped.
    running = open_gate(spark, stood, build_stages({})[2])
    try:
        with pytest.raises(Refused) as refused:
            apply(spark, stood, plan, say=note)
    finally:
        running.ended("stopped", "test")
    assert refused.value.code == "OWNER_RUNNING"
    assert f"surestart apply {plan.digest[:12]}" in str(refused.value.next)
    assert "Nothing was swapped, what was filled stays. The jobs are set as they were." in refused.value.meaning
    assert (journal_of(stood, plan).state, journal_of(stood, plan).paused_jobs) == (FILLING, None)
    assert are_set_as_before(workspace)
    open_gate(spark, stood, build_stages({})[2]).ended("stopped", "test")
    assert seen == [("fill", None, "RUNNING")]
    run = workspace.space.add_run(OURS)

    assert apply(spark, stood, plan, say=note).state == FINISHED

    assert [status for what, status, _ in seen if what != "fill"] == ["PAUSED"] * 3
    assert workspace.space.runs[run].state == "TERMINATED"
    assert are_set_as_before(workspace)
    assert undo(spark, stood, plan).state == WITHDRAWN
    assert are_set_as_before(workspace)
    assert {name: before[name] for name in TABLES} == {name: contents(spark, stood)[name] for name in TABLES}


@pytest.mark.chaos
def test_a_count_beside_that_does_not_hold_leaves_the_jobs_as_they_were(
    spark: Any, stood: Environment, workspace: JobsApi
) -> None:
    plan = planned(spark, stood, *BESIDE)
    before = contents(spark, stood)

    def lose_a_row(line: str) -> None:
        if line.startswith("stages stand still"):
            delete_a_row(spark, stood, plan, "sensor_gold")

    with pytest.raises(BesideNotExact, match="lost 1, duplicated 0") as refused:
        apply(spark, stood, plan, say=lose_a_row)

    assert "The jobs are set as they were." in refused.value.meaning
    assert journal_of(stood, plan).state == FILLING
    assert are_set_as_before(workspace)
    assert undo(spark, stood, plan).state == WITHDRAWN
    assert are_set_as_before(workspace)
    assert contents(spark, stood) == before


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["jobs.after_pause", "remedy.check.before_count", "remedy.swap.after_commit"])
@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_a_reset_beside_killed_with_paused_jobs_leaves_none_paused_that_was_not(
    spark: Any, stood: Environment, workspace: JobsApi, tmp_path: Path, point: str, verb: str
) -> None:
    before = contents(spark, stood)
    plan = planned(spark, stood, *BESIDE)

    killed(stood, "apply", plan, point, tmp_path)

    assert_no_stage_starts(spark, stood, plan, "apply")
    if verb == "undo":
        assert undo(spark, stood, plan).state == WITHDRAWN
        assert contents(spark, stood) == before
    else:
        assert apply(spark, stood, plan).state == FINISHED
    assert journal_of(stood, plan).paused_jobs is None
    assert are_set_as_before(workspace)
    run_stages(spark, stood)
    assert_exact(stood)


def interrupted_at(begin: str) -> Callable[[str], None]:
    def say(line: str) -> None:
        if line.startswith(begin):
            raise KeyboardInterrupt

    return say


@pytest.mark.chaos
def test_the_job_of_a_retired_query_stays_paused_until_that_is_undone(
    spark: Any, stood: Environment, workspace: JobsApi
) -> None:
    plan = planned(spark, stood, "retire", STAGE)
    assert [step.id for step in plan.steps if step.id == UNPAUSE] == []

    apply(spark, stood, plan)
    assert workspace.space.pause_status(OURS, "schedule") == "PAUSED"

    undo(spark, stood, plan)
    assert are_set_as_before(workspace)


LOCAL = environment_from_settings("local", "sensor", {"root": "/data/sensor"}, environ={})
VOLUME = environment_from_settings("dev", "sensor", {"root": "/Volumes/main/sensor/x"}, environ={})
CATALOG = environment_from_settings("prod", "sensor", {"catalog": "main", "schema": "sensor"}, environ={})
BY_JOB, BY_HAND = RunRecord("a", query="sensor-merge-gold", job_run="7"), RunRecord("b", query="sensor-merge-gold")


@pytest.mark.parametrize(
    ("environment", "runs", "variables", "asked"),
    [
        (LOCAL, [], {}, False),
        (LOCAL, [BY_HAND], {"DATABRICKS_HOST": "https://x.example"}, False),
        (LOCAL, [BY_JOB], {}, True),
        (LOCAL, [RunRecord("c", query="sensor-raw-ingest", job_run="7")], {}, False),
        (LOCAL, [], {"DATABRICKS_RUNTIME_VERSION": "17.3"}, True),
        (VOLUME, [], {}, True),
        (CATALOG, [], {}, True),
    ],
)
def test_a_workspace_is_asked_only_where_one_of_its_jobs_can_know_of_the_place(
    environment: Environment, runs: list[RunRecord], variables: dict[str, str], asked: bool
) -> None:
    assert is_known_to_jobs(environment, ("sensor-merge-gold",), runs, variables) is asked


BARE = Plan("reset", STAGE, "in-place", {"name": "local", "pipeline": "sensor"}, 1, (STAGE,), {}, ())


def test_a_plan_without_jobs_is_the_plan() -> None:
    assert add_jobs(BARE, ()) is BARE
    assert not stops_jobs(BARE)


def test_a_plan_says_which_jobs_it_pauses_and_that_is_part_of_its_digest() -> None:
    running = (JobTrigger("continuous", paused=False),)
    jobs = [JobState(11, "gold", ("sensor-merge-gold",), running, (901,)), JobState(12, "late", (), (), ())]
    plan = add_jobs(BARE, jobs)

    shown = " ".join(render_plan(plan).split())
    assert "gold (job 11): continuous active; active runs 901" in shown
    assert "pause gold (job 11), late (job 12), cancel their runs and wait for their end" in shown
    assert "gold (job 11) pause, cancel" in shown
    assert "moves its stage on while you read: pause it before you plan" in shown
    assert "set gold (job 11), late (job 12) as they were" in shown
    assert parse_plan(plan.as_json(), "plan.json") == plan
    assert len({BARE.digest, plan.digest, add_jobs(BARE, jobs[:1]).digest}) == 3
    beside = add_jobs(
        replace(BARE, method="beside", steps=(Step("fill:x", "fill", ""), Step("check", "check", ""))), jobs
    )
    assert [step.kind for step in beside.steps] == ["fill", "jobs", "stop", "look", "check", "unpause"]
    assert "stopped when the new tables are filled, set as they were at the end" in beside.statements[0]
    retired = add_jobs(replace(BARE, remedy="retire"), jobs)
    assert [step.kind for step in retired.steps] == ["jobs", "stop", "look"]
    assert "stopped first, and left paused" in retired.statements[0]
