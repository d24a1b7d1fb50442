"""Removes from a Delta table the rows that do not stay, in one commit; Delta's time travel keeps them for the undo.

    every-row, good, quarantine    rows at or above their partition's mark are deleted
    newest                         a key whose row goes gets its newest staying reading back from the input table

Deleting the newest row of a key alone would lose the older reading that it had replaced: it lies below the mark, so
nobody brings it again.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from surestart.environment import Table
from surestart.failpoints import reach
from surestart.large_side import large_side
from surestart.remedies.chain import NEWEST, Link, Output
from surestart.remedies.commit_once import find_commit, one_commit
from surestart.remedies.journaling import refuse_carried_on
from surestart.remedies.plan import Step
from surestart.remedies.put_back import check_restorable, put_back
from surestart.remedies.running import Running
from surestart.remedies.start import read_kept
from surestart.sinks.delta_merge import as_stored, newest_per_key
from surestart.sinks.delta_table import read_columns, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MATCHING = "t.source = k.source AND t.partition = k.partition AND t.offset < k.below"
_VIEW = "surestart_remedy_rows"


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    """Only rows that stay are in the table. facts: the version before and the version after."""
    link, output = find_output(run, step)
    table = output.table
    if read_columns(run.spark, table) is None:
        return {"before": None, "after": None}
    before = int(step.arguments["version"])
    kept = read_kept(run.spark, run.environment, run.digest, step.stage) if step.arguments["keeps"] else None
    refuse_carried_on(run, "apply")
    with one_commit(run.spark, run.digest, step.id):
        if kept is None:
            run.spark.sql(f"DELETE FROM {table.sql}").collect()
        elif output.role == NEWEST:
            _put_former_rows_back(run, link, output, kept)
        else:
            _delete_above(run, table, kept)
    reach("remedy.clear.after_commit")
    after = find_commit(run.spark, table, run.digest, step.id)
    return {"before": before, "after": before if after is None else after}


def undo_step(run: Running, step: Step) -> dict[str, Any]:
    """The table's content is what it was before the remedy."""
    _, output = find_output(run, step)
    if step.id not in run.journal.done:
        missing = read_columns(run.spark, output.table) is None
        if missing or find_commit(run.spark, output.table, run.digest, step.id) is None:
            return {}
    before = run.facts(step.id).get("before", step.arguments["version"])
    done = put_back(run, step, output, before)
    if done is None:
        return {}
    return {"restored": -1 if before is None else int(before), "version": done}


def check_version(run: Running, step: Step) -> None:
    """Raises when the version that an undo restores is not there any more. Before the step was made, and once it is
    restored, it is not needed."""
    _, output = find_output(run, step)
    version = version_before(run, step)
    if version < 0:
        return
    made = step.id in run.journal.done or find_commit(run.spark, output.table, run.digest, step.id) is not None
    if made and find_commit(run.spark, output.table, run.digest, f"undo:{step.id}") is None:
        check_restorable(run, step, output.table, version)


def version_before(run: Running, step: Step) -> int:
    """Of its table: what an undo of this step restores. -1: there was no table."""
    found = step.arguments["version"] if "version" in step.arguments else run.facts(step.id).get("before")
    return -1 if found is None else int(found)


def find_output(run: Running, step: Step) -> tuple[Link, Output]:
    link = run.chain.link(step.stage)
    return link, next(output for output in link.outputs if output.table.name == step.arguments["table"])


def _delete_above(run: Running, table: Table, kept: DataFrame) -> None:
    kept.createOrReplaceTempView(_VIEW)
    try:
        run.spark.sql(
            f"MERGE INTO {table.sql} t USING {_VIEW} k ON {_MATCHING} WHEN NOT MATCHED BY SOURCE THEN DELETE"
        ).collect()
    finally:
        run.spark.catalog.dropTempView(_VIEW)


def _put_former_rows_back(run: Running, link: Link, output: Output, kept: DataFrame) -> None:
    """Keys whose row goes: updated to their newest staying reading, or deleted when they have none."""
    from pyspark.sql import functions as F

    from surestart.remedies.kept import removed_rows

    assert link.input is not None
    gold = read_table(run.spark, output.table)
    # A key may have nulls in it: equal by `=` to nothing, its row would stay.
    names = {key: f"_going_{key}" for key in output.keys}
    same = reduce(and_, [F.col(key).eqNullSafe(F.col(name)) for key, name in names.items()])
    going = removed_rows(gold, kept).select(*[F.col(key).alias(name) for key, name in names.items()])
    given = as_stored(read_table(run.spark, link.input), output.partition_by)
    staying = given.join(F.broadcast(kept), ["source", "partition"]).where("offset < below")
    former = newest_per_key(
        staying.join(large_side(going), same, "left_semi").select(*gold.columns), output.keys, output.order
    )
    rows = going.join(former.withColumn("_former", F.lit(True)), same, "left")
    rows.createOrReplaceTempView(_VIEW)
    try:
        on = " AND ".join(f"t.`{key}` <=> k.`{name}`" for key, name in names.items())
        values = ", ".join(f"t.`{name}` = k.`{name}`" for name in gold.columns)
        run.spark.sql(
            f"MERGE INTO {output.table.sql} t USING {_VIEW} k ON {on} "
            f"WHEN MATCHED AND k._former THEN UPDATE SET {values} WHEN MATCHED THEN DELETE"
        ).collect()
    finally:
        run.spark.catalog.dropTempView(_VIEW)
