"""What an undo would lose for ever: rows that arrived since the remedy, which it takes out, and the source has no more.

They are found one by one, by position against the version that comes back: a remedy may have filled a gap below the
highest offset of its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.errors import Refused
from surestart.large_side import large_side
from surestart.registry.read_runs import read_runs
from surestart.remedies.chain import POSITION, Link
from surestart.remedies.journaling import again
from surestart.remedies.kept import read_at
from surestart.remedies.next_command import named
from surestart.remedies.running import Running
from surestart.remedies.same_topic import recorded_topic
from surestart.remedies.source_reach import Loss, loss_of
from surestart.remedies.steps.clear import version_before
from surestart.remedies.steps.database import find_undo_loss
from surestart.sinks.delta_table import read_columns, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Steps that change what a Delta table holds.
CONTENT = ("clear", "swap")


def refuse_undo_loss(run: Running, accept_loss: int | None) -> None:
    """What arrived since the remedy goes with the tables and is read again, if the source still has it."""
    link = run.chain.link(run.plan.stage)
    before = {
        step.arguments["table"]: version_before(run, step)
        for step in run.plan.steps
        if step.kind in CONTENT and step.stage == link.name and step.id in run.journal.done
    }
    topic = _refuse_other_topic(run, link)
    if link.keyed:
        return
    if not link.outputs:
        loss = find_undo_loss(run, link, topic)
    elif before:
        arrived = _arrived_since(run, link, before)
        loss = Loss() if arrived is None else loss_of(run.spark, run.environment, link, arrived, topic)
    else:
        return
    if loss.rows and loss.rows != accept_loss:
        raise Refused(
            f"{loss.rows:,} rows that arrived since would be lost for ever: {loss.why}",
            meaning="The undo takes them out with everything the remedy brought, and the source cannot bring them "
            "again. Nothing was changed.",
            next=f"{again(run, 'undo')} --accept-loss {loss.rows}  # if nobody needs them",
            code="SourceLostRows",
        )


def _arrived_since(run: Running, link: Link, before: dict[str, int]) -> DataFrame | None:
    """Positions that the stage's tables hold now, and did not hold before. The marker row of an undo that lies
    half-way has none."""
    now, then = None, None
    for output in link.outputs:
        name = output.table.name
        if name not in before or read_columns(run.spark, output.table) is None:
            continue
        rows = read_table(run.spark, output.table).select(*POSITION).where("source IS NOT NULL")
        now = rows if now is None else now.unionAll(rows)
        rows = read_at(run.spark, run.environment, name, before[name]).select(*POSITION)
        then = rows if then is None else then.unionAll(rows)
    return None if now is None or then is None else now.join(large_side(then), list(POSITION), "left_anti")


def _refuse_other_topic(run: Running, link: Link) -> str:
    """The id of the topic that the stage had read from before the remedy. Raises when it has read from another one
    since: the checkpoint that would come back means records of the former."""
    runs, began = read_runs(run.environment, run.spark), run.journal.first.at
    former = recorded_topic(runs, link, run.environment, before=began)
    latest = recorded_topic(runs, link, run.environment)
    if former and latest and former != latest:
        raise Refused(
            f"since the remedy {link.query} has read from another topic of the same name ({latest}, was {former})",
            meaning="The former checkpoint stands at offsets of the former topic: the stage would leave out the new "
            "one's records up to there. Nothing was changed.",
            next=f"surestart doctor {link.name} {named(run.environment)}",
            code="TopicReplaced",
        )
    return former
