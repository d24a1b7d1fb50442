"""Step 1 of a remedy whose stages are run by jobs, for apply and undo: their jobs are stopped before they are claimed.

    begun ──> jobs: how each is set ──> stop: pause, cancel, wait ──> claim ──> look: nothing has moved ──> the remedy
      └── whatever fails up to here: the journal says that nothing was done, and the jobs are set as they were

How a job was set before is in the journal before the first one is paused, and counts until `unpause` is in it as well:
so nothing stays paused for ever, and what somebody else had paused is not started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError
from surestart.failpoints import reach
from surestart.remedies.claiming import claimed, refuse_rivals
from surestart.remedies.databricks_jobs import StoppedJobs, read_stopped_jobs, resume_jobs, stop_jobs
from surestart.remedies.journal import (
    BEGUN,
    DONE,
    FINISHED,
    JOBS,
    OF_ANOTHER,
    RELEASED,
    UNDOING,
    UNDONE,
    UNPAUSE,
    WITHDRAWN,
    read_journals,
)
from surestart.remedies.journaling import again, begin, carried_on, enter, enter_done, read_again, stopped
from surestart.remedies.paused_before import taken_over, with_new_jobs
from surestart.remedies.plan import Plan
from surestart.remedies.plan_jobs import LOOK, STOP, read_jobs_now
from surestart.remedies.running import Running
from surestart.remedies.world import check_world


def stand_still(run: Running, claims: ExitStack, begun: bool) -> Running:
    """For apply: the plan is begun, no job of its stages is active, they are claimed, and nothing has moved since it
    was made. Raises with the jobs set as they were, and the plan withdrawn, while nothing was cleared."""
    if not begun:
        # Before anything is written: a workspace that does not answer, or another set of jobs than was planned for.
        read_jobs_now(run)
        run = begin(run)
    reach("remedy.begun")
    with _going_back(run, claims, "apply", lambda now: None if LOOK in now.journal.done else WITHDRAWN):
        if LOOK not in run.journal.done:
            refuse_rivals(run)
        run = _write_jobs_down(run, DONE)
        run = _stop(run, DONE, run.journal.done)
        claims.enter_context(claimed(run))
        run = _still_ours(run, BEGUN)
        if LOOK not in run.journal.done:
            run.say(_what(run.plan, LOOK))
            check_world(run.spark, run.chain, run.plan)
            run = _done(run, LOOK)
    return run


def stand_still_again(run: Running, claims: ExitStack, following: str, check: Callable[[Running], None]) -> Running:
    """For undo: it is begun, no job is active, the stages are claimed and `check` holds. Raises with the jobs and the
    journal as they were before, while nothing was taken back."""
    if run.journal.state != UNDOING:
        check(run)
        run = enter(run, UNDOING, "", following)
    reach("remedy.undoing")
    with _going_back(run, claims, "undo", _before_undo):
        run = _write_jobs_down(run, UNDONE)
        run = _stop(run, UNDONE, run.journal.undone)
        claims.enter_context(claimed(run))
        run = _still_ours(run, UNDOING)
        if LOOK not in run.journal.undone:
            check(run)
            run = enter(run, UNDONE, LOOK, following)
    return run


def set_jobs_back(run: Running) -> Running:
    """Of a remedy whose stages may start, the jobs are set as they were, and the journal says so. A remedy that has
    retired a query leaves its job paused."""
    before = run.journal.paused_jobs
    if before is None or not run.journal.leaves_jobs_paused:
        return run
    resumed = resume_jobs(read_stopped_jobs(before), client=run.stopping.client, say=run.say)
    return enter(run, UNDONE, UNPAUSE, "", resumed.as_dict())


@contextmanager
def jobs_back_on_failure(run: Running) -> Iterator[None]:
    """For what comes after the release: the stages may start, so when it fails their jobs are set as they were. Nobody
    knows when somebody will run the command again."""
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, SurestartError) and problem.code == OF_ANOTHER:
            raise
        run = read_again(run)
        try:
            set_jobs_back(run)
        except SurestartError as second:
            # Setting them back was itself what failed, and is told already.
            if not isinstance(problem, SurestartError) or problem.code != second.code:
                raise _not_started(run, "apply", problem, second, "The remedy's own work stands.") from second
        raise


def _write_jobs_down(run: Running, state: str) -> Running:
    """How the jobs were set before this remedy is in the journal. Paused by apply, they look as if they had always been
    paused: what it wrote down counts, and what came since is added."""
    pending = run.journal.paused_jobs
    there = read_jobs_now(run, as_planned=pending is None and state == DONE)
    jobs = there if pending is None else with_new_jobs(read_stopped_jobs(pending), there)
    done = run.journal.done if state == DONE else run.journal.undone
    if JOBS not in done or pending is None or jobs != read_stopped_jobs(pending):
        facts = jobs.as_dict()
        run = _done(run, JOBS, facts) if state == DONE else enter(run, UNDONE, JOBS, STOP, facts)
    _take_over(run, jobs)
    return run


def _take_over(run: Running, jobs: StoppedJobs) -> None:
    """Remedies that had left some of these jobs paused have nothing to set back any more: this one will."""
    for other in taken_over(jobs.jobs, read_journals(run.environment, run.spark), run.digest):
        try:
            enter(replace(run, journal=other), UNDONE, UNPAUSE, "", {"taken_over_by": run.digest})
        except SurestartError as problem:
            if problem.code != OF_ANOTHER:
                raise
            # Somebody carries that one on at this moment, and sets them back itself.


def _stop(run: Running, state: str, done: frozenset[str]) -> Running:
    """Also when it was done before: whoever goes on days later does not know what was started meanwhile."""
    before = run.journal.paused_jobs
    assert before is not None
    run.say(_what(run.plan, STOP))
    wait = run.stopping
    halted = stop_jobs(
        read_stopped_jobs(before).jobs,
        client=wait.client,
        poll_seconds=wait.poll_seconds,
        limit_seconds=wait.limit_seconds,
        say=run.say,
    )
    reach("remedy.jobs_stopped")
    if STOP in done:
        return run
    facts = {"cancelled": list(halted.cancelled)}
    return _done(run, STOP, facts) if state == DONE else enter(run, UNDONE, STOP, LOOK, facts)


def _still_ours(run: Running, state: str) -> Running:
    """As the journal is now that nobody else can go on with it. Another process may have ended this remedy while this
    one was stopping its jobs: then they are started again here, for nobody else would."""
    before, now = run.journal.paused_jobs, read_again(run)
    if now.journal.state == state:
        return now
    if before is not None and now.journal.paused_jobs is None:
        resume_jobs(read_stopped_jobs(before), client=run.stopping.client, say=run.say)
    raise carried_on(run, "apply" if state == BEGUN else "undo")


def _done(run: Running, step: str, facts: Mapping[str, Any] | None = None) -> Running:
    run = enter_done(run, DONE, step, facts)
    reach(f"remedy.journaled.{step}")
    return run


def _what(plan: Plan, step: str) -> str:
    return next(one.what for one in plan.steps if one.id == step)


def _before_undo(run: Running) -> str | None:
    """The state to go back to while nothing was taken back; None when something was, or may have been."""
    if LOOK in run.journal.undone:
        return None
    states = [entry.state for entry in run.journal.entries if entry.state not in (DONE, UNDONE)]
    former = states[-2] if len(states) > 1 else ""
    if former in (RELEASED, FINISHED):
        return former
    # A remedy that had not cleared anything is undone by saying so.
    return None if LOOK in run.journal.done else WITHDRAWN


@contextmanager
def _going_back(run: Running, claims: ExitStack, verb: str, back_to: Callable[[Running], str | None]) -> Iterator[None]:
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, SurestartError) and problem.code == OF_ANOTHER:
            raise  # What happens next, and to the jobs, is the other process's.
        # A job that starts its stage at once must not find it claimed.
        claims.close()
        said = _go_back(run, verb, back_to, problem)
        if said is None:
            raise
        raise said from problem


def _go_back(
    run: Running, verb: str, back_to: Callable[[Running], str | None], problem: BaseException
) -> SurestartError | None:
    """What to raise instead; None: the problem itself."""
    run = read_again(run)
    state = back_to(run)
    if state is None:
        return stopped(run, _what(run.plan, STOP), problem, verb) if isinstance(problem, SurestartError) else None
    try:
        run = set_jobs_back(enter(run, state, "", ""))
    except SurestartError as second:
        then = "undo" if state == WITHDRAWN else "apply"
        return _not_started(
            run, then, problem, second, f"Nothing was {'cleared' if verb == 'apply' else 'taken back'}."
        )
    if isinstance(problem, SurestartError):
        return _refused(run, verb, state, problem)
    run.say(f"{verb} of {run.digest[:12]} was given up, with nothing changed but the journal")
    return None


def _nothing(verb: str) -> str:
    return f"Nothing was {'cleared' if verb == 'apply' else 'taken back'}."


def _not_started(
    run: Running, verb: str, problem: BaseException, second: SurestartError, stands: str
) -> StoppedHalfway:
    return StoppedHalfway(
        f"{problem}; and the jobs that it had paused could not be started again: {second.what}",
        meaning=f"{stands} The stages may start. {second.meaning}",
        next=again(run, verb),
        do_not=second.do_not,
        code=second.code,
    )


def _refused(run: Running, verb: str, state: str, problem: SurestartError) -> SurestartError:
    plan = run.plan
    kind = CannotTell if isinstance(problem, CannotTell) else Refused
    anew = f"surestart plan {plan.remedy} {plan.stage} -e {run.environment.name} -o plan.json"
    then = anew if state == WITHDRAWN else again(run, verb)
    first = problem.next.partition("#")[0].strip()
    return kind(
        f"the {verb} of {run.digest[:12]} was given up: {problem.what}",
        meaning=f"{_nothing(verb)} The jobs are set as they were. {problem.meaning}",
        next=then if first.startswith("surestart plan") or not first else f"{first}  # then: {then}",
        do_not=problem.do_not,
        code=problem.code,
    )
