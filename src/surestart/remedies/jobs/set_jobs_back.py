"""Sets the jobs of a remedy's stages as they were, when it has ended and when something has failed.

going_back               up to the point where tables change: the journal says that nothing was done, then the jobs
jobs_back_on_failure     once the stages may start again
between the two          they stay paused: a job would start its stage over half-cleared output
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError
from surestart.journal.journal import BEGUN, FILLING, OF_ANOTHER, UNDOING, UNDONE, WITHDRAWN, read_journals
from surestart.journal.protocol import JOBS, STOP, UNPAUSE
from surestart.remedies.basis.beside import BesideNotExact
from surestart.remedies.basis.plan import Plan, plan_again
from surestart.remedies.basis.step_context import StepContext, again, carried_on, enter, enter_done, read_again, stopped
from surestart.remedies.jobs.databricks_jobs import ResumedJobs, read_stopped_jobs, resume_jobs
from surestart.remedies.jobs.state import without_held
from surestart.typed import is_plan


def set_jobs_back(run: StepContext) -> StepContext:
    """Of a remedy whose stages may start, the jobs are set as they were, and the journal says so. A remedy that has
    retired a query leaves its job paused."""
    before = run.journal.paused_jobs
    if before is None or not run.journal.leaves_jobs_paused:
        return run
    return enter(run, UNDONE, UNPAUSE, "", start_jobs(run, before).as_dict())


def start_jobs(run: StepContext, before: Mapping[str, Any]) -> ResumedJobs:
    """They are set as they were; not those that a later remedy of these stages has paused again, and will start. Raises
    where another process has begun this one again, or undoes it: its tables may be half-cleared by now."""
    journals = read_journals(run.environment, run.spark)
    now = next(one for one in journals if one.digest == run.digest)
    if now.state in (BEGUN, UNDOING):
        raise carried_on(run, "undo" if now.state == UNDOING else "apply")
    stopped = without_held(read_stopped_jobs(before), journals, run.digest)
    return resume_jobs(stopped, client=run.stopping.client, say=run.say)


@contextmanager
def jobs_back_on_failure(run: StepContext) -> Iterator[None]:
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
            # It was setting them back that failed, and that is told already.
            if not isinstance(problem, SurestartError) or problem.code != second.code:
                raise _not_started(run, "apply", problem, second, "The remedy's own work stands.") from second
        raise


@contextmanager
def going_back(
    run: StepContext, claims: ExitStack, verb: str, back_to: Callable[[StepContext], str | None]
) -> Iterator[None]:
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, SurestartError) and problem.code == OF_ANOTHER:
            # What happens next is the other process's, and so are the jobs, unless it has ended meanwhile.
            start_if_set_back(run)
            raise
        # A job that starts its stage at once must not find it claimed.
        claims.close()
        said = _go_back(run, verb, back_to, problem)
        if said is None:
            raise
        raise said from problem


def start_if_set_back(run: StepContext) -> None:
    """Another process of this plan may have set the jobs back, or be about to, while this one was pausing them: then
    they are started again here, for nobody else would."""
    now = read_again(run).journal
    before = [entry.facts for entry in now.entries if entry.step == JOBS][-1:]
    retired = now.first.kind.ends_query and now.state != WITHDRAWN
    if before and not retired and now.state not in (BEGUN, UNDOING):
        start_jobs(run, before[0])


def _go_back(
    run: StepContext, verb: str, back_to: Callable[[StepContext], str | None], problem: BaseException
) -> SurestartError | None:
    """Goes back. Returns what to raise instead of the problem; None: the problem itself."""
    run = read_again(run)
    state = back_to(run)
    if state is None:
        start_if_set_back(run)
        return stopped(run, what_of(run.plan, STOP), problem, verb) if isinstance(problem, SurestartError) else None
    try:
        if run.journal.state != state:
            run = enter_done(run, state, "") if state == FILLING else enter(run, state, "", "")
        if run.journal.paused_jobs is None:
            start_if_set_back(run)
        else:
            run = set_jobs_back(run)
    except SurestartError as second:
        then = "undo" if state == WITHDRAWN else "apply"
        return _not_started(run, then, problem, second, _nothing(verb, state))
    if isinstance(problem, SurestartError):
        return _refused(run, verb, state, problem)
    run.say(f"{verb} of {run.digest[:12]} was given up, with nothing changed but the journal")
    return None


def what_of(plan: Plan, step: str) -> str:
    return next(one.what for one in plan.steps if one.id == step)


def _nothing(verb: str, state: str) -> str:
    if state == FILLING:
        return "Nothing was swapped, what was filled stays."
    return f"Nothing was {'cleared' if verb == 'apply' else 'taken back'}."


def _not_started(
    run: StepContext, verb: str, problem: BaseException, second: SurestartError, stands: str
) -> StoppedHalfway:
    return StoppedHalfway(
        f"{problem}; and the jobs that it had paused could not be started again: {second.what}",
        meaning=f"{stands} The stages may start. {second.meaning}",
        next=again(run, verb),
        do_not=second.do_not,
        code=second.code,
    )


def _refused(run: StepContext, verb: str, state: str, problem: SurestartError) -> SurestartError:
    plan = run.plan
    if isinstance(problem, BesideNotExact):
        said, meaning = problem.what, f"{problem.meaning} The jobs are set as they were."
        return BesideNotExact(said, meaning=meaning, next=problem.next, do_not=problem.do_not, code=problem.code)
    kind = CannotTell if isinstance(problem, CannotTell) else Refused
    then = plan_again(plan) if state == WITHDRAWN else again(run, verb)
    return kind(
        f"the {verb} of {run.digest[:12]} was given up: {problem.what}",
        meaning=f"{_nothing(verb, state)} The jobs are set as they were. {problem.meaning}",
        next=problem.next.noting("then", then) if problem.next and not is_plan(problem.next) else then,
        do_not=problem.do_not,
        code=problem.code,
    )
