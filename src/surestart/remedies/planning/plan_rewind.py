"""rewind: back to batch N, with the state and the positions of N. The table by RESTORE, the checkpoint by one that is
made of Spark's own entries up to N, put in the place of the one in use.

    --to-batch N   the last batch that stays
    --to-time T    the newest batch that was written at T or before

Each stage below goes back to its newest batch that has read nothing of what is taken back, so that the chain goes on
from one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.cut import Cut
from surestart.facts.checkpoint.state_operator import DEFAULT_STORE
from surestart.facts.state.compare_rows import RowsGivenUp
from surestart.history.describe_run import plan_command
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_runs
from surestart.journal.journal import read_journals
from surestart.journal.protocol import RESTORE
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import DECLARED, Chain, Link, Output, read_again_command
from surestart.remedies.basis.plan import REMOVE_ROWS, Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, as_preconditions, read_link, refuse_unwritable
from surestart.remedies.loss.loss import Loss
from surestart.remedies.loss.rewind_loss import counts_by_position, find_rewind_loss
from surestart.remedies.planning.estimate import (
    CERTIFY,
    check_loss,
    describe_cheaper,
    describe_rebuild,
    number,
    run_steps,
    size_of_tables,
    undo_until,
)
from surestart.remedies.planning.make_plan import IN_PLACE
from surestart.remedies.planning.rewind_back import RewindPoint, back_below, back_to
from surestart.remedies.planning.rewind_choice import (
    Chosen,
    RewindTo,
    StreamNow,
    bounding,
    choose_batch,
    read_stream_now,
)
from surestart.remedies.planning.rewind_table import (
    BEFORE_THE_FIRST,
    RewindBound,
    file_not_looked_for,
    kept_batches,
    source_bound,
)
from surestart.remedies.planning.wanted import Request
from surestart.words.amounts import size_text
from surestart.words.inert import inert


@dataclass(frozen=True)
class _Rewind:
    """now: the stream whose batch was asked for.
    back: where it goes back to, then each stage below that has a batch.
    idle: the stages below that have none.
    declared: streams that surestart does not start."""

    now: StreamNow
    chosen: Chosen
    back: tuple[RewindPoint, ...]
    idle: tuple[LinkFacts, ...]
    loss: Loss
    declared: bool

    @property
    def facts(self) -> list[LinkFacts]:
        return [*(one.facts for one in self.back), *self.idle]


def plan_rewind(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, to: RewindTo, request: Request
) -> Plan:
    links = chain.below(stage)
    declared = any(output.role == DECLARED for output in links[0].outputs)
    if declared:
        _refuse_declared_readers(environment, links)
    _refuse_databases(environment, links)
    facts = [read_link(link, spark) for link in links]
    refuse_unwritable(facts)
    journals, runs = read_journals(environment, spark), read_runs(environment, spark)
    now = read_stream_now(spark, facts[0], journals)
    chosen = choose_batch(environment, now, to)
    back, idle = [back_to(spark, environment, now, chosen.batch)], list[LinkFacts]()
    for one in facts[1:]:
        found = back_below(spark, environment, one, back, journals)
        if found is None:
            idle.append(one)
        else:
            back.append(found)
    versions = {name: version for one in back for name, version in one.versions.items()}
    loss = find_rewind_loss(spark, environment, links, versions)
    check_loss(Loss(loss.rows, loss.why, of_stage=loss.of_stage), request, "rewind", environment, stage, keeps=False)
    steps = _steps(back)
    if request.run and not declared:
        steps += run_steps(links, environment, runs)
        steps.append(CERTIFY)
    rewind = _Rewind(now, chosen, tuple(back), tuple(idle), loss, declared)
    return Plan(
        remedy="rewind",
        stage=stage,
        method=IN_PLACE,
        **request.of_plan(environment),
        touched=tuple(link.name for link in links),
        preconditions=as_preconditions(facts),
        steps=tuple(steps),
        effects=tuple(effect for one in back for effect in _effects(one)),
        state=tuple(store for one in back for store in one.state),
        statements=tuple(_statements(spark, environment, rewind, runs)),
        loss=loss.rows,
        accepted_loss=request.accept_loss or 0,
        undo=undo_until(facts),
    )


def _statements(
    spark: SparkSession, environment: Environment, rewind: _Rewind, runs: Sequence[RunRecord]
) -> Iterator[str]:
    now, back, declared = rewind.now, rewind.back, rewind.declared
    stage, batch = now.link.name, rewind.chosen.batch
    if rewind.chosen.by_time:
        yield rewind.chosen.by_time
    for one in back:
        yield from describe_back(one)
    yield from (f"{one.link.query} has no batch yet: it stays as it is." for one in rewind.idle)
    sources = now.link.stage.declare(environment).sources
    of_source = source_bound(now.storage, now.checkpoint, sources, kept_batches(now.checkpoint))
    yield describe_bounds(stage, (*rewind.chosen.bounds, *([of_source] if of_source else [])))
    by_position = counts_by_position(spark, now.link)
    unseen = file_not_looked_for(now.storage, now.checkpoint, batch)
    yield describe_loss(rewind.loss, by_position, unseen, back[0].not_asked)
    if by_position and not declared and not any(one.facts.checkpoint.state.operators for one in back):
        other = plan_command(environment, "replay", stage, "--from-batch", batch + 1)
        copied, searched = sum(map(_copied, back)), sum(map(size_of_tables, rewind.facts))
        yield describe_cheaper(other, copied=copied, searched=searched, rewinds=True)
    for one in back:
        yield from describe_rebuild(one.facts, runs, _going(one))
    if declared:
        yield (
            f"{stage} is not surestart's: stop it first, see that no schedule starts it, and start it as its owner "
            "does afterwards."
        )
    yield "Any other stream that reads these tables stops at the RESTORE, unless it skips change commits."


def _going(one: RewindPoint) -> int | None:
    """How many rows leave the stage's tables; None: not known."""
    counts = [count for count in one.rows.values() if count is not None]
    return sum(counts) if len(counts) == len(one.rows) else None


