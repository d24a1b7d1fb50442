"""What an undo would lose for ever: rows that arrived since the remedy, which it takes out, and the source has no more.

They are found one by one, by position against the version that comes back: a remedy may have filled a gap below the
highest offset of its partition.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from surestart.errors import Refused
from surestart.history.read_runs import read_runs
from surestart.journal.next_command import named
from surestart.journal.step_kinds import changes_content
from surestart.remedies.loss.loss import Reaching, summarize
from surestart.remedies.loss.source_reach import reaching, together
from surestart.remedies.loss.still_given import EVIDENCE
from surestart.remedies.plan.chain import POSITION, Link
from surestart.remedies.plan.journaling import again
from surestart.remedies.plan.kept import read_at
from surestart.remedies.plan.missing_positions import not_in
from surestart.remedies.plan.running import Running
from surestart.remedies.plan.same_topic import recorded_topic
from surestart.remedies.steps.clear import version_before
from surestart.remedies.steps.database import find_undo_loss
from surestart.remedies.steps.sink import find_sink_undo_loss
from surestart.spark.delta_table import read_columns, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refuse_undo_loss(run: Running, accept_loss: int | None) -> None:
    """What arrived since the remedy goes with the tables and is read again, if the source still has it."""
    link = run.chain.link(run.plan.stage)
    before = {
        step.arguments["table"]: version_before(run, step)
        for step in run.plan.steps
        if changes_content(step.kind) and step.id in run.journal.done
    }
    topic = _refuse_other_topic(run, link)
    links = [one for one in run.chain.below(link.name) if one.name in run.plan.touched]
    arrivals = {one.name: _arrived_since(run, one, before) for one in links}
    elsewhere = any(one.kind in ("database", "sink") and one.id in run.journal.done for one in run.plan.steps)
    if not elsewhere and all(arrived is None for arrived in arrivals.values()):
        return
    found = reaching(run.spark, run.environment, links, topic)
    losses = []
    for one in links:
        arrived = arrivals[one.name]
        missing = None if arrived is None else _not_again(run, found, one, before, arrived)
        losses += [] if missing is None else [summarize(found, one, missing)]
        lost = partial(_not_again, run, found, one, before)
        losses += [find_undo_loss(run, found, one, lost), find_sink_undo_loss(run, found, one, lost)]
    loss = together(losses)
    if loss.rows and loss.rows != accept_loss:
        raise Refused(
            f"{loss.rows:,} rows that arrived since would be lost for ever: {loss.why}",
            meaning="The undo takes them out with everything the remedy brought, and the source cannot bring them "
            "again. Nothing was changed.",
            next=f"{again(run, 'undo')} --accept-loss {loss.rows}  # if nobody needs them",
            code="SourceLostRows",
        )


def _arrived_since(run: Running, link: Link, before: dict[str, int]) -> DataFrame | None:
    """Positions that the stage's tables hold now, and did not hold before; None: there are none."""
    now, then = None, None
    for output in link.outputs:
        name, columns = output.table.name, read_columns(run.spark, output.table)
        if name not in before or columns is None or not set(POSITION) <= columns.keys():
            continue
        # An undo that a former version left half-way has a marker row of nothing but nulls.
        rows = read_table(run.spark, output.table).where(f"NOT ({' AND '.join(f'`{one}` IS NULL' for one in columns)})")
        told = [one for one in EVIDENCE if len(link.outputs) == 1 and one in columns]
        rows = rows.select(*POSITION, *told)
        now = rows if now is None else now.unionAll(rows)
        rows = read_at(run.spark, run.environment, name, before[name]).select(*POSITION)
        then = rows if then is None else then.unionAll(rows)
    if now is None or then is None:
        return None
    # A row without a position cannot be told from those there were; they are not fewer after the undo than then.
    unplaced = "source IS NULL OR partition IS NULL OR offset IS NULL"
    if now.where(unplaced).count() <= then.where(unplaced).count():
        now = now.where(f"NOT ({unplaced})")
    return not_in(now, then)


def _not_again(run: Running, found: Reaching, link: Link, before: dict[str, int], rows: DataFrame) -> DataFrame | None:
    """Of these rows: those that neither a table above holds again after the undo, nor the source gives."""
    if link.name == run.plan.stage:
        return found.giving.lost(rows)
    assert link.input is not None
    name = link.input.name
    if name in before:
        missing = not_in(rows, read_at(run.spark, run.environment, name, before[name]))
    elif read_columns(run.spark, link.input) is not None:
        missing = not_in(rows, read_table(run.spark, link.input))
    else:
        missing = rows
    return None if missing is None else _not_again(run, found, run.chain.link(link.upstream), before, missing)


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
