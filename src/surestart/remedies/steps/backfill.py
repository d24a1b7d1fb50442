"""Writes the rows of some ranges that a stage's output has not: one bounded job, under its own identity.

    source ── rows of the ranges ──> transform ── without those that are there ──> append, as (backfill-<digest>, 0)

The identity is the plan's, so a second attempt is recognised by the tables and writes nothing again.
"""

from __future__ import annotations

from typing import Any

from surestart.errors import Refused
from surestart.failpoints import reach
from surestart.large_side import large_side
from surestart.remedies.journaling import again
from surestart.remedies.plan import Step
from surestart.remedies.ranges import Range, read_rows
from surestart.remedies.running import Running
from surestart.remedies.unread_begin import refuse_unread_begin
from surestart.remedies.world import check_world
from surestart.session import applied, kept
from surestart.settings import EVERYWHERE, pairs
from surestart.sinks.delta_append import DeltaAppend, append_once
from surestart.sinks.delta_split import DeltaSplit
from surestart.sinks.delta_table import read_table
from surestart.stage import BatchContext


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    """The rows are in the output, once."""
    # Also now: another remedy may have come between the plan and this, and `begun` and this if a driver died there.
    check_world(run.spark, run.chain, run.plan)
    refuse_unread_begin(run.spark, run.environment, run.chain, step.stage)
    link = run.chain.link(step.stage)
    stage, environment = link.stage, run.environment
    rows = read_rows(run.spark, environment, stage, [Range(*one) for one in step.arguments["ranges"]])
    for output in link.outputs:
        there = read_table(run.spark, output.table).select("source", "partition", "offset")
        rows = rows.join(large_side(there), ["source", "partition", "offset"], "left_anti")
    context = BatchContext(environment, stage.name, link.query, link.checkpoint)
    identity = identity_of(run)
    with applied(run.spark, pairs(EVERYWHERE)):
        transformed = stage.transform(rows)
        if isinstance(stage.sink, DeltaAppend):
            columns = read_table(run.spark, environment.table(stage.sink.table)).columns
            append_once(transformed.select(*columns), environment.table(stage.sink.table), context, identity, 0)
        elif isinstance(stage.sink, DeltaSplit):
            with kept(stage.sink.per_batch(transformed) if stage.sink.per_batch else transformed) as decided:
                stage.sink.write_once(decided, context, identity, 0)
        else:
            raise Refused(
                f"{link.query} writes to a {type(stage.sink).__name__}, which no backfill knows",
                meaning="Nothing was written.",
                next=again(run, "undo"),
            )
    reach("remedy.backfill.after_commit")
    return {"identity": identity}


def identity_of(run: Running) -> str:
    return f"backfill-{run.digest[:16]}"
