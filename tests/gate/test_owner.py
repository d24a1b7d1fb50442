"""Whether an owner is alive: known on this host, asked of its job, else only silence tells."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from surestart.errors import EXIT_CANNOT_TELL, CannotTell, Refused
from surestart.history.describe_run import read_git_commit, read_process_start
from surestart.history.run_record import ENDED, RunRecord, merge_events, read_record
from surestart.report.json.json_log import JsonLog
from surestart.runs.find_owner import OWNER_UNKNOWN, refuse_live_owner
from surestart.runs.owner import GRACE, Life, judge_owner
from surestart.runs.runner import StageFailed
from surestart.words.next_commands import Commands

NOW = 1_800_000_000_000
HERE = RunRecord(
    run_id="a",
    query="q",
    environment="prod",
    checkpoint="/nowhere/q",
    host=socket.gethostname(),
    pid=os.getpid(),
    process_started=read_process_start(os.getpid()),
    started_at=NOW - 1000,
)


def other(**values: object) -> RunRecord:
    return RunRecord(**{**HERE.as_dict(), "host": "elsewhere", "process_started": "b/n/1", **values})  # type: ignore[arg-type]


def judged(run: RunRecord, activity: int | None = None, state: str = "", **known: Any) -> Life:
    return judge_owner(run, now=NOW, last_activity=activity, job_state=lambda job: state, **known).life


def test_a_process_of_this_host_is_known() -> None:
    boot, space, ticks = HERE.process_started.split("/")
    assert judged(HERE) is Life.ALIVE
    # The same process id, given out again.
    assert judged(RunRecord(**{**HERE.as_dict(), "process_started": f"{boot}/{space}/{int(ticks) + 1}"})) is Life.DEAD
    assert judged(RunRecord(**{**HERE.as_dict(), "process_started": f"00000000/{space}/{ticks}"})) is Life.DEAD
    # Another container: its process ids mean nothing here.
    assert judged(RunRecord(**{**HERE.as_dict(), "process_started": f"{boot}/1/{ticks}"})) is Life.UNKNOWN


def test_another_host_is_asked_through_its_job() -> None:
    run = other(job_run="7")
    assert judged(run, state="RUNNING") is Life.ALIVE
    assert judged(run, state="TERMINATED") is Life.DEAD
    assert judged(run) is Life.UNKNOWN


@pytest.mark.parametrize(
    ("attempt", "own", "life"),
    [
        ("raw_ingest/1", "raw_ingest/2", Life.DEAD),
        ("raw_ingest/9", "raw_ingest/10", Life.DEAD),
        ("a/b/1", "a/b/2", Life.DEAD),
        # The same attempt, a later one, another task of the same run: nothing says that it is over.
        ("raw_ingest/2", "raw_ingest/2", Life.UNKNOWN),
        ("raw_ingest/3", "raw_ingest/2", Life.UNKNOWN),
        ("other/1", "raw_ingest/2", Life.UNKNOWN),
        # A run that was not told which attempt it is.
        ("", "raw_ingest/2", Life.UNKNOWN),
        ("raw_ingest/1", "", Life.UNKNOWN),
        ("", "", Life.UNKNOWN),
        ("/1", "/2", Life.UNKNOWN),
        ("raw_ingest/", "raw_ingest/2", Life.UNKNOWN),
        ("raw_ingest/one", "raw_ingest/2", Life.UNKNOWN),
    ],
)
def test_a_retry_follows_the_attempt_before_it_and_nobody_else(attempt: str, own: str, life: Life) -> None:
    """The job run is RUNNING, and that is the retry itself."""
    run, asking = other(job_run="7", job_attempt=attempt), other(job_run="7", job_attempt=own)
    assert judged(run, state="RUNNING", asking=asking) is life
    # Of another run's attempts its own state tells.
    assert judged(run, state="RUNNING", asking=other(job_run="8", job_attempt=own)) is Life.ALIVE
    assert judged(run, state="TERMINATED", asking=other(job_run="8", job_attempt=own)) is Life.DEAD


@pytest.mark.parametrize("silence", [GRACE + 60_000, 10 * GRACE, 30 * 24 * 3_600_000])
def test_silence_is_not_death(silence: int) -> None:
    """No new data, or `--trigger '1 hour'`: the owner plans no batch, and lives."""
    for run in (other(started_at=NOW - silence), other(started_at=NOW - silence, job_run="7")):
        assert judged(run) is Life.UNKNOWN
        assert judged(run, activity=NOW - silence) is Life.UNKNOWN
    assert judged(other(started_at=NOW - silence, job_run="7"), state="RUNNING") is Life.ALIVE
    # Two clusters may call their drivers by one name; only the job run tells them apart.
    _, space, ticks = HERE.process_started.split("/")
    twin = RunRecord(**{**HERE.as_dict(), "process_started": f"00000000/{space}/{ticks}", "job_run": "7"})
    assert judged(twin) is Life.UNKNOWN
    assert judged(twin, state="RUNNING") is Life.ALIVE


def test_an_owner_that_beats_and_stops_beating_is_dead() -> None:
    run = other(started_at=NOW - 100 * GRACE)
    assert judged(run, silent_for=GRACE) is Life.UNKNOWN
    assert judged(run, silent_for=GRACE + 1) is Life.DEAD
    # The job knows better.
    assert judged(other(job_run="7"), state="RUNNING", silent_for=2 * GRACE) is Life.ALIVE


def owner_of(runs: Sequence[RunRecord], *accept: str) -> RunRecord:
    mine = RunRecord(run_id="mine", query="q", environment="prod")
    return refuse_live_owner(mine, runs, accept, Commands("q", "prod"))


def test_a_claim_by_row_is_refused_followed_or_asked_about() -> None:
    import time

    now = int(time.time() * 1000)
    assert owner_of([]).taken_over == ""
    assert owner_of([other(outcome="finished", event=ENDED)]).taken_over == ""
    with pytest.raises(Refused, match="q is running already"):
        owner_of([HERE])
    with pytest.raises(CannotTell, match="whether it is alive cannot be") as asked:
        owner_of([other(started_at=now)])
    assert (asked.value.exit_code, asked.value.code) == (EXIT_CANNOT_TELL, OWNER_UNKNOWN)
    accepted = owner_of([other(started_at=now)], OWNER_UNKNOWN)
    assert (accepted.accepted, "run a (" in accepted.taken_over) == ((OWNER_UNKNOWN,), True)
    with pytest.raises(CannotTell, match="nothing was heard of it since") as silent:
        owner_of([other(started_at=now - 2 * GRACE, job_url="https://w/jobs/1/runs/2")])
    assert "Look at https://w/jobs/1/runs/2" in silent.value.meaning
    remedy = Commands("q", "prod", of_a_remedy=True)
    with pytest.raises(CannotTell) as asked:
        refuse_live_owner(RunRecord(run_id="mine", query="q", environment="prod"), [other(started_at=now)], (), remedy)
    assert str(asked.value.next).endswith("the same command again, with --accept OWNER_UNKNOWN")
    own_retry = RunRecord(run_id="mine", query="q", environment="prod", job_run="7", job_attempt="raw_ingest/2")
    killed = other(started_at=now, job_run="7", job_attempt="raw_ingest/1")
    followed = refuse_live_owner(own_retry, [killed], (), Commands("q", "prod"))
    assert "it was attempt raw_ingest/1 of this same job run 7" in followed.taken_over
    with pytest.raises(CannotTell, match="an earlier attempt of this same job run 7 is not known"):
        refuse_live_owner(own_retry, [replace(killed, job_attempt="other_task/1")], (), Commands("q", "prod"))
    # Another environment's run of the same name is not this one's owner.
    assert owner_of([other(environment="dev", started_at=now)]).taken_over == ""


def test_what_ended_counts_over_what_started_in_any_order() -> None:
    started, ended = other(), other(event=ENDED, outcome="failed")
    assert merge_events([started, ended]) == merge_events([ended, started]) == (ended,)


def test_a_record_survives_its_row_and_its_note() -> None:
    run = other(accepted=("A",), sinks={"t": "1"}, metrics=({"batch": 0},), last_batch=3, declaration={"a": [1]})
    assert read_record(run.as_columns()) == run
    without_metrics = RunRecord(**{**run.as_dict(), "metrics": ()})
    assert read_record(json.loads(json.dumps(run.as_note()))) == without_metrics
    assert read_record({"run_id": "x", "pid": "7", "sinks": "{", "later_column": 1}) == RunRecord(run_id="x")
    assert read_record({"pid": 7}) is None


def test_the_json_log_is_one_object_per_line_without_nulls() -> None:
    stream = io.StringIO()
    log = JsonLog(stream)
    log.begin("sensor-raw-ingest")
    log.error(StageFailed("it\nbroke", meaning="m", next="n", code="C"))
    start, error = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (start["event"], start["query"]) == ("start", "sensor-raw-ingest")
    assert (error["event"], error["code"], error["what"], error["exit_code"]) == ("error", "C", "it\nbroke", 5)
    assert "do_not" not in error


def test_the_commit_is_read_from_a_working_copy(tmp_path: object) -> None:
    from pathlib import Path

    git = Path(str(tmp_path)) / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert read_git_commit(git.parent / "src") == ""
    (git / "packed-refs").write_text(f"# pack-refs\n{'a' * 40} refs/heads/main\n")
    assert read_git_commit(git.parent / "src") == "a" * 40
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("b" * 40 + "\n")
    assert read_git_commit(git.parent / "src") == "b" * 40
