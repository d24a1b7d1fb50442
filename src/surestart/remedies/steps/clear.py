"""Removes from a Delta table the rows that do not stay, in one commit; Delta's time travel keeps them for the undo.

    every-row, good, quarantine    rows at or above their partition's mark are deleted
    newest                         a key whose row goes gets its newest staying reading back from the input table

Deleting the newest row of a key alone would lose the older reading that it had replaced: it lies below the mark, so
nobody brings it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from surestart.environment import Table
from surestart.facts.delta.commit_notes import MARKER, REWIND
from surestart.failpoints import fail_point
from surestart.journal.commit_once import ALL_ROWS, find_commit, find_undo, quoted, replace_once
from surestart.journal.stage_start import read_kept
from surestart.library_types import DataFrame
from surestart.remedies.basis.chain import NEWEST, Link, Output
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import read_at, removed_rows
from surestart.remedies.basis.step_context import StepContext, refuse_carried_on
from surestart.remedies.steps.restore_table import check_restorable, restore_table
from surestart.sinks.delta.merge import LITERAL_KINDS, as_stored, literal, newest_per_key
from surestart.sinks.delta.transaction import no_rows
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.every_line import large_side

# So many partitions or files are named one by one in the condition of a write.
_LITERALS = 200


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """Only rows that stay are in the table. facts: the version before and the version after."""
    link, output = find_output(run, step)
    table = output.table
    if read_columns(run.spark, table) is None:
        return {"before": None, "after": None}
    before, after = int(step.arguments["version"]), find_commit(run.spark, table, run.digest, step.id)
    if after is None:
        kept = read_kept(run.spark, run.environment, run.digest, step.stage) if step.arguments["keeps"] else None
        change = _find_change(run, link, output, before, kept)
        refuse_carried_on(run, "apply")
        after = replace_once(change.rows, table, run.digest, step.id, change.where)
    fail_point("remedy.clear.after_commit")
    return {"before": before, "after": after}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The table's content is what it was before the remedy."""
    _, output = find_output(run, step)
    if step.id not in run.journal.done:
        missing = read_columns(run.spark, output.table) is None
        if missing or find_commit(run.spark, output.table, run.digest, step.id) is None:
            return {}
    before = run.facts(step.id).get("before", step.arguments["version"])
    done = restore_table(run, step, output, before)
    if done is None:
        return {}
    return {"restored": -1 if before is None else int(before), "version": done}


def check_version(run: StepContext, step: Step) -> None:
    """Raises when the version that an undo restores is not there any more. Before the step was made, and once it is
    restored, it is not needed."""
    _, output = find_output(run, step)
    version = version_before(run, step)
    if version < 0:
        return
    # A step that is itself a RESTORE begins with the mark of that RESTORE.
    names = (step.id, f"{MARKER}{REWIND}{step.id}")
    made = step.id in run.journal.done or any(
        find_commit(run.spark, output.table, run.digest, name) is not None for name in names
    )
    if made and find_undo(run.spark, output.table, run.digest, step.id) is None:
        check_restorable(run, step, output.table, version)


def version_before(run: StepContext, step: Step) -> int:
    """The version of the step's table that an undo restores. -1: there was no table."""
    found = step.arguments["version"] if "version" in step.arguments else run.facts(step.id).get("before")
    return -1 if found is None else int(found)


def find_output(run: StepContext, step: Step) -> tuple[Link, Output]:
    link = run.chain.link(step.stage)
    return link, next(output for output in link.outputs if output.table.name == step.arguments["table"])


@dataclass(frozen=True)
class TableChange:
    """The rows that take the place of those for which the condition is true."""

    rows: DataFrame
    where: str = ALL_ROWS


def _find_change(run: StepContext, link: Link, output: Output, before: int, kept: DataFrame | None) -> TableChange:
    if kept is None or before < 0:
        return TableChange(no_rows(run.spark, output.table))
    # By its version: what is read is what the plan has seen, also where the write has begun already.
    table = read_at(run.spark, run.environment, output.table.name, before)
    if output.role == NEWEST:
        return _put_former_rows_back(run, link, output, table, kept)
    return _delete_above(run, output.table, table, kept)