def _copied(one: RewindPoint) -> int:
    return one.facts.manifest.size + (one.cut.size if one.cut is not None else 0)


def _refuse_declared_readers(environment: Environment, links: Sequence[Link]) -> None:
    """A stream whose code is not ours cannot be told to pass over the RESTORE."""
    if len(links) < 2:
        return
    top, readers = links[0], ", ".join(link.query for link in links[1:])
    direct = next(link.query for link in links[1:])
    raise Refused(
        f"{readers} read the table of {top.query}, and {'is' if len(links) == 2 else 'are'} declared only",
        meaning="A stream whose code is not surestart's cannot be told to pass over what a RESTORE takes back: it "
        "would read those rows all the same, and stop at the RESTORE. Nothing was planned.",
        next=plan_command(
            environment,
            "retire",
            direct,
            note="then take it out of surestart.toml, rewind, declare it again and let it begin anew",
        ),
        do_not="restore the table by hand under them.",
        code="TablesAreRead",
    )


def _refuse_databases(environment: Environment, links: Sequence[Link]) -> None:
    for link in links:
        names = [f"PostgreSQL {sink.target}" for sink in link.databases] + [own.label for own in link.own_sinks]
        if names:
            raise Refused(
                f"{link.query} writes to {', '.join(names)}, which keeps no former versions",
                meaning="Only a Delta table can go back to what it held at a batch. Nothing was planned.",
                next=read_again_command(environment, links, "from the batch that is wrong"),
                code="DatabaseOnly",
            )


def _steps(back: Sequence[RewindPoint]) -> list[Step]:
    restores, rewinds = [], []
    for one in back:
        for output in one.link.outputs:
            if output.table.name in one.versions:
                restores.append(_restore(one, output))
        rewinds.append(_put_aside(one) if one.cut is None else _rewind(one, one.cut))
    starts = {one.link.name: {"as_before": True} for one in back}
    line = (
        f"write down that {', '.join(one.link.query for one in back)} {'go' if len(back) > 1 else 'goes'} on from there"
    )
    return [*reversed(restores), *reversed(rewinds), Step.of("start", "", line, arguments={"starts": starts})]


def _put_aside(one: RewindPoint) -> Step:
    what = f"move the checkpoint of {one.link.query} aside: it begins anew, as it did before its first batch"
    return Step.of("retire", one.link.name, what, one.link.name, {"manifest": one.facts.manifest.digest})


def _rewind(one: RewindPoint, cut: Cut) -> Step:
    what = (
        f"put a checkpoint of {one.link.query} that ends with batch {one.batch} ({len(cut.copied) + 1} files, "
        f"{size_text(cut.size)}) in the place of the one in use"
    )
    arguments = {
        "manifest": one.facts.manifest.digest,
        "batch": one.batch,
        "query_id": one.query_id,
        "former": one.ids[0],
        "findings": list(one.findings),
    }
    return Step.of("rewind", one.link.name, what, one.link.name, arguments)


