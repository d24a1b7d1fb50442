"""Jobs that run a stage are found, stopped and started again, against a server that speaks the Jobs API.

The client is the real databricks-sdk; only its clock for waiting between retries is ours.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config

from surestart.environment import Environment, environment_from_settings
from surestart.errors import CannotTell, Refused, StoppedHalfway, UsageError
from surestart.history.run_record import RunRecord
from surestart.remedies.jobs.api import open_jobs_api
from surestart.remedies.jobs.databricks_jobs import (
    JobState,
    JobTrigger,
    StoppedJobs,
    read_jobs,
    read_stopped_jobs,
    resume_jobs,
    stop_jobs,
)
from tests.bundle.bundle_files import read_bundle, resolve_target
from tests.remedies.jobs_api_server import JobsApi, jobs_api

ROOT = Path(__file__).parents[2]
QUERIES = ("sensor-merge-gold", "sensor-deserialize", "sensor-raw-ingest")
RAW = "sensor-raw-ingest"
CRON = {"quartz_cron_expression": "0 0/10 * * * ?", "timezone_id": "UTC"}
FILES = {"file_arrival": {"url": "/Volumes/main/sensor/landing/"}}
QUICK: dict[str, Any] = {"poll_seconds": 0.001, "limit_seconds": 20.0, "own_run": ""}


class NoWaiting:
    """The SDK waits between retries by this clock."""

    def time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        """At once."""


@pytest.fixture
def server() -> Iterator[JobsApi]:
    with jobs_api() as running:
        yield running


@pytest.fixture
def client(server: JobsApi) -> WorkspaceClient:
    config = Config(host=server.url, token="not-a-secret", auth_type="pat", clock=NoWaiting())
    return WorkspaceClient(config=config)


@pytest.fixture
def lines() -> list[str]:
    return []


def environment(user: str = "", name: str = "prod") -> Environment:
    schema = f"dev_{user}_sensor" if user else "sensor"
    return environment_from_settings(name, "sensor", {"catalog": "main", "schema": schema}, environ={})


def deployed(target: str, user: str = "alice") -> list[dict[str, Any]]:
    """The jobs' settings as the bundle of this repository deploys them."""
    return [copy.deepcopy(job) for job in resolve_target(read_bundle(ROOT), target, user).jobs.values()]


def a_job(server: JobsApi, job_id: int = 11, name: str = RAW, **settings: Any) -> None:
    server.space.jobs[job_id] = {"name": name, **settings}


def state_of(client: WorkspaceClient, *job_ids: int) -> tuple[JobState, ...]:
    """As read_jobs finds them through the run history."""
    runs = [RunRecord(f"r{job}", query=RAW, job_url=f"https://x.org/jobs/{job}/runs/1") for job in job_ids]
    return read_jobs(environment(), [RAW], runs=runs, client=client)


# Finding


@pytest.mark.parametrize("target", ["dev", "staging", "prod"])
def test_the_jobs_of_this_bundle_are_found_by_their_tags(server: JobsApi, client: WorkspaceClient, target: str) -> None:
    """sensor_reset, which is deployed with them, is no stage's job."""
    for index, settings in enumerate([{"name": "nightly report"}, *deployed(target)]):
        server.space.jobs[10 + index] = settings
    schema = {"dev": "dev_alice_sensor", "staging": "sensor_staging", "prod": "sensor"}[target]
    here = environment_from_settings(target, "sensor", {"catalog": "main", "schema": schema}, environ={})

    found = read_jobs(here, QUERIES, client=client)

    prefix = "[dev alice] " if target == "dev" else ""
    assert [(job.name, job.queries, job.found_in) for job in found] == [
        (f"{prefix}{query}", (query,), "tags") for query in QUERIES
    ]
    assert [job.triggers for job in found] == [(JobTrigger("schedule", paused=target == "dev"),)] * 3


def test_in_dev_another_persons_jobs_are_never_found(server: JobsApi, client: WorkspaceClient) -> None:
    """Their tags are the same; the checkpoint that the tasks name is not."""
    for index, settings in enumerate([*deployed("dev", "bob"), *deployed("dev", "alice")]):
        server.space.jobs[10 + index] = settings

    found = read_jobs(environment("alice", "dev"), QUERIES, client=client)

    assert [job.name for job in found] == [f"[dev alice] {query}" for query in QUERIES]


