"""Removes from a Delta table the rows that do not stay, in one commit; Delta's time travel keeps them for the undo.

    every-row, good, quarantine    rows at or above their partition's mark are deleted
    newest                         a key whose row goes gets its newest staying reading back from the input table

Deleting the newest row of a key alone would lose the older reading that it had replaced: it lies below the mark, so
nobody brings it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surestart.environment import Table
from surestart.errors import Refused
from surestart.failpoints import reach
from surestart.large_side import large_side
from surestart.registry.read_runs import read_runs
from surestart.remedies.chain import EVERY_ROW, GOOD, NEWEST, Link, Output
from surestart.remedies.commit_once import find_commit, one_commit
from surestart.remedies.journaling import again
from surestart.remedies.kept import COLUMNS, find_kept, read_rule
from surestart.remedies.next_command import plan_again
from surestart.remedies.plan import Step
from surestart.remedies.put_back import check_restorable, put_back
from surestart.remedies.running import Running
from surestart.remedies.same_topic import recorded_topic, refuse_other_topic
from surestart.remedies.source_reach import find_loss
from surestart.remedies.start import read_kept
from surestart.sinks.delta_merge import newest_per_key
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
    if step.stage == run.plan.stage and find_commit(run.spark, table, run.digest, step.id) is None:
        refuse_new_loss(run, link, kept)
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


def refuse_loss_since(run: Running) -> None:
    """The source is asked again before anything is begun: retention goes on while a plan is read. For a database alone
    it is asked when its rows go."""
    link = run.chain.link(run.plan.stage)
    if not any(step.kind == "clear" and step.stage == link.name for step in run.plan.steps):
        return
    keep = next((step for step in run.plan.steps if step.kind == "keep" and step.stage == link.name), None)
    kept = None if keep is None else find_kept(run.spark, run.environment, read_rule(keep.arguments["rule"]))
    refuse_new_loss(run, link, kept, begun=False)


def refuse_new_loss(run: Running, link: Link, kept: DataFrame | None, begun: bool = True) -> None:
    """And again, right before its rows are removed."""
    if run.plan.remedy == "retire":
        return  # Its rows are removed for good: nobody is to read them again.
    marks = run.spark.createDataFrame([], COLUMNS) if kept is None else kept
    topic = recorded_topic(read_runs(run.environment, run.spark), link, run.environment)
    refuse_other_topic(run.environment, link, marks, topic, "Its rows are still in the output.")
    loss = find_loss(run.spark, run.environment, link, marks, topic)
    if loss.rows > run.plan.loss:
        raise Refused(
            f"{loss.rows:,} rows would be lost for ever, {run.plan.loss:,} when this was planned: {loss.why}",
            meaning="The source has dropped them since. They are still in the output."
            + ("" if begun else " Nothing was changed."),
            next=again(run, "undo") if begun else plan_again(run.plan),
            do_not="go on with this plan.",
            code="SourceLostRows",
        )


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
    return {"restored": int(before), "version": done, **_written_since(run, step, output, done)}


def _written_since(run: Running, step: Step, output: Output, restored: int) -> dict[str, Any]:
    """When the rows were written that the RESTORE took away: streams below pass over them."""
    from pyspark.sql import functions as F

    from surestart.remedies.kept import read_at, removed_rows

    clock = run.chain.link(step.stage).stage.clock
    if not clock or output.role not in (EVERY_ROW, GOOD):
        return {}
    rows = read_at(run.spark, run.environment, output.table.name, restored - 1)
    if step.arguments["keeps"]:
        rows = removed_rows(rows, read_kept(run.spark, run.environment, run.digest, step.stage))
    written = F.unix_micros(F.col(clock))
    first, last = rows.agg(F.min(written), F.max(written)).collect()[0]
    return {} if first is None else {"column": clock, "first": int(first), "last": int(last)}


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
    keys = list(output.keys)
    going = removed_rows(gold, kept).select(*keys)
    staying = read_table(run.spark, link.input).join(F.broadcast(kept), ["source", "partition"]).where("offset < below")
    former = newest_per_key(
        staying.join(large_side(going), keys, "left_semi").select(*gold.columns), output.keys, output.order
    )
    rows = going.join(former.withColumn("_former", F.lit(True)), keys, "left")
    rows.createOrReplaceTempView(_VIEW)
    try:
        on = " AND ".join(f"t.`{key}` = k.`{key}`" for key in keys)
        values = ", ".join(f"t.`{name}` = k.`{name}`" for name in gold.columns)
        run.spark.sql(
            f"MERGE INTO {output.table.sql} t USING {_VIEW} k ON {on} "
            f"WHEN MATCHED AND k._former THEN UPDATE SET {values} WHEN MATCHED THEN DELETE"
        ).collect()
    finally:
        run.spark.catalog.dropTempView(_VIEW)
