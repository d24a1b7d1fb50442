"""Step 1 of a remedy on Databricks, and its last: the jobs of the stages stand still, and later start again as before.

    read_jobs ──> the journal keeps StoppedJobs(jobs).as_dict() ──> stop_jobs ──> …the remedy… ──> resume_jobs
                                                          every job:  pause its triggers
                                                          then:       cancel its runs, wait, look again

All jobs are paused before the first run is cancelled: a continuous job starts a new run as soon as one ends. What a
trigger was before is known from the journal only, since after pausing it looks as if it had always been paused; so
after dying anywhere, stop_jobs and resume_jobs are called again with what the journal says, never with a fresh look.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from surestart.errors import Refused
from surestart.failpoints import fail_point
from surestart.history.describe_run import JOB_RUN
from surestart.remedies.jobs.api import MISSING, JobsApi, JobsCallFailed, open_jobs_api
from surestart.remedies.jobs.end_job_runs import EndingRuns, Say, call_failed, half_or, not_resumed
from surestart.remedies.jobs.find_jobs import read_jobs
from surestart.remedies.jobs.state import (
    PAUSED,
    UNPAUSED,
    JobState,
    JobTrigger,
    ResumedJobs,
    StoppedJobs,
    pause_settings,
    read_stopped_jobs,
    read_stored_job,
    triggers_of,
)
from surestart.typed import typed

__all__ = [
    "JobState",
    "JobTrigger",
    "ResumedJobs",
    "StoppedJobs",
    "read_jobs",
    "read_stopped_jobs",
    "read_stored_job",
    "resume_jobs",
    "stop_jobs",
]


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def stop_jobs(
    jobs: Sequence[JobState],
    *,
    client: Any = None,
    poll_seconds: float = 5.0,
    limit_seconds: float = 900.0,
    own_run: str | None = None,
    say: Say = _to_stderr,
) -> StoppedJobs:
    """No trigger of the jobs is active and none of their runs is; two looks, poll_seconds apart, have seen it so.
    Of a job that was deleted since, the runs that were known are ended.

    jobs: as the journal has them. own_run: the job run that this process is, by default from SURESTART_JOB_RUN_ID.
    Raises StoppedHalfway once something was changed (call it again), before that CannotTell or Refused.
    """
    api = open_jobs_api(client)
    _refuse_own_run(jobs, os.environ.get(JOB_RUN, "") if own_run is None else own_run)
    changed: list[str] = []
    ending = EndingRuns(api, jobs, changed, say)
    for job in jobs:
        try:
            _pause(api, job, changed, say)
        except JobsCallFailed as failure:
            if not ending.is_deleted(job, failure):
                raise call_failed(failure, f"pausing {job.label}", job, changed) from failure
    cancelled = ending.until_quiet(poll_seconds, limit_seconds)
    return StoppedJobs(tuple(jobs), cancelled)


def resume_jobs(stopped: StoppedJobs, *, client: Any = None, say: Say = _to_stderr) -> ResumedJobs:
    """Every trigger that was active before stop_jobs is active again; one that was paused before is left paused.

    The last job that was stopped starts first. A job that fails does not keep the others from starting: the failures
    are told at the end, by StoppedHalfway. Calling it again changes nothing that is as it should be.
    """
    api = open_jobs_api(client)
    resumed: list[int] = []
    left: list[int] = []
    gone: list[int] = []
    failures: list[tuple[JobState, JobsCallFailed]] = []
    for job in reversed(stopped.jobs):
        try:
            (resumed if _unpause(api, job, say) else left).append(job.job_id)
        except JobsCallFailed as failure:
            if failure.kind == MISSING:
                say(f"{job.label} was deleted since; nothing to un-pause")
                gone.append(job.job_id)
            else:
                failures.append((job, failure))
    if failures:
        raise not_resumed(failures, resumed)
    return ResumedJobs(tuple(resumed), tuple(left), tuple(gone))


def _refuse_own_run(jobs: Sequence[JobState], own_run: str) -> None:
    for job in jobs:
        if own_run.isdecimal() and int(own_run) in job.active_runs:
            raise Refused(
                f"this is run {own_run} of {job.label}, which the remedy would cancel",
                meaning="It would end itself half-way. Nothing was changed.",
                next=typed("databricks", "bundle", "run", "sensor_reset", note="the job made for remedies"),
                do_not="apply a remedy from inside a stage's own job.",
                code="OwnJobRun",
            )


def _pause(api: JobsApi, job: JobState, changed: list[str], say: Say) -> None:
    there = api.read_job(job.job_id)
    ours = {trigger.key for trigger in job.triggers if trigger.is_active}
    others = [one for one in triggers_of(there) if one.is_active and one.key not in ours]
    if others:
        what = ", ".join(one.kind for one in others)
        raise half_or(
            changed,
            Refused,
            f"{job.label} has an active {what} that was not there, or was paused, when the journal was written",
            meaning="Somebody has changed or deployed the job since. Pausing it now would forget what it was.",
            next=typed("databricks", "jobs", "get", job.job_id, note="pause it there, then run the same command again"),
            do_not="deploy the bundle while a remedy is open: it sets every schedule as the files say.",
            code="JobChanged",
        )
    by_hand = {trigger.kind for trigger in job.triggers if trigger.by_hand}
    settings = pause_settings(there, ours, PAUSED, again=by_hand)
    if settings:
        api.update_job(job.job_id, settings)
        changed.append(f"{job.label} paused ({', '.join(settings)})")
        say(changed[-1])
    fail_point("jobs.after_pause")


def _unpause(api: JobsApi, job: JobState, say: Say) -> bool:
    """False when nothing of it is ours to start."""
    ours = {trigger.key for trigger in job.triggers if not trigger.paused}
    if any(trigger.by_hand for trigger in job.triggers):
        say(
            f"{job.label} is set to paused and had been started by hand: databricks jobs run-now {job.job_id} --no-wait"
        )
    if not ours:
        say(f"{job.label} stays as it was before: {'paused' if job.triggers else 'without a trigger'}")
        return False
    there = api.read_job(job.job_id)
    missing = ours - {trigger.key for trigger in triggers_of(there)}
    if missing:
        kinds = ", ".join(sorted(kind for kind, _ in missing))
        say(f"{job.label} was changed since, its {kinds} is not the one that was paused: look at it yourself")
    settings = pause_settings(there, ours, UNPAUSED)
    if settings:
        api.update_job(job.job_id, settings)
        say(f"{job.label} active again ({', '.join(settings)})")
    fail_point("jobs.after_unpause")
    return ours != missing
