"""An undo whose first step fails: given up, with the journal as it was before, so that the remedy is no dead end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.delta.pinned import reading_errors
from surestart.facts.delta.remedy_note import MARKER, UNDO
from surestart.journal.commit_once import find_commit
from surestart.journal.step_kinds import changes_content, is_of_jobs
from surestart.remedies.jobs.back import set_jobs_back
from surestart.remedies.plan.journaling import enter, in_four_parts, stopped
from surestart.remedies.plan.plan import Step
from surestart.remedies.plan.running import Running
from surestart.remedies.steps.clear import find_output


def give_up(run: Running, step: Step, problem: Exception) -> SurestartError:
    """What to raise for a step of an undo that failed. While nothing was taken back, the remedy stands again where it
    stood before the undo: a table that cannot be restored would else keep its stages from starting for ever."""
    failures: tuple[type[Exception], ...] = (SurestartError, OSError, *reading_errors())
    try:
        untouched = _is_untouched(run, step)
    except failures as second:
        # Whatever keeps the table from being asked: then nobody knows, and the undo stays open.
        return stopped(run, f"{step.what} ({in_four_parts(second).what})", problem, "undo")
    former = run.journal.former_state
    if (not untouched or not former) and isinstance(problem, SurestartError) and problem.code == "SourceLostRows":
        return problem  # It names the number that the same command goes on with.
    if not untouched or not former:
        return stopped(run, step.what, problem, "undo")
    run = set_jobs_back(enter(run, former, "", ""))
    said = in_four_parts(problem)
    kind = CannotTell if isinstance(said, CannotTell) else Refused
    return kind(
        f"the undo of {run.digest[:12]} was given up at: {step.what}: {said.what}",
        meaning=f"Nothing was taken back; the remedy is {former}, as before. {said.meaning}",
        next=said.next,
        do_not=said.do_not,
        code=said.code,
    )


def look_again(run: Running, order: Sequence[Step], check: Callable[[Running], None]) -> None:
    """Of an undo that was begun before and has taken nothing back: given up when it could not end any more. A VACUUM
    since, of a table that is not the first, would stop it half-way for ever."""
    if not order or not _is_untouched(run, order[0]):
        return
    try:
        check(run)
    except SurestartError as problem:
        raise give_up(run, order[0], problem) from problem


def _is_untouched(run: Running, step: Step) -> bool:
    if not changes_content(step.kind) or any(_brought_back(run, one) for one in run.plan.steps):
        return False
    _, output = find_output(run, step)
    return not any(
        find_commit(run.spark, output.table, run.digest, f"{mine}{step.id}") is not None for mine in (MARKER, UNDO)
    )


def _brought_back(run: Running, step: Step) -> bool:
    """Of a table whose step was never done there was nothing to bring back."""
    if step.id not in run.journal.undone or is_of_jobs(step.kind):
        return False
    return not changes_content(step.kind) or step.id in run.journal.done or bool(run.journal.undo_facts(step.id))
