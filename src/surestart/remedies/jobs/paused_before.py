"""How jobs were set before remedies paused them, as the journals have it: paused looks the same whoever did it.

remedy A  released, and died there: its jobs are paused, and were active
remedy B  begins over the same stages: "paused by somebody" would be wrong, and would stay so for ever
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from surestart.journal.journal import Journal
from surestart.remedies.jobs.state import JobState, JobTrigger, StoppedJobs, read_stopped_jobs


def as_before(jobs: Iterable[JobState], journals: Iterable[Journal], digest: str = "") -> tuple[JobState, ...]:
    """The jobs as they are now; those that other remedies have paused and not set back are taken as active."""
    found = []
    for job in jobs:
        active = {
            trigger.key
            for journal in journals
            if journal.leaves_jobs_paused and journal.digest != digest
            for one in _paused_by(journal)
            if one.job_id == job.job_id
            for trigger in one.triggers
            if not trigger.paused
        }
        found.append(replace(job, triggers=tuple(_set(one, one.key in active) for one in job.triggers)))
    return tuple(found)


def with_new_jobs(known: StoppedJobs, there: StoppedJobs) -> StoppedJobs:
    """The jobs that the journal knows, and those that came since, such as a job that was deployed anew under another
    id."""
    ids = {job.job_id for job in known.jobs}
    return replace(known, jobs=(*known.jobs, *(job for job in there.jobs if job.job_id not in ids)))


def taken_over(jobs: Sequence[JobState], journals: Iterable[Journal], digest: str) -> tuple[Journal, ...]:
    """Other remedies whose paused jobs are all among these: who sets these as they were does so for them."""
    ids = {job.job_id for job in jobs}
    return tuple(
        journal
        for journal in journals
        if journal.leaves_jobs_paused
        and journal.digest != digest
        and ids.issuperset(one.job_id for one in _paused_by(journal))
    )


def without_held(stopped: StoppedJobs, journals: Iterable[Journal], digest: str) -> StoppedJobs:
    """The jobs that no other remedy keeps paused at this moment. That remedy knows from `as_before` how to set its own
    back."""
    held = {
        job.job_id
        for journal in journals
        if journal.is_unfinished and journal.digest != digest
        for job in _paused_by(journal)
    }
    return replace(stopped, jobs=tuple(job for job in stopped.jobs if job.job_id not in held))


def _paused_by(journal: Journal) -> tuple[JobState, ...]:
    before = journal.paused_jobs
    return () if before is None else read_stopped_jobs(before).jobs


def _set(trigger: JobTrigger, active: bool) -> JobTrigger:
    return replace(trigger, paused=trigger.paused and not active)
