"""Gives a table what it held when the batch had been written, and tells it that the checkpoint's new identity holds it.

    version n      the table as it is when the plan is made
    version n + 1  the mark of the RESTORE, n + 2 the RESTORE
    version n + 3  no row: the pair (new query id, batch), so that the sink takes the next batch and drops older ones

The former identity's pair stays in the table's log past the batch: under it the sink would drop what comes again.
"""

from __future__ import annotations

import json
from typing import Any

from surestart.facts.delta.commit import CommitMark
from surestart.facts.delta.commit_notes import MARKER, REWIND, note_of
from surestart.failpoints import fail_point
from surestart.journal.commit_once import find_commit
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps.clear import find_output
from surestart.remedies.steps.restore_table import restore_once, restore_table
from surestart.sinks.delta.transaction import append_pair
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """facts: the version that the table holds again, and the version of the RESTORE."""
    _, output = find_output(run, step)
    to, batch = int(step.arguments["to"]), int(step.arguments["batch"])
    version = restore_once(run, step, output, to, REWIND + step.id, "apply")
    facts = {"restored": to, "version": version}
    return {**facts, **_tell(run, step, batch)} if batch >= 0 else facts


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The table holds what it held before the rewind."""
    _, output = find_output(run, step)
    if not is_made(run, step):
        return {}
    before = int(step.arguments["version"])
    return {"restored": before, "version": restore_table(run, step, output, before)}


def is_made(run: StepContext, step: Step) -> bool:
    """Whether its commits were begun: from the mark on, an undo has something to take back."""
    _, output = find_output(run, step)
    name = f"{MARKER}{REWIND}{step.id}"
    return step.id in run.journal.done or find_commit(run.spark, output.table, run.digest, name) is not None


def _tell(run: StepContext, step: Step, batch: int) -> dict[str, Any]:
    """The table knows that the new identity has written the batch."""
    link, output = find_output(run, step)
    mark = CommitMark(link.query, str(step.arguments["query_id"]), batch, link.name, str(step.arguments["step"]))
    note = {**json.loads(mark.as_json()), **json.loads(note_of(run.digest, _pair(step)))}
    fail_point("remedy.rewind.before_pair")
    if find_commit(run.spark, output.table, run.digest, _pair(step)) is None:
        with applied(run.spark, pairs(EVERYWHERE)):
            append_pair(run.spark, output.table, mark.app_id, batch, json.dumps(note))
    fail_point("remedy.rewind.after_pair")
    return {"batch": batch, "query_id": mark.query_id}


def _pair(step: Step) -> str:
    return f"pair:{step.id}"
