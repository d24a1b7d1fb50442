"""Whether rows would be lost by now that were not when the plan was made: retention goes on while it is read.

Asked before anything is begun, and again right before the first row is removed.
"""

from __future__ import annotations

from surestart.history.run_table import read_runs
from surestart.journal.protocol import KEEP, RESTORE, kind_of
from surestart.journal.stage_start import read_kept
from surestart.library_types import DataFrame
from surestart.remedies.basis.beside import BESIDE
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import find_stay_marks, read_rule
from surestart.remedies.basis.same_topic import recorded_topic, refuse_other_topic
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.loss.find_loss import begin_loss_search, find_loss
from surestart.remedies.loss.rewind_loss import refuse_more_lost, refuse_new_rewind_loss


def refuse_new_loss(run: StepContext, begun: bool) -> None:
    """Raises before a row is lost: each is still where it was, or its removal can be undone."""
    if run.plan.kind.ends_query or run.plan.method == BESIDE:
        return  # Removed for good, or looked at when all is filled.
    if run.plan.of_kind(RESTORE):
        refuse_new_rewind_loss(run, begun)
        return
    removing = {step.stage: step for step in run.plan.steps if kind_of(step.kind).removes_rows}
    links = [link for link in run.chain.below(run.plan.stage) if link.name in run.plan.touched]
    topic = recorded_topic(read_runs(run.environment, run.spark), links[0], run.environment)
    top = _kept(run, links[0])
    if top is not None:
        refuse_other_topic(run.environment, links[0], top, topic, "Its rows are still in the output.")
    found = begin_loss_search(run.spark, run.environment, links, topic)
    for link in links:
        step = removing.get(link.name)
        loss = find_loss(found, link, _kept(run, link))
        refuse_more_lost(run, loss.of_stage, _planned(run, step), loss.why, begun)


def _planned(run: StepContext, step: Step | None) -> int:
    return 0 if step is None else int(step.arguments.get("lost", run.plan.loss))


def _kept(run: StepContext, link: Link) -> DataFrame | None:
    keep = next((step for step in run.plan.of_kind(KEEP) if step.stage == link.name), None)
    if keep is None:
        return None
    if keep.id in run.journal.done:
        return read_kept(run.spark, run.environment, run.digest, link.name)
    return find_stay_marks(run.spark, run.environment, read_rule(keep.arguments["rule"]))