def test_a_job_is_found_by_the_run_history_whatever_its_tags(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, 21, "ours by url", schedule=CRON)
    a_job(server, 22, "ours by run", continuous={"pause_status": "UNPAUSED"})
    a_job(server, 23, "somebody else's", schedule=CRON)
    run_id = server.space.add_run(22)
    runs = [
        RunRecord("a", query=RAW, job_url="https://x.org/?o=1#job/21/run/7"),
        RunRecord("b", query=RAW, job_run=str(run_id)),
        RunRecord("c", query=RAW, job_run="12345"),
        RunRecord("d", query=RAW, job_url="https://x.org/jobs/99/runs/1"),
        RunRecord("e", query="other-query", job_url="https://x.org/jobs/23/runs/1"),
    ]

    found = read_jobs(environment(), [RAW], runs=runs, client=client)

    assert [(job.job_id, job.found_in, job.active_runs) for job in found] == [
        (21, "run history", ()),
        (22, "run history", (run_id,)),
    ]


def test_a_job_of_the_history_that_now_runs_on_another_checkpoint_is_left_alone(
    server: JobsApi, client: WorkspaceClient
) -> None:
    arguments = ["run", "raw-ingest", "--env=prod", "--set", "catalog=main", "--set", "schema=elsewhere"]
    a_job(server, tasks=[{"task_key": "t", "python_wheel_task": {"parameters": arguments}}], schedule=CRON)

    with pytest.raises(CannotTell) as caught:
        state_of(client, 11)

    assert caught.value.code == "JobNotFound"


def test_the_job_for_remedies_that_started_a_stage_once_is_no_job_of_the_stage(
    server: JobsApi, client: WorkspaceClient
) -> None:
    """The run history has its runs: a remedy ends with a start of the stage."""
    for index, settings in enumerate(deployed("prod")):
        server.space.jobs[10 + index] = settings
    (reset,) = (job_id for job_id, job in server.space.jobs.items() if job["name"] == "sensor-reset")
    runs = [RunRecord("r", query=RAW, job_url=f"https://x.org/jobs/{reset}/runs/1")]

    assert [job.name for job in read_jobs(environment(), [RAW], runs=runs, client=client)] == [RAW]


def test_a_task_on_a_later_page_counts(server: JobsApi, client: WorkspaceClient) -> None:
    settings = next(job for job in deployed("prod") if job["name"] == RAW)
    other = {
        "task_key": "x",
        "notebook_task": {"notebook_path": "/y", "base_parameters": {"catalog": "c", "schema": "s"}},
    }
    settings["tasks"] = [other, other, other, *settings["tasks"]]
    server.space.jobs[11] = settings

    assert [job.job_id for job in read_jobs(environment(), [RAW], client=client)] == [11]


def test_a_task_beside_the_one_that_runs_the_stage_says_nothing_of_the_checkpoint(
    server: JobsApi, client: WorkspaceClient
) -> None:
    arguments = ["run", "raw-ingest", "--env=prod", "--set=catalog=main", "--set=schema=elsewhere"]
    stage = {"task_key": "t", "python_wheel_task": {"parameters": arguments}}
    a_job(server, tasks=[{"task_key": "x", "notebook_task": {"notebook_path": "/y"}}, stage], schedule=CRON)

    with pytest.raises(CannotTell) as caught:
        state_of(client, 11)

    assert caught.value.code == "JobNotFound"


def test_a_tagged_job_that_does_not_name_its_checkpoint_is_not_guessed_at(
    server: JobsApi, client: WorkspaceClient
) -> None:
    tags = {"pipeline": "sensor", "stage": "raw-ingest", "environment": "prod"}
    task = {"task_key": "t", "notebook_task": {"notebook_path": "/Repos/somebody/ingest"}}
    a_job(server, tags=tags, tasks=[task], schedule=CRON)
    with pytest.raises(CannotTell) as caught:
        read_jobs(environment(), [RAW], client=client)
    assert (caught.value.code, "databricks jobs get 11" in str(caught.value.next)) == ("JobUnclear", True)

    server.space.jobs[11]["description"] = "Checkpoint: /Volumes/main/sensor/checkpoints/sensor-raw-ingest"

    assert [job.job_id for job in read_jobs(environment(), [RAW], client=client)] == [11]


