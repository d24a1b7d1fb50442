"""Takes back a backfill that was begun and has not written all its rows, so that other remedies may begin.

    undoing ──> an empty commit under its identity in every output (in a database's ledger: a row) ──> withdrawn
           └──> every output has its own commit already ──> done, released    the rows were missing and are right

Delta lets one commit of an identity through. After the empty one, a process of this backfill that is still alive, or
wakes up later, adds nothing to that table.
"""

from __future__ import annotations

from surestart.environment import Table
from surestart.errors import Refused
from surestart.facts.delta.commit_notes import note_of
from surestart.failpoints import fail_point
from surestart.journal.commit_once import find_commit
from surestart.journal.journal import BEGUN, DONE, RELEASED, UNDOING, WITHDRAWN, Journal
from surestart.remedies.basis.plan import Plan, Step
from surestart.remedies.basis.step_context import StepContext, again, carried_on, enter, enter_done, read_again
from surestart.remedies.steps.backfill import identity_of
from surestart.remedies.steps.database import removal_of
from surestart.sinks.delta.transaction import append_pair
from surestart.sinks.postgres.remedy import withdraw_filling
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs


def is_begun_backfill(plan: Plan, journal: Journal) -> bool:
    return plan.remedy == "backfill" and journal.state in (BEGUN, UNDOING)


def withdraw_backfill(run: StepContext) -> Journal:
    """No process writes under its identity any more. Raises where all its rows are written: they are not taken back."""
    run = read_again(run)
    if run.journal.state == WITHDRAWN:
        return run.journal
    if run.journal.state not in (BEGUN, UNDOING):
        raise carried_on(run, "undo")
    step = next(step for step in run.plan.steps if step.kind == "backfill")
    if run.journal.state != UNDOING:
        # Before all else: an `apply` after the empty commit would take the hole for filled.
        run = enter(run, UNDOING, "", step.id)
        fail_point("remedy.undoing")
    link = run.chain.link(step.stage)
    # In every output, even if the first one has decided already: a process that wakes up later would write to the
    # others.
    used_up = [] if step.id in run.journal.done else [_used_up(run, step, output.table) for output in link.outputs]
    if step.id not in run.journal.done:
        used_up += [withdraw_filling(removal_of(run, link, sink)) for sink in link.databases]
    if not any(used_up):
        if step.id not in run.journal.done:
            run = enter_done(run, DONE, step.id)
        run = enter_done(run, RELEASED, "release")
        raise Refused(
            f"the backfill {run.digest[:12]} has written its rows",
            meaning="They were missing and are right, so they stay. Other remedies may begin.",
            next=again(run, "apply").noting("runs the stages below, and counts"),
            code="NoUndo",
        )
    return enter(run, WITHDRAWN, "", "").journal


def _used_up(run: StepContext, step: Step, table: Table) -> bool:
    """Whether the identity's one commit in the table is the empty one."""
    mark = f"withdrawn:{step.id}"
    if find_commit(run.spark, table, run.digest, mark) is None:
        with applied(run.spark, pairs(EVERYWHERE)):
            append_pair(run.spark, table, identity_of(run), 0, note_of(run.digest, mark))
        fail_point("remedy.backfill.used_up")
    return find_commit(run.spark, table, run.digest, mark) is not None
