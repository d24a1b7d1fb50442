"""Who runs a query now, and whether that one is alive: from what it said of itself, the process, the job run, and the
checkpoint's newest file.

    this host, same boot, same process namespace    /proc: the process is there, paused, or gone
    a Databricks job run                            its state, when databricks-sdk is here and may ask
    anything else                                   silent for longer than GRACE: dead; else cannot tell
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from surestart.diagnosis.time_text import span_text, time_text
from surestart.registry.process_facts import is_paused, read_process_start
from surestart.registry.run_record import RunRecord

# No trigger of ours is slower, and a driver that has not planned a batch for so long is restarted by its job anyway.
GRACE = 15 * 60_000
_OVER = ("TERMINATED", "SKIPPED", "INTERNAL_ERROR")


class Life(StrEnum):
    ALIVE = "alive"
    PAUSED = "paused"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class OwnerState:
    life: Life
    why: str


def judge_owner(
    run: RunRecord,
    *,
    now: int,
    last_activity: int | None,
    job_state: Callable[[str], str] | None = None,
) -> OwnerState:
    """last_activity: when the checkpoint last changed, in ms since 1970."""
    boot, _, _ = run.process_started.rpartition("/")
    mine, _, _ = read_process_start_of_self().rpartition("/")
    if run.host == socket.gethostname() and mine and boot:
        if boot == mine:
            if read_process_start(run.pid) != run.process_started:
                return OwnerState(Life.DEAD, f"process {run.pid} has gone")
            if is_paused(run.pid):
                return OwnerState(Life.PAUSED, f"process {run.pid} is stopped by a signal")
            return OwnerState(Life.ALIVE, f"process {run.pid} is running")
        if boot.partition("/")[0] != mine.partition("/")[0]:
            return OwnerState(Life.DEAD, f"{run.host} was started anew since")
    if run.job_run and job_state is not None and (state := job_state(run.job_run)):
        over = state in _OVER
        return OwnerState(Life.DEAD if over else Life.ALIVE, f"job run {run.job_run} is {state}")
    seen = max(run.started_at, last_activity or 0)
    if now - seen > GRACE:
        return OwnerState(Life.DEAD, f"nothing was heard of it since {time_text(seen)}, {span_text(now - seen)} ago")
    return OwnerState(Life.UNKNOWN, f"it was active at {time_text(seen)}, and {run.host or 'its host'} is not this one")


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
