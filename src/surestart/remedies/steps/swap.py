"""Puts what was filled beside in the place of a table's rows, in one commit.

    version n      the former rows            readers see either the one or the other, and never a table half filled
    version n + 1  the rows of the table beside, at the version that was checked

The table itself stays: its id, properties, layout and grants. Delta's time travel keeps the former rows for the undo.
"""

from __future__ import annotations

from typing import Any

from surestart.errors import CannotTell
from surestart.failpoints import fail_point
from surestart.journal.commit_once import find_commit, replace_once
from surestart.remedies.basis.beside import beside_of
from surestart.remedies.basis.chain import Output
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import read_at
from surestart.remedies.basis.step_context import StepContext, refuse_carried_on
from surestart.remedies.steps.clear import find_output
from surestart.remedies.steps.restore_table import restore_table
from surestart.typed import spark_sql


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The table holds the rows that were filled beside, and no others. facts: the version before and the one after."""
    link, output = find_output(run, step)
    table, checked = output.table, run.facts("check")
    own, _ = beside_of(run)
    # A stage that never ran has no table yet.
    link.stage.sink.prepare(run.spark, run.environment)
    rows = read_at(run.spark, own, table.name, int(checked["beside"][table.name]))
    refuse_carried_on(run, "apply")
    after = replace_once(rows, table, run.digest, step.id)
    fail_point("remedy.swap.after_commit")
    return {"before": checked["live"][table.name], "after": after}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The table's content is what it was before the swap."""
    _, output = find_output(run, step)
    before = run.facts("check")["live"][output.table.name]
    if swapped_at(run, step, output) is None:
        return {}  # It died before its commit.
    restored = restore_table(run, step, output, before)
    if restored is None:
        return {}
    return {"restored": before, "version": restored}


def swapped_at(run: StepContext, step: Step, output: Output) -> int | None:
    """The version that the swap made; None: it was never made. Once it is journaled the table's history is not asked: a
    stream may have made thousands of commits since."""
    if step.id not in run.journal.done:
        return find_commit(run.spark, output.table, run.digest, step.id)
    after = run.facts(step.id).get("after")
    if after is None:
        raise CannotTell(
            f"the swap of {output.table.label} is in the journal, and not at which version",
            meaning="What was there before it, and what the stage has written since, cannot be told apart.",
            next=spark_sql(f"DESCRIBE HISTORY {output.table.sql}"),
            code="SwapNotSeen",
        )
    return int(after)
