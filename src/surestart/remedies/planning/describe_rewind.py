"""What a rewind takes back, how far it could go, and what is given up: for the reader of its plan."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.remedies.loss.loss import Loss
from surestart.remedies.planning.estimate import number
from surestart.remedies.planning.rewind_back import RewindPoint
from surestart.remedies.planning.rewind_batches import RewindBound
from surestart.remedies.planning.rewind_choice import bounding
from surestart.words.inert import inert


def describe_back(one: RewindPoint) -> list[str]:
    checkpoint = one.facts.checkpoint
    taken = f"batch {one.planned} is" if one.planned > one.batch else "no batch is"
    if one.planned > one.batch + 1:
        taken = f"batches {one.batch + 1} to {one.planned} are"
    tables = ", ".join(
        f"{number(rows)} rows of {name} (version {one.versions[name]} of {one.facts.tables[name].version})"
        for name, rows in one.rows.items()
    )
    where = "to before its first batch" if one.cut is None else f"to batch {one.batch}"
    lines = [f"{one.link.query} goes back {where}; {taken} taken back: {tables or 'no table'}."]
    if checkpoint.state.operators and one.cut is not None:
        names = ", ".join(operator.name or f"operator {operator.id}" for operator in checkpoint.state.operators)
        lines.append(
            f"Its state ({names}) is that of batch {one.batch}, version {one.batch + 1}; what later batches made of "
            f"it, up to version {one.planned + 1}, is given up."
        )
    lines += one.of_others
    if one.cut is not None and one.cut.left_out:
        lines.append(f"Not taken along, because Spark did not make it: {', '.join(one.cut.left_out[:5])}.")
    return lines


def describe_bounds(stage: str, bounds: Sequence[RewindBound]) -> str:
    told = "; ".join(f"{bound.what}: batch {bound.oldest}" for bound in bounds if bound.oldest is not None)
    return f"How far back {stage} can go: {bounding(bounds) or 'not known'} ({told})."


def describe_loss(loss: Loss, by_position: bool, not_looked_for: str = "", not_asked: Sequence[str] = ()) -> str:
    """not_looked_for: a file that is to be read again, and may be gone for all that is known. not_asked: sources that
    may not give again what was read, for all that is known."""
    if not_looked_for and not by_position:
        return (
            "Its rows have no positions: whether each comes again is not counted, and whether its files are still "
            f"there was not looked at, such as {inert(not_looked_for, 300)}: see to it before you apply this."
        )
    if not_asked and not by_position:
        return (
            "Its rows have no positions: whether each comes again is not counted, and whether its source still has "
            f"them nobody was asked ({inert('; '.join(not_asked), 400)}): see to it before you apply this."
        )
    if not by_position:
        return "Its rows have no positions: whether each comes again is not counted; its source still reaches back."
    if loss.rows:
        return f"{loss.rows:,} rows are lost for ever: {loss.why}"
    return "Every row that is taken back comes again."