def _restore(one: RewindPoint, output: Output) -> Step:
    name = output.table.name
    table, to = one.facts.tables[name], one.versions[name]
    when = "before its first batch" if one.cut is None else f"at batch {one.batch}"
    what = f"give {name} what it held {when}: version {to} of {table.version}"
    arguments = {
        "table": name,
        "version": table.version,
        "to": to,
        "batch": one.batch,
        "query_id": one.query_id,
        "step": "",
    }
    return Step.of(RESTORE, name, what, one.link.name, arguments)


def _effects(one: RewindPoint) -> list[Effect]:
    found = []
    for name in one.versions:
        table = one.facts.tables[name]
        found.append(Effect(name, REMOVE_ROWS, one.rows[name], None, table.size))
    files, size = len(one.facts.manifest.files), one.facts.manifest.size
    return [*found, Effect(one.link.checkpoint, "move aside" if one.cut is None else "replace", None, files, size)]


def describe_back(one: RewindPoint) -> list[str]:
    checkpoint = one.facts.checkpoint
    taken = f"batch {one.planned} is" if one.planned > one.batch else "no batch is"
    if one.planned > one.batch + 1:
        taken = f"batches {one.batch + 1} to {one.planned} are"
    tables = ", ".join(
        f"{number(rows)} rows of {name} (version {one.versions[name]} of {one.facts.tables[name].version})"
        for name, rows in one.rows.items()
    )
    where = "to before its first batch" if one.cut is None else f"to batch {one.batch}"
    lines = [f"{one.link.query} goes back {where}; {taken} taken back: {tables or 'no table'}."]
    if checkpoint.state.operators and one.cut is not None:
        names = ", ".join(operator.name or f"operator {operator.id}" for operator in checkpoint.state.operators)
        lines.append(
            f"Its state ({names}) is that of batch {one.batch}, version {one.batch + 1}; what later batches made of "
            f"it, up to version {one.planned + 1}, is given up."
        )
    lines += [describe_given_up(store) for store in one.state]
    lines += one.of_others
    if one.cut is not None and one.cut.left_out:
        lines.append(f"Not taken along, because Spark did not make it: {', '.join(one.cut.left_out[:5])}.")
    return lines


def describe_given_up(store: RowsGivenUp) -> str:
    name = f"{store.name or 'state'} of {store.query} (operator {store.operator})"
    name += f", store {store.store}" if store.store != DEFAULT_STORE else ""
    if store.batch == BEFORE_THE_FIRST:
        return f"Rows of {name}: {_counted(store.rows)} now; all of them are given up."
    said = f"Rows of {name}: {_counted(store.rows)} now, {_counted(store.then)} at batch {store.batch}"
    if store.came is None or store.changed is None or store.back is None:
        return f"{said}."
    return f"{said}. Since then {store.came:,} came, {store.changed:,} changed and {store.back:,} went: given up."


def _counted(rows: int | None) -> str:
    """Where no file says how many rows there are, it is not 0."""
    return "not counted" if rows is None else f"{rows:,}"


def describe_bounds(stage: str, bounds: Sequence[RewindBound]) -> str:
    told = "; ".join(f"{bound.what}: batch {bound.oldest}" for bound in bounds if bound.oldest is not None)
    return f"How far back {stage} can go: {bounding(bounds) or 'not known'} ({told})."


def describe_loss(loss: Loss, by_position: bool, not_looked_for: str = "", not_asked: Sequence[str] = ()) -> str:
    """not_looked_for: a file that is to be read again, and may be gone for all that is known. not_asked: sources that
    may not give again what was read, for all that is known."""
    if not_looked_for and not by_position:
        return (
            "Its rows have no positions: whether each comes again is not counted, and nobody has looked whether its "
            f"files are still there, such as {inert(not_looked_for, 300)}: look before you apply this."
        )
    if not_asked and not by_position:
        return (
            "Its rows have no positions: whether each comes again is not counted, and nobody could be asked whether "
            f"its source still has them ({inert('; '.join(not_asked), 400)}): check it before you apply this."
        )
    if not by_position:
        return "Its rows have no positions: whether each comes again is not counted; its source still reaches back."
    if loss.rows:
        return f"{loss.rows:,} rows are lost for ever: {loss.why}"
    return "Every row that is taken back comes again."
