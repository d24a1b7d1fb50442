"""Who runs a query now, and whether that one is alive: from the process, the job run, or its heartbeat.

    this host, same boot, same process namespace    /proc: the process is there, paused, or gone
    a Databricks job run                            its state, when databricks-sdk is here and may ask
    a claim file whose lock is free                 untouched for longer than GRACE: dead
    anything else                                   cannot tell, however long nothing was heard of it

That the checkpoint stands still says nothing: an owner without new data plans no batch, nor does one whose trigger is
an hour.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from surestart.history.describe_run import is_paused, read_process_start
from surestart.history.run_record import RunRecord
from surestart.words.amounts import span_text, time_text

# An owner touches its claim every 30 seconds. One that has missed thirty beats has gone, or its machine stands still.
GRACE = 15 * 60_000
_OVER = ("TERMINATED", "SKIPPED", "INTERNAL_ERROR")


class Life(StrEnum):
    ALIVE = "alive"
    PAUSED = "paused"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class OwnerState:
    """by_process: the process itself was looked at, on this machine."""

    life: Life
    why: str
    by_process: bool = False


def judge_owner(
    run: RunRecord,
    *,
    now: int,
    last_activity: int | None,
    job_state: Callable[[str], str] | None = None,
    asking: RunRecord | None = None,
    silent_for: int | None = None,
) -> OwnerState:
    """last_activity: when the checkpoint last changed, in ms since 1970.
    asking: the run that wants to start, if one does.
    silent_for: milliseconds since the last beat of an owner that promised to beat; None: it did not."""
    boot, _, _ = run.process_started.rpartition("/")
    mine, _, _ = read_process_start_of_self().rpartition("/")
    here = run.host == socket.gethostname() and bool(mine and boot)
    if here and boot == mine:
        if read_process_start(run.pid) != run.process_started:
            return OwnerState(Life.DEAD, f"process {run.pid} has gone", by_process=True)
        if is_paused(run.pid):
            return OwnerState(Life.PAUSED, f"process {run.pid} is stopped by a signal", by_process=True)
        return OwnerState(Life.ALIVE, f"process {run.pid} is running", by_process=True)
    # The state of the run's own job says nothing about other tasks of that job.
    same_run = asking is not None and run.job_run == asking.job_run
    if run.job_run:
        if asking is not None and same_run and is_former_attempt(run.job_attempt, asking.job_attempt):
            return OwnerState(Life.DEAD, f"it was attempt {run.job_attempt} of this same job run {run.job_run}")
        if job_state is not None and not same_run and (state := job_state(run.job_run)):
            over = state in _OVER
            return OwnerState(Life.DEAD if over else Life.ALIVE, f"job run {run.job_run} is {state}")
    elif here and boot.partition("/")[0] != mine.partition("/")[0]:
        # Never of a job's driver: two clusters may give theirs one name.
        return OwnerState(Life.DEAD, f"{run.host} was started anew since")
    if silent_for is not None and silent_for > GRACE:
        return OwnerState(Life.DEAD, f"its claim is not locked, and it has not touched it for {span_text(silent_for)}")
    seen = max(run.started_at, last_activity or 0)
    asked = f"job run {run.job_run} cannot be asked" if run.job_run else f"{run.host or 'its host'} is not this one"
    if run.job_run and same_run:
        asked = f"that it was an earlier attempt of this same job run {run.job_run} is not known"
    silence = f"{time_text(seen)}, {span_text(max(now - seen, 0))} ago"
    return OwnerState(Life.UNKNOWN, f"nothing was heard of it since {silence}, and {asked}")


def is_former_attempt(attempt: str, own: str) -> bool:
    """Both are `task/count` of one job run, and the task was started again since: Databricks retries or repairs a task
    once its former attempt is over. False where either is not known, and for two tasks of one run, which may both be
    alive."""
    (task, _, count), (own_task, _, own_count) = attempt.rpartition("/"), own.rpartition("/")
    counted = count.isdecimal() and own_count.isdecimal()
    return bool(task) and task == own_task and counted and int(count) < int(own_count)


def read_process_start_of_self() -> str:
    return read_process_start(os.getpid())


def describe_owner(run: RunRecord) -> str:
    job = f", job run {run.job_run}" if run.job_run else ""
    return f"process {run.pid} on {run.host}{job}, since {time_text(run.started_at)}"


def read_job_state(job_run: str) -> str:
    """The life cycle state of a Databricks job run, or "" where it cannot be asked."""
    try:
        from databricks.sdk import WorkspaceClient
        from databricks.sdk.config import Config
        from databricks.sdk.errors.base import DatabricksError
    except ImportError:
        return ""
    try:
        # The SDK would go on asking for five minutes; a start is not held up for so long.
        client = WorkspaceClient(config=Config(http_timeout_seconds=10, retry_timeout_seconds=10))
        state = client.jobs.get_run(int(job_run)).state
    except (DatabricksError, ValueError, OSError):
        # Not allowed, not configured, not reachable: no answer, which is never taken for "dead".
        return ""
    return str(state.life_cycle_state.value) if state and state.life_cycle_state else ""