def test_a_query_without_a_job_is_cannot_tell_unless_that_is_accepted(server: JobsApi, client: WorkspaceClient) -> None:
    with pytest.raises(CannotTell) as caught:
        read_jobs(environment(), [RAW], client=client)

    assert (caught.value.code, RAW in caught.value.what) == ("JobNotFound", True)
    assert read_jobs(environment(), [RAW], client=client, accept_no_job=True) == ()


def test_reading_changes_nothing(server: JobsApi, client: WorkspaceClient) -> None:
    for index, settings in enumerate(deployed("prod")):
        server.space.jobs[10 + index] = settings
    before = copy.deepcopy(server.space.jobs)

    read_jobs(environment(), QUERIES, client=client)

    assert server.space.jobs == before
    assert server.called("update", "runs/cancel") == []


def test_a_login_that_may_not_see_the_job_is_told_so(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    server.fail("get", 403)

    with pytest.raises(CannotTell) as caught:
        state_of(client, 11)

    assert (caught.value.code, "PermissionDenied" in caught.value.what) == ("JobsNotReachable", True)


# Stopping


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("schedule", {**CRON, "sql_condition": {"a field": "this SDK does not know"}}),
        ("continuous", {"pause_status": "UNPAUSED", "task_retry_mode": "ON_FAILURE", "maintenance": {"hour": 3}}),
        ("trigger", {**FILES, "pause_status": "UNPAUSED"}),
    ],
)
def test_a_trigger_is_paused_and_later_active_again_and_otherwise_untouched(
    server: JobsApi, client: WorkspaceClient, kind: str, value: dict[str, Any]
) -> None:
    a_job(server, **{kind: value}, tags={"owner": "me"}, tasks=[{"task_key": "t"}])
    jobs = state_of(client, 11)
    before = copy.deepcopy(server.space.jobs[11])

    stopped = stop_jobs(jobs, client=client, **QUICK)
    assert server.space.jobs[11] == {**before, kind: {**value, "pause_status": "PAUSED"}}

    resumed = resume_jobs(stopped, client=client)
    assert server.space.jobs[11] == {**before, kind: {**value, "pause_status": "UNPAUSED"}}
    assert resumed.resumed == (11,)


def test_what_goes_over_the_wire(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    run_id = server.space.add_run(11)

    resume_jobs(stop_jobs(state_of(client, 11), client=client, **QUICK), client=client)

    paused, active = ({**CRON, "pause_status": status} for status in ("PAUSED", "UNPAUSED"))
    assert server.called("update", "runs/cancel") == [
        {"job_id": 11, "new_settings": {"schedule": paused}},
        {"run_id": run_id},
        {"job_id": 11, "new_settings": {"schedule": active}},
    ]
    assert {"job_id": "11", "active_only": "true"} in server.called("runs/list")


def test_of_several_triggers_only_the_active_ones_are_paused_and_resumed(
    server: JobsApi, client: WorkspaceClient
) -> None:
    entries = [
        {"schedule": CRON, "pause_status": "UNPAUSED"},
        {**FILES, "pause_status": "PAUSED"},
        {"periodic": {"interval": 1, "unit": "HOURS"}},
    ]
    a_job(server, triggers=entries)

    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)
    assert [one["pause_status"] for one in server.space.jobs[11]["triggers"]] == ["PAUSED"] * 3

    resume_jobs(stopped, client=client)
    assert [one["pause_status"] for one in server.space.jobs[11]["triggers"]] == ["UNPAUSED", "PAUSED", "UNPAUSED"]


def test_a_job_that_was_paused_before_stays_paused(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule={**CRON, "pause_status": "PAUSED"})
    run_id = server.space.add_run(11)

    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)
    resumed = resume_jobs(stopped, client=client)

    assert (stopped.cancelled, resumed.left) == ((run_id,), (11,))
    assert server.space.pause_status(11, "schedule") == "PAUSED"
    assert server.called("update") == []


def test_a_job_without_a_trigger_has_its_runs_ended(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server)
    run_id = server.space.add_run(11, state="QUEUED")

    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)

    assert (stopped.cancelled, server.space.active_runs(11)) == ((run_id,), [])
    assert server.called("update") == []


def test_a_continuous_job_does_not_come_back(server: JobsApi, client: WorkspaceClient) -> None:
    """The server starts a new run whenever one of a continuous job ends that is not paused."""
    a_job(server, continuous={"pause_status": "UNPAUSED"})
    server.space.add_run(11)

    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)

    assert (len(stopped.cancelled), len(server.space.runs), server.space.active_runs(11)) == (1, 1, [])
    assert [name for name, _ in server.calls if name in ("update", "runs/cancel")] == ["update", "runs/cancel"]


