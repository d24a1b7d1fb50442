"""Has a sink of your own take out all that it holds, and keep it; its undo has it put that back.

The sink does both by itself (`surestart.sinks.abilities.Clearable`), under the plan's digest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from surestart.journal.protocol import OWN_SINK
from surestart.library_types import DataFrame
from surestart.remedies.basis.chain import Link, OwnSink
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.step_context import StepContext, refuse_carried_on, set_up_differently, too_late
from surestart.remedies.loss.find_loss import together
from surestart.remedies.loss.loss import Loss, LossSearch, summarize


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The sink holds nothing."""
    own = find_own_sink(run, step)
    refuse_carried_on(run, "apply")
    own.sink.remove_all(run.environment, run.digest)
    return {"sink": own.label, "kept": run.digest}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The sink holds what it held before the remedy."""
    own = find_own_sink(run, step)
    refuse_carried_on(run, "undo")
    kept = own.read_positions(run.spark, run.digest) is not None
    if kept:
        own.sink.restore_all(run.environment, run.digest)
    elif step.id in run.journal.done and not step.arguments["exists"]:
        # It held nothing. What was written since goes where nobody reads it.
        own.sink.remove_all(run.environment, f"undone-{run.digest}")
    return {"restored": kept}


def check_removed(run: StepContext, step: Step) -> None:
    """Raises when what the step has taken out is not there any more."""
    own = find_own_sink(run, step)
    if not step.arguments["exists"] or own.read_positions(run.spark, run.digest) is not None:
        return
    raise too_late(run, step, f"what was taken out of {own.label} is gone")


def find_sink_undo_loss(
    run: StepContext, found: LossSearch, link: Link, lost: Callable[[DataFrame], DataFrame | None]
) -> Loss:
    """Rows of the stage's own sinks that the undo takes out again, and that will not come again. lost: which of rows do
    not, by the tables as they are after it."""
    losses = []
    for step in run.plan.of_kind(OWN_SINK):
        done = step.id in run.journal.done and step.id not in run.journal.undone
        if step.stage != link.name or not done:
            continue
        own = find_own_sink(run, step)
        now, then = own.read_positions(run.spark), own.read_positions(run.spark, run.digest)
        arrived = now if now is None or then is None else not_in(now, then)
        missing = None if arrived is None else lost(arrived)
        losses += [] if missing is None else [summarize(found, link, missing, own.label)]
    return together(losses)


def find_own_sink(run: StepContext, step: Step) -> OwnSink:
    for own in run.chain.link(step.stage).own_sinks:
        if own.target == step.arguments["sink"]:
            return own
    raise set_up_differently(run, step, step.arguments["sink"])
