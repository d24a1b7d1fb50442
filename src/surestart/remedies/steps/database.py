"""Removes from a PostgreSQL table the rows that do not stay, in one transaction there; its undo puts them back.

append    rows at or above their partition's mark are deleted
upsert    a key whose row goes gets its newest staying reading back, from what the stage reads or writes beside
beside    all rows are deleted, and those that were filled into the stage's Delta table beside take their place
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from surestart.errors import Refused
from surestart.facts.postgres.types import staged_columns
from surestart.history.describe_run import plan_command
from surestart.journal.protocol import DATABASE
from surestart.journal.stage_start import read_kept
from surestart.library_types import DataFrame
from surestart.remedies.basis.beside import beside_of
from surestart.remedies.basis.chain import EVERY_ROW, GOOD, Link
from surestart.remedies.basis.database_facts import read_column_names, read_database, read_marks
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import read_at, removed_rows
from surestart.remedies.basis.step_context import StepContext, again, refuse_carried_on, set_up_differently, too_late
from surestart.remedies.loss.database_loss import find_loss_by_columns, read_placed
from surestart.remedies.loss.find_loss import together
from surestart.remedies.loss.loss import Loss, LossSearch, summarize
from surestart.sinks.delta.merge import newest_per_key
from surestart.sinks.postgres.copy import load_from_driver, load_from_executors
from surestart.sinks.postgres.once import Load, Removal
from surestart.sinks.postgres.remedy import is_kept, remove_rows, restore_rows
from surestart.sinks.postgres.sink import PostgresSink
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.every_line import large_side


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """Only rows that stay are in the table. facts: what prune, the undo and a later start need to know of it."""
    link, sink = find_database(run, step)
    removal, load = _removal(run, step, link, sink), None
    beside = step.arguments.get("beside")
    if beside:
        # A stage that never ran has no table yet.
        sink.prepare(run.spark, run.environment)
        rows = _rows_beside(run, sink, str(beside))
        removal = _with_columns(removal, rows)
        load = loading(sink, rows, removal)
    elif removal.marks is not None and sink.mode == "upsert":
        former = former_readings(run, link, sink)
        removal = _with_columns(removal, former)
        load = loading(sink, former, removal)

    refuse_carried_on(run, "apply")
    done = remove_rows(removal, load)
    return {
        "target": done.target,
        "place": sink.url.label,
        "query": link.query,
        "rows": done.rows,
        "restored": done.restored,
        "kept_table": done.kept_table,
        "after": done.at,
    }


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The table's rows are those of before the remedy."""
    link, sink = find_database(run, step)
    existed = bool(step.arguments["exists"])
    refuse_carried_on(run, "undo")
    done = restore_rows(_removal(run, step, link, sink), existed or step.id not in run.journal.done)
    return {"removed": done.rows, "restored": done.restored}


def check_kept(run: StepContext, step: Step) -> None:
    """Raises when what the step has removed is not there any more."""
    link, sink = find_database(run, step)
    if not step.arguments["exists"] or is_kept(_removal(run, step, link, sink)):
        return
    what = f"what was removed from {sink.target} is gone: `surestart prune` has dropped it, or somebody else"
    raise too_late(run, step, what)


def find_undo_loss(
    run: StepContext, found: LossSearch, link: Link, lost: Callable[[DataFrame], DataFrame | None]
) -> Loss:
    """Rows of the stage's databases that the undo takes out again, and that will not come again. lost: which of rows do
    not, by the tables as they are after it."""
    losses = []
    for step in run.plan.of_kind(DATABASE):
        kept = run.facts(step.id).get("kept_table")
        if step.stage != link.name or not kept or step.id in run.journal.undone:
            continue
        marks = None
        if step.arguments["keeps"]:
            marks = read_marks(read_kept(run.spark, run.environment, run.digest, step.stage))
        _, sink = find_database(run, step)
        if not read_database(sink).exists:
            continue
        rows = read_placed(run.spark, sink, marks, str(kept))
        if rows is None:
            # What the stage has written since is in its input as well; what others have is nowhere else.
            losses.append(find_loss_by_columns(run.spark, link, sink))
            continue
        missing = lost(rows)
        losses += [] if missing is None else [summarize(found, link, missing, f"PostgreSQL {sink.target}")]
    return together(losses)


def find_database(run: StepContext, step: Step) -> tuple[Link, PostgresSink]:
    link = run.chain.link(step.stage)
    wanted = step.arguments["target"]
    found = next((sink for sink in link.databases if sink.target == wanted), None)
    if found is None or found.url.label != step.arguments["place"]:
        raise set_up_differently(run, step, f"{wanted} in {step.arguments['place']}")
    return link, found


def former_readings(run: StepContext, link: Link, sink: PostgresSink) -> DataFrame:
    """The newest staying reading of every key that has a row to go: where the same rows are kept one by one."""
    from pyspark.sql import functions as F

    kept = read_kept(run.spark, run.environment, run.digest, link.name)
    rows = _all_readings(run, link)
    keys = list(sink.keys)
    moving = removed_rows(rows, kept).select(*keys).distinct()
    staying = (
        rows.join(F.broadcast(kept), ["source", "partition"]).where(F.col("offset") < F.col("below")).drop("below")
    )
    return newest_per_key(
        staying.join(large_side(moving), keys, "left_semi").select(*rows.columns), sink.keys, sink.order
    )


def _rows_beside(run: StepContext, sink: PostgresSink, table: str) -> DataFrame:
    """What was filled beside, at the version that was counted, with the columns that the database has."""
    own, _ = beside_of(run)
    rows = read_at(run.spark, own, table, int(run.facts("check")["beside"][table]))
    known = read_column_names(sink)
    return rows.select(*(column for column in rows.columns if column in known))


def _all_readings(run: StepContext, link: Link) -> DataFrame:
    for output in link.outputs:
        if output.role in (EVERY_ROW, GOOD) and read_columns(run.spark, output.table) is not None:
            return read_table(run.spark, output.table)
    if link.input is None:
        raise Refused(
            f"{link.query} merges into PostgreSQL what it reads from its source, and no table keeps those rows",
            meaning="A key whose newest row goes could not get its former one back. Nothing was removed there.",
            next=again(run, "undo").noting("then", plan_command(run.environment, "reset", link.name)),
            code="FormerRowsUnknown",
        )
    return link.stage.transform(read_table(run.spark, link.input))


def _removal(run: StepContext, step: Step, link: Link, sink: PostgresSink) -> Removal:
    marks = None
    if step.arguments["keeps"]:
        marks = read_marks(read_kept(run.spark, run.environment, run.digest, step.stage))
    return replace(removal_of(run, link, sink), marks=marks)


def removal_of(run: StepContext, link: Link, sink: PostgresSink) -> Removal:
    """The removal of all rows, under the name by which the database's ledger knows this remedy."""
    return Removal(
        url=sink.url.read(),
        target=sink.target,
        digest=run.digest,
        query=link.query,
        stage=link.name,
        keys=sink.keys,
        order=sink.order,
        step=sink.step,
    )


def _with_columns(removal: Removal, former: DataFrame) -> Removal:
    return replace(removal, columns=staged_columns(former))


def loading(sink: PostgresSink, former: DataFrame, removal: Removal) -> Load:
    if sink.load == "driver":
        return lambda staging: load_from_driver(former, removal.url, staging)
    rows = former.coalesce(sink.connections) if sink.connections else former
    return lambda staging: load_from_executors(rows, removal.url, staging)
