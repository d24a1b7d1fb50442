"""What a rewind takes back, how far it could go, and what is given up: for the reader of its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.remedies.loss.loss import Loss
from surestart.remedies.planning.foretell import number
from surestart.remedies.planning.rewind_back import Back
from surestart.remedies.planning.rewind_batches import (
    Bound,
)
from surestart.remedies.planning.rewind_choice import bounding
from surestart.words.inert import inert

if TYPE_CHECKING:
    pass


def describe_back(one: Back) -> list[str]:
    checkpoint = one.facts.checkpoint
    taken = f"batches {one.batch + 1} to {one.planned}" if one.planned > one.batch + 1 else f"batch {one.planned}"
    if one.planned == one.batch:
        taken = "no batch"
    tables = ", ".join(
        f"{number(rows)} rows of {name} (version {one.versions[name]} of {one.facts.tables[name].version})"
        for name, rows in one.rows.items()
    )
    where = "to before its first batch" if one.cut is None else f"to batch {one.batch}"
    lines = [f"{one.link.query} goes back {where}; {taken} is taken back: {tables or 'no table'}."]
    if taken.startswith("batches"):
        lines = [lines[0].replace(" is taken back", " are taken back")]
    if checkpoint.state.operators and one.cut is not None:
        names = ", ".join(operator.name or f"operator {operator.id}" for operator in checkpoint.state.operators)
        lines.append(
            f"Its state ({names}) is that of batch {one.batch}, version {one.batch + 1}; what later batches made of "
            f"it, up to version {one.planned + 1}, is given up."
        )
    if one.cut is not None and one.cut.left_out:
        lines.append(f"Not taken along, because Spark did not make it: {', '.join(one.cut.left_out[:5])}.")
    return lines


def describe_bounds(stage: str, checkpoint: Checkpoint, bounds: Sequence[Bound]) -> str:
    told = "; ".join(f"{bound.what}: batch {bound.oldest}" for bound in bounds if bound.oldest is not None)
    return f"How far back {stage} can go: {bounding(bounds) or 'not known'} ({told})."


def describe_loss(loss: Loss, by_position: bool, not_looked_for: str = "") -> str:
    """not_looked_for: a file that is to be read again, and may be gone for all that is known."""
    if not_looked_for and not by_position:
        return (
            "Its rows have no positions: whether each comes again is not counted, and whether its files are still "
            f"there was not looked at, such as {inert(not_looked_for, 300)}: see to it before you apply this."
        )
    if not by_position:
        return "Its rows have no positions: whether each comes again is not counted; its source still reaches back."
    if loss.rows:
        return f"{loss.rows:,} rows are lost for ever: {loss.why}"
    return "Every row that is taken back comes again."
