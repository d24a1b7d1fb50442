"""Ends an undo whose first step fails. The journal says again what it said before, so that the remedy is no dead
end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.delta.pinned import reading_errors
from surestart.facts.delta.remedy_note import MARKER, UNDO
from surestart.journal.commit_once import find_commit
from surestart.journal.step_kinds import changes_content, is_of_jobs
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.basis.write_journal import enter, in_four_parts, stopped
from surestart.remedies.jobs.set_jobs_back import set_jobs_back
from surestart.remedies.steps.clear import find_output


def end_failed_undo(run: StepContext, step: Step, problem: Exception) -> SurestartError:
    """What to raise for a step of an undo that failed. As long as nothing was taken back, the remedy is again where it
    was before the undo. Otherwise a table that cannot be restored would keep its stages from starting for ever."""
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


def check_open_undo(run: StepContext, order: Sequence[Step], check: Callable[[StepContext], None]) -> None:
    """Ends an undo that was begun before, has taken nothing back, and could not be finished any more. A VACUUM since
    then, of a table that is not the first, would leave it half-way for ever."""
    if not order or not _is_untouched(run, order[0]):
        return
    try:
        check(run)
    except SurestartError as problem:
        raise end_failed_undo(run, order[0], problem) from problem


def _is_untouched(run: StepContext, step: Step) -> bool:
    if not changes_content(step.kind) or any(_brought_back(run, one) for one in run.plan.steps):
        return False
    _, output = find_output(run, step)
    return not any(
        find_commit(run.spark, output.table, run.digest, f"{mine}{step.id}") is not None for mine in (MARKER, UNDO)
    )


def _brought_back(run: StepContext, step: Step) -> bool:
    """Whether the step's table was brought back. Where the step was never done there was nothing to bring back."""
    if step.id not in run.journal.undone or is_of_jobs(step.kind):
        return False
    return not changes_content(step.kind) or step.id in run.journal.done or bool(run.journal.undo_facts(step.id))
