"""Moves a checkpoint to another place, and back with whatever the stream has written since.

An undo brings back the checkpoint as it is by then, not the older copy: the sink holds what was written since, and by
the older one those batches would be dropped or written twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.failpoints import fail_point
from surestart.remedies.basis.change_place import (
    PlaceChange,
    change_place,
    forget_aside,
    is_copied,
    is_moved,
    move_back,
)
from surestart.remedies.basis.durable import Signpost
from surestart.remedies.basis.move_aside import RETIRED
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext, refuse_carried_on
from surestart.typed import surestart

SCRATCH = "_moving"


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The checkpoint is at its new place, the same bytes; at the old one stands a file."""
    way = way_of(run, step)
    found = change_place(way, str(step.arguments["manifest"]), lambda: refuse_carried_on(run, "apply"), run.say)
    fail_point("remedy.place.after_place")
    return {"to": str(way.target), "aside": str(way.aside), "files": len(found.files), "size": found.size}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The checkpoint is at its old place again, with all that was written since; at the new one stands a file."""
    way = way_of(run, step)
    back = _way_back(way)
    if not is_moved(back) and not is_copied(back):
        if not way.target.is_dir():
            # Nothing was placed: nobody has written anything but where it was.
            former = step.arguments.get("former")
            move_back(way, Signpost(**former) if former else None)
            return {"manifest": read_manifest(way.origin).digest}
        if way.origin.is_dir():
            raise _both(way)
    found = change_place(back, None, lambda: refuse_carried_on(run, "undo"), run.say)
    forget_aside(back)
    forget_aside(way)
    return {"manifest": found.digest}


def check_moved(run: StepContext, step: Step) -> None:
    """Raises when the checkpoint that would go back is not at its new place any more, or is another one."""
    way = way_of(run, step)
    back = _way_back(way)
    if way.origin.is_dir() or is_moved(back) or is_copied(back):
        return  # It is back already.
    there = read_checkpoint(str(way.target), entries=1)
    if there.query_id == way.query_id:
        return
    raise Refused(
        f"at {way.target} is {f'the checkpoint of query {there.query_id}' if there.query_id else 'no checkpoint'}, and "
        f"not that of query {way.query_id}, which was moved there",
        meaning=f"What the stream has written since cannot go back. What it was before the move is in {way.aside}. "
        "Nothing was changed.",
        next=surestart("inspect", way.target),
        do_not="start the stream from the copy put aside: its sink may be past it.",
        code="UndoTooLate",
    )


def way_of(run: StepContext, step: Step) -> PlaceChange:
    """From where to where: by the plan. The declaration names the one or the other, as far as the move has come."""
    origin, target = Path(str(step.arguments["from"])), Path(str(step.arguments["to"]))
    query, name = run.chain.link(step.stage).query, run.digest[:16]
    return PlaceChange(
        origin=origin,
        target=target,
        aside=origin.parent / RETIRED / query / name,
        scratch=target.parent / SCRATCH / query / name,
        query_id=str(step.arguments["query_id"]),
        digest=run.digest,
    )


def _way_back(way: PlaceChange) -> PlaceChange:
    query, name = way.aside.parent.name, way.aside.name
    return PlaceChange(
        origin=way.target,
        target=way.origin,
        aside=way.target.parent / RETIRED / query / f"{name}-undone",
        scratch=way.origin.parent / SCRATCH / query / f"{name}-undone",
        query_id=way.query_id,
        digest=way.digest,
    )


def _both(way: PlaceChange) -> Refused:
    return Refused(
        f"a checkpoint is at {way.origin}, and one is at {way.target}",
        meaning=f"Somebody has put one at {way.origin} since the move: it is not overwritten.",
        next=surestart("inspect", way.origin),
        do_not="delete either of the two.",
        code="CheckpointDiffers",
    )
