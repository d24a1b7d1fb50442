"""What another remedy has paused and left so is not taken for paused by somebody."""

from __future__ import annotations

import pytest

from surestart.journal.journal import (
    BEGUN,
    DONE,
    FILLING,
    FINISHED,
    JOBS,
    RELEASED,
    UNDONE,
    UNPAUSE,
    Journal,
    JournalEntry,
)
from surestart.remedies.jobs.state import JobState, JobTrigger, StoppedJobs, as_before, taken_over, with_new_jobs

A, B = "a" * 64, "b" * 64
NOW = JobState(
    11, "gold", ("sensor-merge-gold",), (JobTrigger("schedule", paused=True), JobTrigger("trigger", True)), (7,)
)
THEN = JobState(
    11, "gold", ("sensor-merge-gold",), (JobTrigger("schedule", paused=False), JobTrigger("trigger", True)), ()
)


def journal(*states: str, remedy: str = "reset", jobs: tuple[JobState, ...] = (THEN,)) -> Journal:
    """Of remedy A: "jobs" and "unpause" stand for those steps."""
    entries = []
    for number, state in enumerate(states):
        facts = StoppedJobs(jobs).as_dict() if state == JOBS else {}
        step = state if state in (JOBS, UNPAUSE) else ""
        entries.append(JournalEntry(A, number, DONE if step else state, step, remedy=remedy, facts=facts))
    return Journal(tuple(entries))


def test_a_job_that_a_dead_remedy_has_paused_counts_as_it_was() -> None:
    (job,) = as_before([NOW], [journal(BEGUN, JOBS, RELEASED)], B)

    assert job.triggers == THEN.triggers
    assert job.active_runs == (7,)


@pytest.mark.parametrize(
    "other",
    [
        journal(BEGUN, JOBS, RELEASED, UNPAUSE, FINISHED),
        journal(BEGUN, JOBS, RELEASED, FINISHED, remedy="retire"),
        journal(BEGUN, JOBS),
        journal(BEGUN, JOBS, RELEASED, jobs=(JobState(12, "other", (), THEN.triggers, ()),)),
    ],
    ids=["set back", "a retired query", "goes on", "another job"],
)
def test_a_job_that_somebody_has_paused_stays_so(other: Journal) -> None:
    assert as_before([NOW], [other], B) == (NOW,)


def test_a_remedys_own_journal_and_a_trigger_that_was_exchanged_change_nothing() -> None:
    assert as_before([NOW], [journal(BEGUN, JOBS, RELEASED)], A) == (NOW,)
    other = JobState(11, "gold", (), (JobTrigger("continuous", paused=True),), ())
    assert as_before([other], [journal(BEGUN, JOBS, RELEASED)], B) == (other,)


def test_only_a_remedy_whose_jobs_are_all_taken_over_is_closed() -> None:
    more = journal(BEGUN, JOBS, RELEASED, jobs=(THEN, JobState(12, "raw", (), (), ())))

    assert taken_over([NOW], [journal(BEGUN, JOBS, RELEASED)], B) == (journal(BEGUN, JOBS, RELEASED),)
    assert taken_over([NOW], [more], B) == ()


def test_a_job_that_came_since_is_added_to_what_the_journal_knows() -> None:
    new = JobState(13, "gold again", ("sensor-merge-gold",), (JobTrigger("schedule", paused=False),), (8,))

    assert with_new_jobs(StoppedJobs((THEN,), (5,)), StoppedJobs((NOW, new))) == StoppedJobs((THEN, new), (5,))


@pytest.mark.parametrize("states", [(FILLING, BEGUN, JOBS, FILLING), (BEGUN, JOBS, RELEASED)])
def test_jobs_are_left_paused_where_the_stages_may_start_and_nobody_has_set_them_back(states: tuple[str, ...]) -> None:
    assert journal(*states).leaves_jobs_paused
    done = (*journal(*states).entries, JournalEntry(A, 9, UNDONE, UNPAUSE))
    assert not Journal(done).leaves_jobs_paused
