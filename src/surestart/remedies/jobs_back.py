"""Sets the jobs of a remedy's stages as they were, when it has ended and when something has failed.

going_back               up to the point where tables change: the journal says that nothing was done, then the jobs
jobs_back_on_failure     once the stages may start again
between the two          they stay paused: a job would start its stage over half-cleared output
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError
from surestart.remedies.beside import BesideNotExact
from surestart.remedies.databricks_jobs import read_stopped_jobs, resume_jobs
from surestart.remedies.journal import FILLING, FINISHED, JOBS, OF_ANOTHER, UNDONE, UNPAUSE, WITHDRAWN
from surestart.remedies.journaling import again, enter, enter_done, read_again, stopped
from surestart.remedies.plan import Plan
from surestart.remedies.plan_jobs import STOP
from surestart.remedies.running import Running


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


@contextmanager
def going_back(run: Running, claims: ExitStack, verb: str, back_to: Callable[[Running], str | None]) -> Iterator[None]:
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, SurestartError) and problem.code == OF_ANOTHER:
            # What happens next is the other process's, and so are the jobs, unless it has ended meanwhile.
            start_if_ended(run)
            raise
        # A job that starts its stage at once must not find it claimed.
        claims.close()
        said = _go_back(run, verb, back_to, problem)
        if said is None:
            raise
        raise said from problem


def start_if_ended(run: Running) -> None:
    """Another process may have ended this remedy, and set the jobs back, while this one was pausing them: then they are
    started again here, for nobody else would."""
    now = read_again(run).journal
    before = now.facts(JOBS) if not now.undo_facts(JOBS) else now.undo_facts(JOBS)
    if before and now.paused_jobs is None and now.state in (FINISHED, WITHDRAWN):
        resume_jobs(read_stopped_jobs(before), client=run.stopping.client, say=run.say)


def _go_back(
    run: Running, verb: str, back_to: Callable[[Running], str | None], problem: BaseException
) -> SurestartError | None:
    """What to raise instead; None: the problem itself."""
    run = read_again(run)
    state = back_to(run)
    if state is None:
        start_if_ended(run)
        return stopped(run, what_of(run.plan, STOP), problem, verb) if isinstance(problem, SurestartError) else None
    try:
        run = set_jobs_back(enter_done(run, state, "") if state == FILLING else enter(run, state, "", ""))
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
    if isinstance(problem, BesideNotExact):
        said, meaning = problem.what, f"{problem.meaning} The jobs are set as they were."
        return BesideNotExact(said, meaning=meaning, next=problem.next, do_not=problem.do_not, code=problem.code)
    kind = CannotTell if isinstance(problem, CannotTell) else Refused
    anew = f"surestart plan {plan.remedy} {plan.stage} -e {run.environment.name} -o plan.json"
    then = anew if state == WITHDRAWN else again(run, verb)
    first = problem.next.partition("#")[0].strip()
    return kind(
        f"the {verb} of {run.digest[:12]} was given up: {problem.what}",
        meaning=f"{_nothing(verb, state)} The jobs are set as they were. {problem.meaning}",
        next=then if first.startswith("surestart plan") or not first else f"{first}  # then: {then}",
        do_not=problem.do_not,
        code=problem.code,
    )
