"""Writes the rows of some ranges that a stage's output has not: one bounded job, under its own identity.

    source ── rows of the ranges ──> transform ──┬─> Delta        those that are not there, as (backfill-<digest>, 0)
                                                 ├─> MERGE        those whose key has none, an older one, other values
                                                 └─> PostgreSQL   the same, as (remedy-<digest>, 0) of its ledger

The identity is the plan's, so a second attempt is recognised by the tables and writes nothing again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from surestart.errors import Refused
from surestart.facts.postgres.types import staged_columns
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame
from surestart.remedies.basis.backfill_target import refuse_unread_begin, sinks_of
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.database_facts import read_column_names
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.position_sets import Range, inside, read_range_rows
from surestart.remedies.basis.preconditions import check_preconditions
from surestart.remedies.basis.step_context import StepContext, again
from surestart.remedies.steps.database import loading, removal_of
from surestart.sinks.abilities import Hole, databases_of, fillable
from surestart.sinks.postgres.remedy import fill_rows
from surestart.sinks.postgres.sink import PostgresSink
from surestart.spark.delta_table import read_table
from surestart.spark.every_line import large_side
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.stage import BatchContext


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The rows are in every output, once."""
    # Checked once more: another remedy may have come since the plan was made, or since `begun` if a driver died there.
    check_preconditions(run.spark, run.chain, run.plan)
    refuse_unread_begin(run.spark, run.environment, run.chain, step.stage)
    link = run.chain.link(step.stage)
    stage, environment = link.stage, run.environment
    ranges = [Range(*one) for one in step.arguments["ranges"]]
    rows = read_range_rows(run.spark, environment, stage, ranges)
    context = BatchContext(environment, stage.name, link.query, link.checkpoint)
    identity = identity_of(run)
    added: dict[str, int | None] = {}
    hole = Hole(
        context,
        identity,
        rows=lambda: stage.transform(rows),
        missing=lambda: stage.transform(_without_present(run, link, rows)),
    )
    with applied(run.spark, pairs(EVERYWHERE)):
        for sink in sinks_of(stage.sink):
            filled, databases = fillable(sink), databases_of(sink)
            if filled is not None:
                filled.fill_once(hole)
            for database in () if filled else databases:
                fail_point("remedy.backfill.before_database")
                added[database.target] = _fill_database(run, link, database, rows, ranges)
            if not (filled or databases):
                raise Refused(
                    f"{link.query} writes to a {type(sink).__name__}, which no backfill can write",
                    meaning="Nothing was written.",
                    next=again(run, "undo"),
                )
    fail_point("remedy.backfill.after_commit")
    return {"identity": identity, "added": added}


def identity_of(run: StepContext) -> str:
    return f"backfill-{run.digest[:16]}"


def _without_present(run: StepContext, link: Link, rows: DataFrame) -> DataFrame:
    for output in link.outputs:
        there = read_table(run.spark, output.table).select("source", "partition", "offset")
        rows = rows.join(large_side(there), ["source", "partition", "offset"], "left_anti")
    return rows


def _fill_database(
    run: StepContext, link: Link, sink: PostgresSink, rows: DataFrame, ranges: list[Range]
) -> int | None:
    """Where a Delta table of the stage has the same rows, they are taken from there: made again, they would have
    another time of ingestion than in Delta."""
    mirror = link.mirror_of(sink)
    given = inside(run.spark, read_table(run.spark, mirror.table), ranges) if mirror else link.stage.transform(rows)
    names = read_column_names(sink)
    given = given.select(*(column for column in given.columns if column in names))
    removal = replace(removal_of(run, link, sink), columns=staged_columns(given))
    return fill_rows(removal, loading(sink, given, removal))
