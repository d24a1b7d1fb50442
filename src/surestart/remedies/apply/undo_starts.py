"""An undo is refused beforehand where a stage could not start after it, or would hold rows that its input has no more.

touched         its checkpoint comes back: no commit that somebody else has made, and that a stream refuses, may lie
                between there and what the undo takes back
not touched     it reads a table that goes back, and was not part of the remedy: it must not have read beyond that
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.errors import Refused
from surestart.journal.journal import FINISHED, RELEASED, read_journals
from surestart.journal.next_command import named, plan_command
from surestart.journal.stage_start import find_start, read_begin_stand
from surestart.journal.step_kinds import changes_content, moves_checkpoint
from surestart.journal.taken_back import SKIP, find_strange, read_commits, read_taken_back
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.move_aside import retired_folder
from surestart.remedies.steps.clear import version_before
from surestart.sources.delta import DeltaSource
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.facts.delta import Commit
    from surestart.remedies.basis.step_context import StepContext

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
        source = link.stage.source
        if link.input is None or not isinstance(source, DeltaSource):
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
        f"{link.query} reads {link.input.name}, has gone on behind version {before} of it, and is no part of the "
        f"{run.plan.remedy} {run.digest[:12]}",
        meaning="Its output would keep rows that its input has no more, and its checkpoint would stand among commits "
        "that were taken back. Nothing was changed.",
        next=plan_command(
            run.environment, "retire", link.name, "--clear-tables", note="then the undo; the stage begins anew after it"
        ),
        code="ReaderNotInRemedy",
    )


def _would_stop(run: StepContext, link: Link, commit: Commit) -> Refused:
    assert link.input is not None
    return Refused(
        f"the former checkpoint of {link.query} stands before version {commit.version} of {link.input.name} "
        f"({commit.operation}), which removes or rewrites rows and belongs to no remedy",
        meaning="A stream stops there: the stage could not start after "
        "the undo. Nothing was changed; the remedy stands.",
        next=surestart("history", place=named(run.environment)),
        code="UndoWouldStop",
    )
