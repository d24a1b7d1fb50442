"""Which rows a rewind takes back, and which of them will not come again.

first stage      what its source still gives
a stage below    what the table above it holds at the version to which that goes back, and what comes again there
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.run_table import read_runs
from surestart.journal.protocol import RESTORE
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Link
from surestart.remedies.basis.plan import plan_again
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.rows_that_stay import read_at
from surestart.remedies.basis.same_topic import recorded_topic
from surestart.remedies.basis.step_context import StepContext, again
from surestart.remedies.loss.find_loss import begin_loss_search, together
from surestart.remedies.loss.loss import Loss, LossSearch, summarize
from surestart.remedies.loss.still_given import EVIDENCE
from surestart.spark.delta_table import read_columns, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_rewind_loss(
    spark: SparkSession, environment: Environment, links: Sequence[Link], versions: Mapping[str, int]
) -> Loss:
    """Of the rows that go, those that do not come again: the table above does not hold them at its version, or the
    source does not give them.

    versions: the one that each table goes back to."""
    going = {link.name: _going(spark, environment, link, versions) for link in links}
    if all(rows is None for rows in going.values()):
        return Loss()
    topic = recorded_topic(read_runs(environment, spark), links[0], environment)
    found = begin_loss_search(spark, environment, links, topic)
    by_name = {link.name: link for link in links}
    losses = []
    for link in links:
        lost = _not_again(found, by_name, link, versions, going[link.name])
        losses += [] if lost is None else [summarize(found, link, lost)]
    return together(losses)


def _not_again(
    found: LossSearch, links: Mapping[str, Link], link: Link, versions: Mapping[str, int], rows: DataFrame | None
) -> DataFrame | None:
    if rows is None or link.name == found.giving.link.name:
        return None if rows is None else found.giving.lost(rows)
    assert link.input is not None
    name = link.input.name
    stays = (
        read_at(found.spark, found.environment, name, versions[name])
        if name in versions
        else read_table(found.spark, link.input)
    )
    return _not_again(found, links, links[link.upstream], versions, not_in(rows, stays))


def counts_by_position(spark: SparkSession, link: Link) -> bool:
    columns = [read_columns(spark, output.table) for output in link.outputs]
    return all(found is None or set(POSITION) <= found.keys() for found in columns)


def refuse_new_rewind_loss(run: StepContext, begun: bool) -> None:
    """Raises where more rows would be lost by now than when the plan was made, while those of its first stage are still
    where they were."""
    versions = {str(step.arguments["table"]): int(step.arguments["to"]) for step in run.plan.of_kind(RESTORE)}
    links = [link for link in run.chain.below(run.plan.stage) if link.name in run.plan.touched]
    loss = find_rewind_loss(run.spark, run.environment, links, versions)
    refuse_more_lost(run, loss.rows, run.plan.loss, loss.why, begun)


def refuse_more_lost(run: StepContext, rows: int, planned: int, why: str, begun: bool) -> None:
    if rows <= planned:
        return
    raise Refused(
        f"{rows:,} rows would be lost for ever, {planned:,} when this was planned: {why}",
        meaning="Where they came from does not give them any more. They are still in the output."
        + ("" if begun else " Nothing was changed."),
        next=again(run, "undo") if begun else plan_again(run.plan),
        do_not="go on with this plan.",
        code="SourceLostRows",
    )


def _going(spark: SparkSession, environment: Environment, link: Link, versions: Mapping[str, int]) -> DataFrame | None:
    """Rows that the stage's tables hold now, and did not hold at those versions; None: there are none."""
    now: DataFrame | None = None
    then: DataFrame | None = None
    for name in [output.table.name for output in link.outputs if output.table.name in versions]:
        version, table = versions[name], environment.table(name)
        columns = read_columns(spark, table)
        if columns is None or not set(POSITION) <= columns.keys():
            continue
        told = [one for one in EVIDENCE if len(link.outputs) == 1 and one in columns]
        # A former version marked a RESTORE that it had not made yet by a row of nothing but nulls.
        rows = read_table(spark, table).where(f"NOT ({' AND '.join(f'`{one}` IS NULL' for one in columns)})")
        rows = rows.select(*POSITION, *told)
        now = rows if now is None else now.unionAll(rows)
        former = read_at(spark, environment, name, version).select(*POSITION)
        then = former if then is None else then.unionAll(former)
    return None if now is None or then is None else not_in(now, then)
