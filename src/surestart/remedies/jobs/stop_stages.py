"""Step 1 of a remedy whose stages are run by jobs, for apply and undo: their jobs are stopped before they are claimed.

    begun ──> jobs: how each is set ──> stop: pause, cancel, wait ──> claim ──> look: nothing has moved ──> the remedy
      └── whatever fails up to here: the journal says that nothing was done, and the jobs are set as they were

How a job was set before is in the journal before the first one is paused, and counts until `unpause` is in it as well:
so nothing stays paused for ever, and what somebody else had paused is not started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from surestart.errors import SurestartError
from surestart.failpoints import fail_point
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FILLING,
    FINISHED,
    OF_ANOTHER,
    RELEASED,
    UNDOING,
    UNDONE,
    WITHDRAWN,
    read_journals,
)
from surestart.journal.protocol import CHECK, JOBS, LOOK, STOP, UNPAUSE
from surestart.remedies.basis.preconditions import check_preconditions
from surestart.remedies.basis.step_context import (
    StepContext,
    begin,
    carried_on,
    claimed_queries,
    enter,
    enter_done,
    read_again,
    refuse_rivals,
)
from surestart.remedies.jobs.databricks_jobs import StoppedJobs, read_stopped_jobs, stop_jobs
from surestart.remedies.jobs.plan_jobs import read_jobs_now
from surestart.remedies.jobs.set_jobs_back import going_back, what_of
from surestart.remedies.jobs.state import taken_over, with_new_jobs


def stop_stages_to_apply(run: StepContext, claims: ExitStack, begun: bool) -> StepContext:
    """For apply: the plan is begun, no job of its stages is active, they are claimed, and nothing has moved since it
    was made. Raises with the jobs set as they were, and the plan withdrawn, while nothing was cleared."""
    if not begun:
        # Before anything is written: a workspace that does not answer, or another set of jobs than was planned for.
        read_jobs_now(run)
        run = begin(run)
    fail_point("remedy.begun")
    with going_back(run, claims, "apply", _before_clearing):
        if LOOK not in run.journal.done:
            refuse_rivals(run)
        run = _write_jobs_down(run, DONE, as_planned=True)
        run = _stop(run, DONE, run.journal.done)
        claims.enter_context(claimed_queries(run))
        run = _still_ours(run, BEGUN)
        if LOOK not in run.journal.done:
            run.say(what_of(run.plan, LOOK))
            check_preconditions(run.spark, run.chain, run.plan)
            run = _done(run, LOOK)
    return run


def stop_stages_to_undo(
    run: StepContext, claims: ExitStack, following: str, check: Callable[[StepContext], None]
) -> StepContext:
    """For undo: it is begun, no job is active, the stages are claimed and `check` holds. Raises with the jobs and the
    journal as they were before, while nothing was taken back."""
    if run.journal.state != UNDOING:
        check(run)
        run = enter(run, UNDOING, "", following)
    fail_point("remedy.undoing")
    with going_back(run, claims, "undo", _before_undo):
        run = _write_jobs_down(run, UNDONE, as_planned=False)
        run = _stop(run, UNDONE, run.journal.undone)
        claims.enter_context(claimed_queries(run))
        run = _still_ours(run, UNDOING)
        if LOOK not in run.journal.undone:
            check(run)
            run = enter(run, UNDONE, LOOK, following)
    return run


def stop_stages_to_swap(
    run: StepContext,
    claims: ExitStack,
    look: Callable[[StepContext], None],
    check: Callable[[StepContext], StepContext],
) -> StepContext:
    """For apply of a reset beside, whose tables are filled: no job of the stages is active, they are claimed, `look`
    finds them to be those of the plan, and `check` holds. Raises with the jobs set as they were, and the stages free
    to run, while nothing was swapped."""
    if run.journal.state == FILLING:
        # Before the gate is closed: a workspace that does not answer.
        read_jobs_now(run, as_planned=False)
        run = enter_done(run, BEGUN, "")
    fail_point("remedy.begun")
    with going_back(run, claims, "apply", _before_swap):
        # Hours after the plan was read: a job that was deployed anew meanwhile is stopped like the one it replaces.
        run = _write_jobs_down(run, DONE, as_planned=False)
        run = _stop(run, DONE, run.journal.done)
        claims.enter_context(claimed_queries(run))
        run = _still_ours(run, BEGUN)
        if CHECK not in run.journal.done:
            run.say(what_of(run.plan, LOOK))
            look(run)
            run = check(_done(run, LOOK))
    return run


def _write_jobs_down(run: StepContext, state: str, *, as_planned: bool) -> StepContext:
    """How the jobs were set before this remedy is in the journal. Paused by apply, they look as if they had always been
    paused: what it wrote down counts, and what came since is added."""
    pending = run.journal.paused_jobs
    there = read_jobs_now(run, as_planned=as_planned and pending is None)
    jobs = there if pending is None else with_new_jobs(read_stopped_jobs(pending), there)
    done = run.journal.done if state == DONE else run.journal.undone
    if JOBS not in done or pending is None or jobs != read_stopped_jobs(pending):
        facts = jobs.as_dict()
        run = _done(run, JOBS, facts) if state == DONE else enter(run, UNDONE, JOBS, STOP, facts)
    _take_over(run, jobs)
    return run


def _take_over(run: StepContext, jobs: StoppedJobs) -> None:
    """Other remedies that have left some of these jobs paused need not set them back any more: this one will."""
    for other in taken_over(jobs.jobs, read_journals(run.environment, run.spark), run.digest):
        try:
            enter(replace(run, journal=other), UNDONE, UNPAUSE, "", {"taken_over_by": run.digest})
        except SurestartError as problem:
            if problem.code != OF_ANOTHER:
                raise
            # Somebody carries that one on at this moment, and sets them back itself.


def _stop(run: StepContext, state: str, done: frozenset[str]) -> StepContext:
    """Stops the jobs, also when that was done before: somebody who goes on days later does not know what was started
    since."""
    before = run.journal.paused_jobs
    assert before is not None
    run.say(what_of(run.plan, STOP))
    wait = run.stopping
    halted = stop_jobs(
        read_stopped_jobs(before).jobs,
        client=wait.client,
        poll_seconds=wait.poll_seconds,
        limit_seconds=wait.limit_seconds,
        say=run.say,
    )
    fail_point("remedy.jobs_stopped")
    if STOP in done:
        return run
    facts = {"cancelled": list(halted.cancelled)}
    return _done(run, STOP, facts) if state == DONE else enter(run, UNDONE, STOP, LOOK, facts)


def _still_ours(run: StepContext, state: str) -> StepContext:
    """The remedy with its journal as it is now, when nobody else can go on with it. Raises where another process of the
    plan has written since: it may have set the jobs back, even if it has begun again."""
    now = read_again(run)
    if now.journal.state == state and now.journal.last.number == run.journal.last.number:
        return now
    raise carried_on(run, "apply" if state == BEGUN else "undo")


def _done(run: StepContext, step: str, facts: Mapping[str, Any] | None = None) -> StepContext:
    run = enter_done(run, DONE, step, facts)
    fail_point(f"remedy.journaled.{step}")
    return run


def _before_clearing(run: StepContext) -> str | None:
    """The state to go back to; None once a row may have gone, and where another process undoes this remedy."""
    if LOOK in run.journal.done or run.journal.state not in (BEGUN, WITHDRAWN):
        return None
    return WITHDRAWN


def _before_swap(run: StepContext) -> str | None:
    """The state to go back to; None once the count was exact, because a table may be swapped already."""
    if CHECK in run.journal.done or run.journal.state not in (FILLING, BEGUN):
        return None
    return FILLING


def _before_undo(run: StepContext) -> str | None:
    """The state to go back to while nothing was taken back; None when something was, or may have been."""
    if LOOK in run.journal.undone:
        return None
    former = run.journal.former_state
    if former in (RELEASED, FINISHED):
        return former
    # A remedy that had not cleared anything is undone by saying so.
    return None if LOOK in run.journal.done else WITHDRAWN
