"""Step 1 of a remedy whose stages are run by jobs, for apply and undo: their jobs are stopped before they are claimed.

    begun ──> jobs: how each is set ──> stop: pause, cancel, wait ──> claim ──> look: nothing has moved ──> the remedy
      └── whatever fails up to here: the journal says that nothing was done, and the jobs are set as they were

How a job was set before is in the journal before the first one is paused, and counts until `unpause` is in it as well:
so nothing stays paused for ever, and what somebody else had paused is not started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError
from surestart.failpoints import reach
from surestart.gate.describe_run import named
from surestart.remedies.claiming import claimed, refuse_rivals
from surestart.remedies.databricks_jobs import read_stopped_jobs, resume_jobs, stop_jobs
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
)
from surestart.remedies.journaling import again, begin, carried_on, enter, enter_done, read_again, stopped
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
        if JOBS not in run.journal.done:
            run = _done(run, JOBS, read_jobs_now(run).as_dict())
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
        if JOBS not in run.journal.undone:
            # Paused by apply, they look as if they had always been paused: what it wrote down counts.
            pending = run.journal.paused_jobs
            jobs = read_jobs_now(run, as_planned=False).as_dict() if pending is None else dict(pending)
            run = enter(run, UNDONE, JOBS, STOP, jobs)
        run = _stop(run, UNDONE, run.journal.undone)
        claims.enter_context(claimed(run))
        run = _still_ours(run, UNDOING)
        if LOOK not in run.journal.undone:
            check(run)
            run = enter(run, UNDONE, LOOK, following)
    return run


def set_jobs_back(run: Running) -> Running:
    """Of a remedy that is finished or undone, the jobs are set as they were, and the journal says so. A remedy that has
    retired a query leaves its job paused."""
    at_rest = run.journal.state == WITHDRAWN or (
        run.journal.state == FINISHED and any(step.kind == UNPAUSE for step in run.plan.steps)
    )
    before = run.journal.paused_jobs
    if before is None or not at_rest:
        return run
    resumed = resume_jobs(read_stopped_jobs(before), client=run.stopping.client, say=run.say)
    return enter(run, UNDONE, UNPAUSE, "", resumed.as_dict())


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
        return StoppedHalfway(
            f"{problem}; and the jobs that it had paused could not be started again: {second.what}",
            meaning=f"Nothing was {'cleared' if verb == 'apply' else 'taken back'}, and the stages may start. "
            f"{second.meaning}",
            next=again(run, "undo" if state == WITHDRAWN else "apply"),
            do_not=second.do_not,
            code=second.code,
        )
    if isinstance(problem, SurestartError):
        return _refused(run, verb, state, problem)
    run.say(f"{verb} of {run.digest[:12]} was given up, with nothing changed but the journal")
    return None


def _refused(run: Running, verb: str, state: str, problem: SurestartError) -> SurestartError:
    plan = run.plan
    kind = CannotTell if isinstance(problem, CannotTell) else Refused
    if state == RELEASED:
        jobs = "The jobs stay paused, as they were before this call."
    else:
        jobs = "The jobs are set as they were."
    anew = f"surestart plan {plan.remedy} {plan.stage} {named(run.environment)} -o plan.json"
    then = anew if state == WITHDRAWN else again(run, verb)
    first = problem.next.partition("#")[0].strip()
    return kind(
        f"the {verb} of {run.digest[:12]} was given up: {problem.what}",
        meaning=f"Nothing was {'cleared' if verb == 'apply' else 'taken back'}. {jobs} {problem.meaning}",
        next=then if first.startswith("surestart plan") or not first else f"{first}  # then: {then}",
        do_not=problem.do_not,
        code=problem.code,
    )
