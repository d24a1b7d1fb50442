"""What an undo would lose for ever: rows that arrived since the remedy. It takes them out, and the source may have no
more of them.

They are found one by one, by position against the version that comes back: a remedy may have filled a gap below the
highest offset of its partition. Of a table without positions the stage's own commits are made again, and no others.
"""

from __future__ import annotations

from functools import partial

from surestart.errors import Refused
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta.pinned import pin
from surestart.facts.evidence.sink_evidence import without_undone
from surestart.history.describe_run import named
from surestart.history.run_table import read_runs
from surestart.journal.commit_once import read_newest_commits
from surestart.journal.protocol import DATABASE, OWN_SINK, changes_content
from surestart.library_types import DataFrame
from surestart.remedies.basis.chain import POSITION, Link, Output
from surestart.remedies.basis.other_writers import find_strange_commits, tell_strange
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.rows_that_stay import read_at
from surestart.remedies.basis.same_topic import recorded_topic
from surestart.remedies.basis.step_context import StepContext, again
from surestart.remedies.loss.find_loss import begin_loss_search, together
from surestart.remedies.loss.loss import Loss, LossSearch, summarize
from surestart.remedies.loss.still_given import EVIDENCE
from surestart.remedies.steps.clear import version_before
from surestart.remedies.steps.database import find_undo_loss
from surestart.remedies.steps.sink import find_sink_undo_loss
from surestart.spark.delta_table import read_columns, read_table
from surestart.typed import surestart


def refuse_undo_loss(run: StepContext, accept_loss: int | None) -> None:
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
    losses = [_of_others(run, one, before) for one in links]
    elsewhere = any(one.id in run.journal.done for kind in (DATABASE, OWN_SINK) for one in run.plan.of_kind(kind))
    if not elsewhere and not any(loss.rows for loss in losses) and all(rows is None for rows in arrivals.values()):
        return
    found = begin_loss_search(run.spark, run.environment, links, topic)
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
            meaning="The undo removes them with everything the remedy brought, and the source cannot bring them "
            "again. Nothing was changed.",
            next=again(run, "undo").adding("--accept-loss", loss.rows).noting("if nobody needs them"),
            code="SourceLostRows",
        )


def _arrived_since(run: StepContext, link: Link, before: dict[str, int]) -> DataFrame | None:
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
    # A row without a position cannot be told from the former ones. After the undo there are as many of those as before.
    unplaced = "source IS NULL OR partition IS NULL OR offset IS NULL"
    if now.where(unplaced).count() <= then.where(unplaced).count():
        now = now.where(f"NOT ({unplaced})")
    return not_in(now, then)


def _of_others(run: StepContext, link: Link, before: dict[str, int]) -> Loss:
    """What somebody else has written since into the stage's tables without positions: by its commits alone."""
    losses = []
    for output in link.outputs:
        name, columns = output.table.name, read_columns(run.spark, output.table)
        newest = pin(run.spark, output.table).version
        if name not in before or columns is None or set(POSITION) <= columns.keys() or newest is None:
            continue
        # What a later rewind had written was taken back with its own undo, and was the stage's under another id.
        commits = without_undone(read_newest_commits(run.spark, output.table, max(newest - before[name], 1)))
        query_id = read_checkpoint(link.checkpoint, entries=1).query_id
        strange = find_strange_commits([one for one in commits if one.version > before[name]], link, query_id)
        if not strange:
            continue
        told = [commit.output_rows for commit in strange]
        # What a commit does not count may be every row there is.
        rows = sum(one for one in told if one is not None) if None not in told else _count(run, output)
        why = f"{name} has no columns {', '.join(POSITION)}, and {tell_strange(strange, link.query)}"
        losses += [Loss(rows, why, of_stage=rows)] if rows else []
    return together(losses)


def _count(run: StepContext, output: Output) -> int:
    return read_table(run.spark, output.table).count()


def _not_again(
    run: StepContext, found: LossSearch, link: Link, before: dict[str, int], rows: DataFrame
) -> DataFrame | None:
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


def _refuse_other_topic(run: StepContext, link: Link) -> str:
    """The id of the topic that the stage had read from before the remedy. Raises when it has read from another one
    since: the checkpoint that would come back means records of the former."""
    runs, began = read_runs(run.environment, run.spark), run.journal.first.at
    former = recorded_topic(runs, link, run.environment, before=began)
    latest = recorded_topic(runs, link, run.environment)
    if former and latest and former != latest:
        raise Refused(
            f"since the remedy {link.query} has read from another topic of the same name ({latest}, was {former})",
            meaning="The former checkpoint is at offsets of the former topic: the stage would leave out the new "
            "one's records up to there. Nothing was changed.",
            next=surestart("doctor", link.name, place=named(run.environment)),
            code="TopicReplaced",
        )
    return former
