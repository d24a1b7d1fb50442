"""What is said when a job cannot be stopped or started again: always with what was changed up to then."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.errors import CannotTell, StoppedHalfway, SurestartError
from surestart.remedies.jobs.api import DENIED, MISSING, JobsCallFailed
from surestart.remedies.jobs.state import JobState
from surestart.typed import NextStep, typed


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
            do_not="take it for stopped: runs of a deleted job go on.",
            code="JobNotFound",
        )
    return half_or(
        changed,
        CannotTell,
        f"{doing}: {failure}",
        meaning="The workspace gave no usable answer; whether the last call had an effect is unknown.",
        next=typed("databricks", "jobs", "get", job.job_id, note="when it answers, run the same command again"),
        do_not="clear any output before the jobs are known to stand still.",
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
        f"{len(failures)} of the paused jobs could not be un-paused: {what}. So far: {done}",
        meaning="These stages do not run until somebody starts them; nothing is lost, the backlog grows.",
        next=typed(
            "databricks", "jobs", "get-permissions", failures[0][0].job_id, note="then run the same command again"
        ),
        do_not="un-pause jobs that were paused before the remedy.",
        code="JobsNotResumed",
    )
