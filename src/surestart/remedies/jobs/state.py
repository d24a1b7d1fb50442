"""A Databricks job that runs a stage: what starts it, what runs of it are active, and how that goes into a journal.

{"job_id": 11, "name": "sensor-raw-ingest", "queries": ["sensor-raw-ingest"], "found_in": "tags",
 "triggers": [{"kind": "schedule", "paused": false, "entry": "", "by_hand": false}], "active_runs": [901]}

kind      where the pause status is
schedule, continuous, trigger     settings.<kind>.pause_status  (trigger: files, tables, a period)
triggers                          settings.triggers[].pause_status, several, each known by the rest of it

How jobs were set before remedies paused them, as the journals have it: paused looks the same whoever did it.

remedy A  released, and died there: its jobs are paused, and were active
remedy B  begins over the same stages: "paused by somebody" would be wrong, and would stay so for ever"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surestart.errors import UsageError
from surestart.journal.journal import Journal
from surestart.typed import surestart

PAUSED, UNPAUSED = "PAUSED", "UNPAUSED"
_ONE = ("schedule", "continuous", "trigger")
_SEVERAL = "triggers"


@dataclass(frozen=True)
class JobTrigger:
    """paused: as it is set.
    by_hand: a continuous job that is set to paused and that somebody started nevertheless."""

    kind: str
    paused: bool
    entry: str = ""
    by_hand: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The same before and after pausing."""
        return self.kind, self.entry

    @property
    def is_active(self) -> bool:
        return not self.paused or self.by_hand


@dataclass(frozen=True)
class JobState:
    """queries: those of the stages that this job runs.
    found_in: "run history" or "tags"."""

    job_id: int
    name: str
    queries: tuple[str, ...]
    triggers: tuple[JobTrigger, ...]
    active_runs: tuple[int, ...]
    found_in: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} (job {self.job_id})"

    def describe(self) -> str:
        """One line for a plan."""
        states = [f"{trigger.kind} {'active' if trigger.is_active else 'paused'}" for trigger in self.triggers]
        runs = f"active runs {', '.join(map(str, self.active_runs))}" if self.active_runs else "no active run"
        return f"{self.label}: {', '.join(states) or 'started by nothing but people and other jobs'}; {runs}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "name": self.name,
            "queries": list(self.queries),
            "triggers": [
                {"kind": one.kind, "paused": one.paused, "entry": one.entry, "by_hand": one.by_hand}
                for one in self.triggers
            ],
            "active_runs": list(self.active_runs),
            "found_in": self.found_in,
        }


@dataclass(frozen=True)
class StoppedJobs:
    """jobs: as they were before anything was done to them.
    cancelled: runs that were told to end, and have ended. Empty before the first job is paused: then the journal keeps
        what is about to be done."""

    jobs: tuple[JobState, ...]
    cancelled: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"jobs": [job.as_dict() for job in self.jobs], "cancelled": list(self.cancelled)}


@dataclass(frozen=True)
class ResumedJobs:
    """Job ids.

    resumed: active again, by this call or by somebody before it.
    left: nothing of ours to un-pause.
    gone: deleted since."""

    resumed: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"resumed": list(self.resumed), "left": list(self.left), "gone": list(self.gone)}


def read_stored_job(values: Mapping[str, Any]) -> JobState:
    """What `as_dict` gave. Raises UsageError when it is something else: a guess would un-pause the wrong job."""
    try:
        return JobState(
            job_id=_number(values["job_id"]),
            name=str(values["name"]),
            queries=tuple(str(query) for query in values["queries"]),
            triggers=tuple(
                JobTrigger(str(one["kind"]), _truth(one["paused"]), str(one["entry"]), _truth(one["by_hand"]))
                for one in values["triggers"]
            ),
            active_runs=tuple(_number(run) for run in values["active_runs"]),
            found_in=str(values.get("found_in", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable("job", values, error) from error


def read_stopped_jobs(values: Mapping[str, Any]) -> StoppedJobs:
    try:
        jobs, cancelled = list(values["jobs"]), tuple(_number(run) for run in values["cancelled"])
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable("list of stopped jobs", values, error) from error
    return StoppedJobs(tuple(read_stored_job(job) for job in jobs), cancelled)


def triggers_of(job: Mapping[str, Any]) -> tuple[JobTrigger, ...]:
    """What starts the job, read from the answer of jobs/get."""
    settings = job.get("settings") or {}
    state = (job.get("trigger_state") or {}).get("pause_status")
    found = [
        # Left out means active: the platform's default.
        JobTrigger(kind, paused := settings[kind].get("pause_status") == PAUSED, "", _by_hand(kind, paused, state))
        for kind in _ONE
        if settings.get(kind)
    ]
    return (*found, *(JobTrigger(_SEVERAL, one.get("pause_status") == PAUSED, _entry(one)) for one in _list(settings)))


def pause_settings(
    job: Mapping[str, Any], keys: Collection[tuple[str, str]], pause_status: str, *, again: Collection[str] = ()
) -> dict[str, Any]:
    """What jobs/update has to be sent so that these triggers have that pause status: each as it is now, with nothing
    else changed; {} when they have it already. again: kinds that are sent in any case."""
    settings = job.get("settings") or {}
    changed: dict[str, Any] = {}
    for kind in _ONE:
        value = settings.get(kind)
        if value and (kind, "") in keys and (_status(value) != pause_status or kind in again):
            changed[kind] = {**value, "pause_status": pause_status}
    entries = _list(settings)
    if any((_SEVERAL, _entry(one)) in keys and _status(one) != pause_status for one in entries):
        changed[_SEVERAL] = [
            {**one, "pause_status": pause_status} if (_SEVERAL, _entry(one)) in keys else dict(one) for one in entries
        ]
    return changed


def _by_hand(kind: str, paused: bool, state: Any) -> bool:
    # The API's reference for trigger_state: for continuous jobs it differs from what is set when a paused job was
    # started by anything but an update. Such a job restarts its runs like one that is not paused.
    return kind == "continuous" and paused and state == UNPAUSED


def _status(value: Mapping[str, Any]) -> str:
    return PAUSED if value.get("pause_status") == PAUSED else UNPAUSED


def _list(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(settings.get(_SEVERAL) or [])


def _entry(value: Mapping[str, Any]) -> str:
    return json.dumps({key: one for key, one in value.items() if key != "pause_status"}, sort_keys=True)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _unreadable(what: str, values: object, error: Exception) -> UsageError:
    return UsageError(
        f"a {what} in the journal cannot be read: {type(error).__name__}: {error} in {str(values)[:200]}",
        meaning="It says which jobs were paused and what they were before. Nothing was changed.",
        next=surestart("history"),
        do_not="un-pause every job by hand: one that was paused before the remedy was paused for a reason.",
        code="JobsNotReadable",
    )


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
