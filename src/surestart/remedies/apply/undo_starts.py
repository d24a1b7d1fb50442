"""An undo is refused in advance if a stage could not start after it, or would hold rows that its input no longer has.

touched         its checkpoint comes back: no commit that somebody else has made, and that a stream refuses, may lie
                between there and what the undo takes back
not touched     it reads a table that goes back, and was not part of the remedy: it must not have read beyond that

Also ends an undo whose first step fails: the journal says again what it said before, so that the remedy can still be
used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.delta.commit_notes import MARKER, UNDO
from surestart.facts.delta.pinned import reading_errors
from surestart.history.describe_run import named, plan_command
from surestart.journal.commit_once import find_commit
from surestart.journal.journal import FINISHED, RELEASED, read_journals
from surestart.journal.protocol import changes_content, is_of_jobs, moves_checkpoint
from surestart.journal.stage_start import find_start, read_begin_stand
from surestart.journal.taken_back import SKIP, find_strange, read_commits, read_taken_back
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.move_aside import retired_folder
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext, enter, in_four_parts, stopped
from surestart.remedies.jobs.set_jobs_back import set_jobs_back
from surestart.remedies.steps.clear import find_output, version_before
from surestart.sources.abilities import table_of
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.facts.delta import Commit


# With these options Spark goes past such a commit by itself.
_LENIENT = (SKIP, "ignoreChanges", "ignoreDeletes", "readChangeFeed", "readChangeData")


def refuse_unstartable(run: StepContext) -> None:
    """Raises, with nothing changed."""
    if run.journal.state not in (RELEASED, FINISHED):
        return
    journals = read_journals(run.environment, run.spark)
    others = [journal for journal in journals if journal.digest != run.digest]
    back = {
        str(step.arguments["table"]): version_before(run, step)
        for step in run.plan.steps
        if changes_content(step.kind) and step.id in run.journal.done
    }
    retired = {step.stage for step in run.plan.steps if moves_checkpoint(step.kind) and step.id in run.journal.done}
    for link in run.chain:
        source = table_of(link.stage.source)
        if link.input is None or source is None:
            continue
        before = back.get(link.input.name)
        if link.name not in retired and before is None:
            continue
        stand = read_begin_stand(_checkpoint(run, link, link.name in retired), find_start(others, link.name))
        if stand is None:
            continue
        if before is not None and stand.reached > before + 1:
            raise _has_read_on(run, link, before)
        if any(str(value).lower() == "true" for name, value in source.options if name in _LENIENT):
            continue
        commits = read_commits(run.spark, link.input, stand.first)
        inner = [one for one in commits if before is None or one.version <= before]
        strange = find_strange(inner, read_taken_back(others, link.input.name))
        if strange is not None:
            raise _would_stop(run, link, strange)


def _checkpoint(run: StepContext, link: Link, retired: bool) -> str:
    return str(retired_folder(run.environment, link.query, run.digest)) if retired else link.checkpoint


def _has_read_on(run: StepContext, link: Link, before: int) -> Refused:
    assert link.input is not None
    return Refused(
        f"{link.query} reads {link.input.name}, has gone on after version {before} of it, and is not part of the "
        f"{run.plan.remedy} {run.digest[:12]}",
        meaning="Its output would keep rows that its input no longer has, and its checkpoint would be among commits "
        "that were taken back. Nothing was changed.",
        next=plan_command(
            run.environment, "retire", link.name, "--clear-tables", note="then the undo; the stage begins anew after it"
        ),
        code="ReaderNotInRemedy",
    )


def _would_stop(run: StepContext, link: Link, commit: Commit) -> Refused:
    assert link.input is not None
    return Refused(
        f"the former checkpoint of {link.query} is before version {commit.version} of {link.input.name} "
        f"({commit.operation}), which removes or rewrites rows and belongs to no remedy",
        meaning="A stream stops there: the stage could not start after "
        "the undo. Nothing was changed; the remedy stands.",
        next=surestart("history", place=named(run.environment)),
        code="UndoWouldStop",
    )


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
