"""The step of a plan that has a sink of your own take out all that it holds."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.next_command import plan_command
from surestart.remedies.basis.chain import Link, OwnSink
from surestart.remedies.basis.plan import Effect, Step


def plan_own_sink(environment: Environment, link: Link, own: OwnSink, keeps: bool) -> tuple[Effect, Step]:
    """keeps: some rows are to stay. A sink of your own can only give up all of them, so that is refused."""
    if keeps:
        raise Refused(
            f"{link.query} writes to {own.label}, which is cleared as a whole or not at all",
            meaning="Some of its rows would have to stay. Nothing was planned.",
            next=plan_command(environment, "reset", link.name, note="all of it, from the beginning"),
            code="SinkClearedWhole",
        )
    held = own.sink.read_holdings(environment)
    rows = "?" if held.rows is None else f"{held.rows:,}"
    what = f"have {own.label} take out all it holds: {rows} rows"
    step = Step(f"sink:{own.target}", "sink", what, link.name, {"sink": own.target, "exists": bool(held.id)})
    return Effect(own.label, "remove rows", held.rows, None, held.size), step