def _delete_above(run: StepContext, table: Table, rows: DataFrame, kept: DataFrame) -> TableChange:
    """Where the rows to go are of few partitions or files, just these are named, and only files that hold some of them
    are written again. Where they are of many, little stays, and all of it is written."""
    from pyspark.sql import functions as F

    going = removed_rows(rows, kept).groupBy("source", "partition").agg(F.min("offset").alias("first"))
    few = going.limit(_LITERALS + 1).collect()
    if len(few) > _LITERALS:
        return TableChange(_staying(rows, kept))
    named = [_at_or_above(row["source"], row["partition"], row["first"]) for row in few]
    return TableChange(no_rows(run.spark, table), " OR ".join(named) or "false")


def _at_or_above(source: str | None, partition: int | None, first: int | None) -> str:
    """A row without an offset goes as well: it is below no mark."""
    above = "" if first is None else f"`offset` >= {int(first)} OR "
    part = None if partition is None else str(int(partition))
    return f"({_is('source', source, 'string')} AND {_is('partition', part, 'int')} AND ({above}`offset` IS NULL))"


def _is(name: str, value: str | None, kind: str) -> str:
    return f"{quoted(name)} IS NULL" if value is None else f"{quoted(name)} = {literal(value, kind)}"


def _staying(rows: DataFrame, kept: DataFrame) -> DataFrame:
    """The rows that stay: the opposite of `removed_rows`."""
    from pyspark.sql import functions as F

    marks = F.broadcast(kept.toDF("k_source", "k_partition", "k_below"))
    same = (F.col("source") == F.col("k_source")) & (F.col("partition") == F.col("k_partition"))
    return rows.join(marks, same & (F.col("offset") < F.col("k_below")), "left_semi")


def _put_former_rows_back(
    run: StepContext, link: Link, output: Output, gold: DataFrame, kept: DataFrame
) -> TableChange:
    """Keys whose row goes have their newest staying reading, or none."""
    from pyspark.sql import functions as F

    assert link.input is not None
    # A key may have nulls in it: equal by `=` to nothing, its row would stay.
    names = {key: f"_going_{key}" for key in output.keys}
    same = reduce(and_, [F.col(quoted(key)).eqNullSafe(F.col(quoted(name))) for key, name in names.items()])
    going = removed_rows(gold, kept)
    keys = going.select(*[F.col(quoted(key)).alias(name) for key, name in names.items()])
    given = as_stored(link.stage.transform(read_table(run.spark, link.input)), output.partition_by)
    staying = given.join(F.broadcast(kept), ["source", "partition"]).where("offset < below")
    # What the table computes it computes again.
    written = {name: kind for name, kind in gold.dtypes if name in given.columns}
    columns = [F.col(quoted(name)).cast(kind).alias(name) for name, kind in written.items()]
    former = newest_per_key(
        staying.join(large_side(keys), same, "left_semi").select(*columns), output.keys, output.order
    )
    where = ALL_ROWS
    if set(output.partition_by) <= written.keys():
        where = _partitions_of(going.select(*written).unionByName(former), output.partition_by)
    return TableChange(_staying(gold, kept).where(where).select(*written).unionByName(former), where)


def _partitions_of(rows: DataFrame, partition_by: tuple[str, ...]) -> str:
    """True for each row that lies in a partition of one of these; for every row where the table has none, or they are
    too many to name."""
    from pyspark.sql import functions as F

    kinds = dict(rows.dtypes)
    # A time is written out in the session's time zone, which is another inside the write.
    if not partition_by or not {kinds[name] for name in partition_by} <= LITERAL_KINDS - {"timestamp"}:
        return ALL_ROWS
    few = rows.select(*[F.col(quoted(name)).cast("string") for name in partition_by]).distinct()
    found = few.limit(_LITERALS + 1).collect()
    if len(found) > _LITERALS:
        return ALL_ROWS
    named = [" AND ".join(_is(name, row[name], kinds[name]) for name in partition_by) for row in found]
    return " OR ".join(f"({one})" for one in named) or "false"
