"""Ends the active runs of paused jobs: cancels, waits, and looks again until two looks in a row saw nothing.

Cancelling is asynchronous, a run may be queued while another ends, and one that waits for a retry may be missing from
the list of active runs: so what was once seen active is followed by its id until the platform says that it is over.

The runs of a job that is deleted go on for a while (Jobs API, jobs/delete: "runs that were active … may still be
active"), and may not be shown any more. A stage that still runs then holds its claim, which is asked after this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, sleep

from surestart.errors import CannotTell, StoppedHalfway, SurestartError
from surestart.failpoints import fail_point
from surestart.remedies.jobs.api import BAD_STATE, DENIED, MISSING, JobRun, JobsApi, JobsCallFailed
from surestart.remedies.jobs.state import JobState, triggers_of
from surestart.typed import NextStep, typed

Say = Callable[[str], object]


class EndingRuns:
    """changed: what was changed so far, in sentences; it grows."""

    def __init__(self, api: JobsApi, jobs: Sequence[JobState], changed: list[str], say: Say) -> None:
        self._api, self._jobs, self._changed, self._say = api, jobs, changed, say
        self._followed = {run: job for job in jobs for run in job.active_runs}
        self._deleted: set[int] = set()
        self._told: dict[int, str] = {}
        self.cancelled: dict[int, JobState] = {}

    def until_quiet(self, poll_seconds: float, limit_seconds: float) -> tuple[int, ...]:
        began, looks, quiet = monotonic(), 0, 0
        while True:
            active = self._look(monotonic() - began)
            looks, quiet = looks + 1, 0 if active else quiet + 1
            if quiet == 2:
                return tuple(sorted(self.cancelled))
            # The first look is the one that tells them to end.
            if active and looks > 1 and monotonic() - began > limit_seconds:
                raise self._did_not_end(active, limit_seconds)
            sleep(poll_seconds)

    def is_deleted(self, job: JobState, failure: JobsCallFailed) -> bool:
        """Whether the call has failed because the job is deleted. Then only its known runs are ended."""
        if failure.kind != MISSING or job.job_id in self._deleted:
            return False
        try:
            deleted = self._api.is_deleted(job.job_id)
        except JobsCallFailed as second:
            raise call_failed(second, f"looking whether {job.label} was deleted", job, self._changed) from second
        if deleted:
            self._deleted.add(job.job_id)
            runs = [str(run) for run, its in self._followed.items() if its is job]
            known = f"its run {', '.join(runs)} is waited for" if runs else "no run of it is known"
            self._say(f"{job.label} was deleted since: nothing to pause, {known}")
        return deleted

    def _look(self, seconds: float) -> list[tuple[JobState, str]]:
        """What is still active, each with the word for it; runs that were not told to end were told now."""
        active: list[tuple[JobState, str]] = []
        for job in self._jobs:
            try:
                active += self._look_at(job, seconds)
            except JobsCallFailed as failure:
                if not self.is_deleted(job, failure):
                    raise call_failed(failure, f"ending the runs of {job.label}", job, self._changed) from failure
                # Not quiet: its runs are asked for at the next look.
                active.append((job, f"{job.label} was deleted"))
        return active

    def _look_at(self, job: JobState, seconds: float) -> list[tuple[JobState, str]]:
        active: list[tuple[JobState, str]] = []
        runs: dict[int, JobRun] = {}
        if job.job_id not in self._deleted:
            if self._restarts_by_itself(job):
                active.append((job, f"{job.label} is still started again by the platform"))
            runs = {run.run_id: run for run in self._api.list_active_runs(job.job_id)}
        for run_id in [run for run, its in self._followed.items() if its is job and run not in runs]:
            run = self._read(run_id, job)
            if run.is_over:
                del self._followed[run_id]
            else:
                runs[run_id] = run
        for run in runs.values():
            self._followed[run.run_id] = job
            self._cancel(run, job)
            self._tell(run, job, seconds)
            active.append((job, f"run {run.run_id} of {job.label} is {run.state or 'in an unknown state'}"))
        return active

    def _restarts_by_itself(self, job: JobState) -> bool:
        triggers = triggers_of(self._api.read_job(job.job_id))
        active = [one.kind for one in triggers if not one.paused]
        if active:
            raise StoppedHalfway(
                f"{job.label} is not paused any more ({', '.join(active)}). So far: {so_far(self._changed)}",
                meaning="Somebody has un-paused or deployed the job while its runs were being ended.",
                next=typed(
                    "databricks", "jobs", "get", job.job_id, note="find out who, then run the same command again"
                ),
                do_not="deploy the bundle while a remedy is open: it sets every schedule as the files say.",
                code="JobChanged",
            )
        return any(one.by_hand for one in triggers)

    def _read(self, run_id: int, job: JobState) -> JobRun:
        try:
            return self._api.read_run(run_id)
        except JobsCallFailed as failure:
            if failure.kind != MISSING:
                raise
            # The platform removes runs that ended long ago, and those of a deleted job.
            return JobRun(run_id, job.job_id, "TERMINATED")

    def _cancel(self, run: JobRun, job: JobState) -> None:
        if run.run_id in self.cancelled or run.state == "TERMINATING":
            return
        try:
            self._api.cancel_run(run.run_id)
        except JobsCallFailed as failure:
            # It may have ended between the look and the call; if it has not, that is a failure.
            if failure.kind not in (BAD_STATE, MISSING) or not self._read(run.run_id, job).is_over:
                raise
            return
        self.cancelled[run.run_id] = job
        self._changed.append(f"run {run.run_id} of {job.label} cancelled")
        self._say(self._changed[-1])
        fail_point("jobs.after_cancel")

    def _tell(self, run: JobRun, job: JobState, seconds: float) -> None:
        word = f"{run.state} {int(seconds) // 30}"
        if self._told.get(run.run_id) != word:
            self._told[run.run_id] = word
            self._say(f"waiting for run {run.run_id} of {job.label}: {run.state}, {seconds:.0f} s")

    def _did_not_end(self, active: Sequence[tuple[JobState, str]], limit_seconds: float) -> StoppedHalfway:
        job, what = active[0]
        more = f", and {len(active) - 1} more" if len(active) > 1 else ""
        return StoppedHalfway(
            f"{what}{more} after {limit_seconds:.0f} s. So far: {so_far(self._changed)}",
            meaning="A run that goes on may still write. The triggers stay paused, so that nothing new starts.",
            next=typed(
                "databricks",
                "jobs",
                "list-runs",
                "--job-id",
                job.job_id,
                "--active-only",
                note="when it is empty, run the same command again",
            ),
            do_not="clear any output before that run has ended.",
            code="RunDoesNotEnd",
        )


def call_failed(failure: JobsCallFailed, doing: str, job: JobState, changed: Sequence[str]) -> SurestartError:
    if failure.kind == DENIED:
        return half_or(
            changed,
            CannotTell,
            f"not allowed: {doing}: {failure}",
            meaning="Pausing a job takes CAN_MANAGE on it, cancelling its runs CAN_MANAGE_RUN.",
            next=typed("databricks", "jobs", "get-permissions", job.job_id, note="then run the same command again"),
            do_not="go on without stopping it: it would start the stream over half-cleared output.",
            code="JobPermissionDenied",
        )
    if failure.kind == MISSING:
        return half_or(
            changed,
            CannotTell,
            f"{doing}: one answer says that it is not there, another that it is: {failure}",
            meaning="Whether it was deleted cannot be told, and so not whether it starts its stage again.",
            next=typed(
                "databricks", "jobs", "get", job.job_id, note="once the answers agree, run the same command again"
            ),
            do_not="treat it as stopped: runs of a deleted job go on.",
            code="JobNotFound",
        )
    return half_or(
        changed,
        CannotTell,
        f"{doing}: {failure}",
        meaning="The workspace gave no usable answer; whether the last call had an effect is unknown.",
        next=typed("databricks", "jobs", "get", job.job_id, note="when it answers, run the same command again"),
        do_not="clear any output before you know that the jobs stand still.",
        code="JobsNotReachable",
    )


def half_or(
    changed: Sequence[str],
    kind: type[SurestartError],
    what: str,
    *,
    meaning: str,
    next: NextStep,
    do_not: str,
    code: str,
) -> SurestartError:
    """The error; StoppedHalfway when something was changed already, with what was changed."""
    half = StoppedHalfway if changed else kind
    return half(f"{what}. So far: {so_far(changed)}", meaning=meaning, next=next, do_not=do_not, code=code)


def so_far(changed: Sequence[str]) -> str:
    return "; ".join(changed) or "nothing was changed"


def not_resumed(failures: Sequence[tuple[JobState, JobsCallFailed]], resumed: Sequence[int]) -> StoppedHalfway:
    what = "; ".join(f"{job.label}: {failure}" for job, failure in failures)
    done = f"active again: {', '.join(map(str, resumed))}" if resumed else "no job was started again"
    return StoppedHalfway(
        f"{len(failures)} of the paused jobs could not be unpaused: {what}. So far: {done}",
        meaning="These stages do not run until somebody starts them; nothing is lost, the backlog grows.",
        next=typed(
            "databricks", "jobs", "get-permissions", failures[0][0].job_id, note="then run the same command again"
        ),
        do_not="un-pause jobs that were paused before the remedy.",
        code="JobsNotResumed",
    )