def test_every_job_is_paused_before_the_first_run_is_cancelled(server: JobsApi, client: WorkspaceClient) -> None:
    for job_id in (11, 12, 13):
        a_job(server, job_id, f"job {job_id}", schedule=CRON)
        server.space.add_run(job_id)

    stop_jobs(state_of(client, 11, 12, 13), client=client, **QUICK)

    assert [name for name, _ in server.calls if name in ("update", "runs/cancel")] == [
        *["update"] * 3,
        *["runs/cancel"] * 3,
    ]


def test_jobs_start_again_in_the_opposite_order(server: JobsApi, client: WorkspaceClient) -> None:
    for job_id in (11, 12, 13):
        a_job(server, job_id, f"job {job_id}", schedule=CRON)

    resumed = resume_jobs(stop_jobs(state_of(client, 11, 12, 13), client=client, **QUICK), client=client)

    assert resumed.resumed == (13, 12, 11)
    assert [what["job_id"] for what in server.called("update")] == [11, 12, 13, 13, 12, 11]


def test_a_paused_continuous_job_that_was_started_by_hand_is_paused_again(
    server: JobsApi, client: WorkspaceClient, lines: list[str]
) -> None:
    a_job(server, continuous={"pause_status": "PAUSED"})
    server.space.by_hand.add(11)
    server.space.add_run(11)
    jobs = state_of(client, 11)
    assert jobs[0].triggers == (JobTrigger("continuous", paused=True, by_hand=True),)

    stopped = stop_jobs(jobs, client=client, **QUICK)
    resume_jobs(stopped, client=client, say=lines.append)

    assert (len(server.space.runs), server.space.active_runs(11)) == (1, [])
    assert server.space.pause_status(11, "continuous") == "PAUSED"
    assert "databricks jobs run-now 11" in lines[0]


def test_all_pages_of_active_runs_are_ended(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    runs = [server.space.add_run(11, after_cancel=looks) for looks in (1, 2, 3, 4, 5)]

    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)

    assert stopped.cancelled == tuple(runs)
    assert {server.space.runs[run].state for run in runs} == {"TERMINATED"}


def test_a_run_that_starts_while_others_end_is_ended_as_well(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    server.space.add_run(11)
    jobs = state_of(client, 11)
    server.meanwhile["runs/cancel"] = lambda space: space.add_run(11, state="PENDING")

    stopped = stop_jobs(jobs, client=client, **QUICK)

    assert stopped.cancelled == (901, 902)
    assert server.space.active_runs(11) == []


def test_a_run_that_appears_after_one_quiet_look_is_seen(server: JobsApi, client: WorkspaceClient) -> None:
    """A schedule that fired just before the pause: its run is listed a moment later."""
    a_job(server, schedule=CRON)
    jobs = state_of(client, 11)

    def third_look(space: Any) -> None:
        server.meanwhile["get"] = lambda _: server.meanwhile.update(get=lambda later: later.add_run(11))

    server.meanwhile["update"] = third_look

    stopped = stop_jobs(jobs, client=client, **QUICK)

    assert (stopped.cancelled, server.space.active_runs(11)) == ((901,), [])


def test_a_run_that_is_left_out_of_the_list_is_followed_until_it_is_over(
    server: JobsApi, client: WorkspaceClient
) -> None:
    a_job(server, schedule=CRON)
    run_id = server.space.add_run(11)
    jobs = state_of(client, 11)
    server.space.runs[run_id] = replace(server.space.runs[run_id], state="WAITING_FOR_RETRY", hidden=True)

    stopped = stop_jobs(jobs, client=client, **QUICK)

    assert (stopped.cancelled, server.space.runs[run_id].state) == ((run_id,), "TERMINATED")


def test_a_run_that_ends_by_itself_meanwhile_is_no_failure(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    run_id = server.space.add_run(11)
    jobs = state_of(client, 11)
    server.meanwhile["runs/cancel"] = lambda space: setattr(space.runs[run_id], "state", "TERMINATED")

    stopped = stop_jobs(jobs, client=client, **QUICK)

    assert stopped.cancelled == ()
    assert len(server.called("runs/cancel")) == 1


def test_a_run_that_is_ending_already_is_only_waited_for(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    server.space.add_run(11, state="TERMINATING", ends_in=4)

    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)

    assert (stopped.cancelled, server.called("runs/cancel"), server.space.active_runs(11)) == ((), [], [])


def test_the_person_who_waits_is_told_what_for(server: JobsApi, client: WorkspaceClient, lines: list[str]) -> None:
    a_job(server, schedule=CRON)
    server.space.add_run(11, after_cancel=4)

    stop_jobs(state_of(client, 11), client=client, **QUICK, say=lines.append)

    assert lines[:2] == [
        "sensor-raw-ingest (job 11) paused (schedule)",
        "run 901 of sensor-raw-ingest (job 11) cancelled",
    ]
    # One line per state and half minute, however often it looked.
    waiting = [line for line in lines[2:] if line.startswith("waiting for run 901 of sensor-raw-ingest (job 11)")]
    assert [line.split(": ")[1].split(",")[0] for line in waiting] == ["RUNNING", "TERMINATING"]
    assert len(lines) == 4


def test_a_run_that_never_ends_is_not_waited_for_for_ever(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    run_id = server.space.add_run(11, after_cancel=None)
    jobs = state_of(client, 11)

    with pytest.raises(StoppedHalfway) as caught:
        stop_jobs(jobs, client=client, **{**QUICK, "limit_seconds": 0.0})

    assert caught.value.code == "RunDoesNotEnd"
    assert f"run {run_id} of sensor-raw-ingest (job 11) is TERMINATING" in caught.value.what
    assert "sensor-raw-ingest (job 11) paused (schedule); run 901" in caught.value.what
    assert server.space.pause_status(11, "schedule") == "PAUSED"

    server.space.runs[run_id].state = "TERMINATED"
    stop_jobs(jobs, client=client, **QUICK)
    resume_jobs(StoppedJobs(jobs), client=client)
    assert server.space.pause_status(11, "schedule") == "UNPAUSED"


def test_the_job_that_applies_the_remedy_does_not_cancel_itself(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    run_id = server.space.add_run(11)

    with pytest.raises(Refused) as caught:
        stop_jobs(state_of(client, 11), client=client, **{**QUICK, "own_run": str(run_id)})

    assert caught.value.code == "OwnJobRun"
    assert server.called("update", "runs/cancel") == []


# Refusals, faults


def test_permission_denied_before_anything_was_changed(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    jobs = state_of(client, 11)
    server.fail("update", 403)

    with pytest.raises(CannotTell) as caught:
        stop_jobs(jobs, client=client, **QUICK)

    assert (caught.value.code, caught.value.exit_code) == ("JobPermissionDenied", 4)
    assert "nothing was changed" in caught.value.what
    assert "CAN_MANAGE" in caught.value.meaning
    assert str(caught.value.next).startswith("databricks jobs get-permissions 11")
    assert "pause_status" not in server.space.jobs[11]["schedule"]


@pytest.mark.parametrize(("call", "job"), [("update", "b"), ("runs/cancel", "a")])
def test_permission_denied_in_the_middle_says_what_was_done(
    server: JobsApi, client: WorkspaceClient, call: str, job: str
) -> None:
    for job_id, name in ((11, "a"), (12, "b")):
        a_job(server, job_id, name, schedule=CRON)
        server.space.add_run(job_id)
    jobs = state_of(client, 11, 12)
    server.fail(call, 403, after=1 if call == "update" else 0)

    with pytest.raises(StoppedHalfway) as caught:
        stop_jobs(jobs, client=client, **QUICK)

    assert (caught.value.code, caught.value.exit_code) == ("JobPermissionDenied", 5)
    assert "So far: a (job 11) paused (schedule)" in caught.value.what
    assert f"of {job} (job" in caught.value.what or f"pausing {job} (job" in caught.value.what

    # Once allowed, the same call goes on, and un-pausing restores both.
    resume_jobs(stop_jobs(jobs, client=client, **QUICK), client=client)
    assert {server.space.pause_status(job_id, "schedule") for job_id in (11, 12)} == {"UNPAUSED"}


@pytest.mark.parametrize("when", ["before", "while its run ends"])
def test_of_a_deleted_job_the_runs_that_were_known_are_ended(
    server: JobsApi, client: WorkspaceClient, lines: list[str], when: str
) -> None:
    """Deleting a job does not end its runs at once."""
    for job_id, name in ((11, "a"), (12, "b")):
        a_job(server, job_id, name, schedule=CRON)
        server.space.add_run(job_id, after_cancel=3)
    jobs = state_of(client, 11, 12)
    if when == "before":
        del server.space.jobs[11]
    else:
        server.meanwhile["runs/cancel"] = lambda space: space.jobs.pop(11)

    stopped = stop_jobs(jobs, client=client, say=lines.append, **QUICK)

    assert {run.state for run in server.space.runs.values()} == {"TERMINATED"}
    assert stopped.cancelled == (901, 902)
    assert server.space.pause_status(12, "schedule") == "PAUSED"
    assert "a (job 11) was deleted since: nothing to pause, its run 901 is waited for" in lines
    assert resume_jobs(stopped, client=client, say=lines.append).gone == (11,)


def test_a_run_of_a_deleted_job_that_does_not_end_is_not_passed_over(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    server.space.add_run(11, after_cancel=None)
    jobs = state_of(client, 11)
    del server.space.jobs[11]

    with pytest.raises(StoppedHalfway) as caught:
        stop_jobs(jobs, client=client, poll_seconds=0.001, limit_seconds=0.0, own_run="")

    assert caught.value.code == "RunDoesNotEnd"


@pytest.mark.parametrize("says_missing", ["get", "list"])
def test_a_job_that_one_answer_alone_calls_missing_is_not_taken_for_stopped(
    server: JobsApi, client: WorkspaceClient, says_missing: str
) -> None:
    a_job(server, schedule=CRON)
    jobs = state_of(client, 11)
    if says_missing == "get":
        server.fail("get", 404, "No API found", times=2)
    else:
        del server.space.jobs[11]
        server.fail("list", 404, "No API found")

    with pytest.raises(CannotTell) as caught:
        stop_jobs(jobs, client=client, **QUICK)

    assert (caught.value.code, "nothing was changed" in caught.value.what) == ("JobNotFound", True)


def test_throttling_is_waited_out(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    server.space.add_run(11)
    jobs = state_of(client, 11)
    for call in ("get", "update", "runs/list", "runs/cancel"):
        server.fail(call, 429, times=2)
        server.fail(call, 503)

    stopped = stop_jobs(jobs, client=client, **QUICK)

    assert (stopped.cancelled, server.faults, server.space.active_runs(11)) == ((901,), [], [])


def test_a_workspace_that_answers_nonsense_is_cannot_tell(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    jobs = state_of(client, 11)
    server.fail("update", 404, "No API found")

    with pytest.raises(CannotTell):
        stop_jobs(jobs, client=client, **QUICK)
    with jobs_api() as gone:
        unreachable = WorkspaceClient(config=Config(host=gone.url, token="x", auth_type="pat", retry_timeout_seconds=1))
    with pytest.raises(CannotTell) as caught:
        stop_jobs(jobs, client=unreachable, **QUICK)
    assert caught.value.code == "JobsNotReachable"


def test_a_job_that_somebody_unpaused_after_the_journal_is_refused(server: JobsApi, client: WorkspaceClient) -> None:
    """Pausing it would forget that it was active; leaving it would let it run."""
    a_job(server, schedule={**CRON, "pause_status": "PAUSED"})
    jobs = state_of(client, 11)
    server.space.jobs[11]["schedule"]["pause_status"] = "UNPAUSED"

    with pytest.raises(Refused) as caught:
        stop_jobs(jobs, client=client, **QUICK)

    assert (caught.value.code, server.called("update")) == ("JobChanged", [])


def test_a_job_that_is_deployed_anew_while_its_runs_end_is_noticed(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    server.space.add_run(11, after_cancel=3)
    jobs = state_of(client, 11)
    server.meanwhile["runs/cancel"] = lambda space: space.jobs[11].update(schedule=dict(CRON))

    with pytest.raises(StoppedHalfway) as caught:
        stop_jobs(jobs, client=client, **QUICK)

    assert (caught.value.code, "paused (schedule)" in caught.value.what) == ("JobChanged", True)


# Starting again


def test_starting_again_twice_changes_nothing_more(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)
    first = resume_jobs(stopped, client=client)
    calls = len(server.called("update"))

    assert resume_jobs(stopped, client=client) == first
    assert len(server.called("update")) == calls


def test_a_schedule_that_was_edited_meanwhile_keeps_the_edit(server: JobsApi, client: WorkspaceClient) -> None:
    a_job(server, schedule=CRON)
    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)
    server.space.jobs[11]["schedule"]["quartz_cron_expression"] = "0 0 3 * * ?"

    resume_jobs(stopped, client=client)

    assert server.space.jobs[11]["schedule"] == {
        "quartz_cron_expression": "0 0 3 * * ?",
        "timezone_id": "UTC",
        "pause_status": "UNPAUSED",
    }


def test_a_trigger_that_was_exchanged_meanwhile_is_left_to_its_owner(
    server: JobsApi, client: WorkspaceClient, lines: list[str]
) -> None:
    a_job(server, schedule=CRON)
    stopped = stop_jobs(state_of(client, 11), client=client, **QUICK)
    a_job(server, continuous={"pause_status": "PAUSED"})

    resumed = resume_jobs(stopped, client=client, say=lines.append)

    assert (resumed.left, server.space.pause_status(11, "continuous")) == ((11,), "PAUSED")
    assert "look at it yourself" in lines[0]


def test_a_failure_does_not_keep_the_other_jobs_from_starting(server: JobsApi, client: WorkspaceClient) -> None:
    for job_id in (11, 12, 13):
        a_job(server, job_id, f"job {job_id}", schedule=CRON)
    stopped = stop_jobs(state_of(client, 11, 12, 13), client=client, **QUICK)
    server.fail("update", 403)

    with pytest.raises(StoppedHalfway) as caught:
        resume_jobs(stopped, client=client)
    assert (caught.value.code, "active again: 12, 11" in caught.value.what) == ("JobsNotResumed", True)
    assert "job 13 (job 13)" in caught.value.what

    assert resume_jobs(stopped, client=client).resumed == (13, 12, 11)
    assert {server.space.pause_status(job_id, "schedule") for job_id in (11, 12, 13)} == {"UNPAUSED"}


def test_a_job_that_was_deleted_meanwhile_is_told_and_no_failure(server: JobsApi, client: WorkspaceClient) -> None:
    for job_id in (11, 12):
        a_job(server, job_id, f"job {job_id}", schedule=CRON)
    stopped = stop_jobs(state_of(client, 11, 12), client=client, **QUICK)
    del server.space.jobs[12]

    resumed = resume_jobs(stopped, client=client)

    assert (resumed.resumed, resumed.gone) == ((11,), (12,))


# Dying in between

DRIVER = """
import json, sys
from databricks.sdk import WorkspaceClient
from surestart.remedies.jobs.databricks_jobs import read_stopped_jobs, resume_jobs, stop_jobs
client = WorkspaceClient(host=sys.argv[2], token="not-a-secret", auth_type="pat")
intent = read_stopped_jobs(json.loads(open(sys.argv[3]).read()))
if sys.argv[1] == "stop":
    stop_jobs(intent.jobs, client=client, poll_seconds=0.001, limit_seconds=20, own_run="")
else:
    resume_jobs(intent, client=client)
"""


def die(server: JobsApi, verb: str, journal: Path, failpoint: str) -> None:
    """A process of its own did `verb` up to the failpoint and is dead by SIGKILL."""
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER, verb, server.url, str(journal)],
        env={**os.environ, "SURESTART_FAILPOINT": failpoint},
        start_new_session=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


@pytest.mark.parametrize(
    ("verb", "failpoint"),
    [
        ("stop", "jobs.after_pause"),
        ("stop", "jobs.after_pause:2"),
        ("stop", "jobs.after_cancel"),
        ("resume", "jobs.after_unpause"),
        ("resume", "jobs.after_unpause:2"),
    ],
)
def test_killed_between_any_two_calls_the_same_call_again_ends_it(
    server: JobsApi, client: WorkspaceClient, tmp_path: Path, verb: str, failpoint: str
) -> None:
    """Job 13 was paused before everything: it stays so, whatever dies."""
    a_job(server, 11, "a", schedule=CRON)
    a_job(server, 12, "b", continuous={"pause_status": "UNPAUSED"})
    a_job(server, 13, "c", trigger={**FILES, "pause_status": "PAUSED"})
    for job_id in (11, 12, 13):
        server.space.add_run(job_id)
    journal = tmp_path / "journal.json"
    journal.write_text(json.dumps(StoppedJobs(state_of(client, 11, 12, 13)).as_dict()))

    intent = read_stopped_jobs(json.loads(journal.read_text()))

    if verb == "stop":
        die(server, verb, journal, failpoint)
    stop_jobs(intent.jobs, client=client, **QUICK)
    assert statuses(server) == ["PAUSED"] * 3
    assert [server.space.active_runs(job_id) for job_id in (11, 12, 13)] == [[], [], []]
    assert len(server.space.runs) == 3

    if verb == "resume":
        die(server, verb, journal, failpoint)
        assert statuses(server) != ["UNPAUSED", "UNPAUSED", "PAUSED"] or failpoint.endswith(":2")
    resume_jobs(intent, client=client)
    assert statuses(server) == ["UNPAUSED", "UNPAUSED", "PAUSED"]


def statuses(server: JobsApi) -> list[str | None]:
    return [server.space.pause_status(*at) for at in ((11, "schedule"), (12, "continuous"), (13, "trigger"))]


# The journal


def test_values_come_back_from_json_as_they_were() -> None:
    triggers = (
        JobTrigger("schedule", False),
        JobTrigger("continuous", True, by_hand=True),
        JobTrigger("triggers", True, "{}"),
    )
    stopped = StoppedJobs(
        (JobState(2**53 + 1, "ü", (RAW, "x"), triggers, (1, 2), "tags"), JobState(1, "", (), (), ())), (7,)
    )

    assert read_stopped_jobs(json.loads(json.dumps(stopped.as_dict()))) == stopped


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("jobs"),
        lambda d: d["jobs"][0].pop("triggers"),
        lambda d: d["jobs"][0].update(job_id="11"),
        lambda d: d["jobs"][0]["triggers"][0].update(paused="no"),
        lambda d: d["jobs"][0].update(active_runs=[True]),
        lambda d: d.update(jobs=["x"]),
    ],
)
def test_a_journal_that_was_damaged_is_not_guessed_at(change: Any) -> None:
    values = StoppedJobs((JobState(11, "a", (RAW,), (JobTrigger("schedule", False),), (1,)),)).as_dict()
    change(values)

    with pytest.raises(UsageError) as caught:
        read_stopped_jobs(values)

    assert caught.value.code == "JobsNotReadable"


# The SDK


def test_without_the_sdk_the_error_names_the_extra(tmp_path: Path) -> None:
    """In a Python whose `databricks` package is another one."""
    (tmp_path / "databricks").mkdir()
    (tmp_path / "databricks" / "__init__.py").touch()
    program = (
        "from surestart.remedies.jobs.databricks_jobs import read_jobs\n"
        "from surestart.environment import environment_from_settings\n"
        "from surestart.errors import CannotTell\n"
        "here = environment_from_settings('prod', 'sensor', {'catalog': 'm', 'schema': 's'}, environ={})\n"
        "try:\n    read_jobs(here, ['sensor-raw-ingest'])\n"
        "except CannotTell as error:\n    print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "databricks-sdk is not installed" in done.stdout, done.stderr
    assert "-m pip install 'databricks-sdk" in done.stdout


def test_without_a_login_the_error_names_the_command(tmp_path: Path) -> None:
    program = (
        "from surestart.remedies.jobs.api import open_jobs_api\n"
        "from surestart.errors import CannotTell\n"
        "try:\n    open_jobs_api()\n"
        "except CannotTell as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "no login to Databricks" in done.stdout, done.stderr
    assert "Next: databricks auth login" in done.stdout


def test_our_calls_and_the_sdks_own_mean_the_same(server: JobsApi, client: WorkspaceClient) -> None:
    """What we send as plain JSON is understood by the SDK's typed calls, and the other way round."""
    a_job(server, schedule={**CRON, "pause_status": "UNPAUSED"})
    run_id = server.space.add_run(11)
    api = open_jobs_api(client)

    typed = client.jobs.get(11)
    assert typed.settings is not None
    assert typed.settings.schedule is not None
    assert api.read_job(11)["settings"]["schedule"] == typed.settings.schedule.as_dict()
    assert [run.run_id for run in client.jobs.list_runs(job_id=11, active_only=True)] == [run_id]
    assert [run.run_id for run in api.list_active_runs(11)] == [run_id]
    ours, theirs = server.called("runs/list")[-1], server.called("runs/list")[-2]
    assert ours == theirs
    api.cancel_run(run_id)
    client.jobs.cancel_run(run_id)
    assert server.called("runs/cancel") == [{"run_id": run_id}] * 2
