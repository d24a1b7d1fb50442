"""From "which rows stay" to a plan: effects, losses, steps and what they mean, for the stage and all below it.

stage           its rows at or above the marks go; its checkpoint is retired; it begins at the marks
stages below    their rows that came from those go too; a keyed table gets its former readings back
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.history.describe_run import plan_command
from surestart.history.run_table import read_runs
from surestart.journal.protocol import KEEP
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Chain, Link
from surestart.remedies.basis.other_writers import name_other_writers
from surestart.remedies.basis.plan import REMOVE_ROWS, Effect, Plan, Step, steps_of_kind
from surestart.remedies.basis.preconditions import (
    LinkFacts,
    TableFacts,
    as_preconditions,
    read_link,
    read_table_facts,
    refuse_unwritable,
)
from surestart.remedies.basis.rows_that_stay import (
    KEEP_NOTHING,
    NOTHING,
    PROCESSED,
    StayRule,
    find_stay_marks,
    removed_rows,
    summarize_marks,
)
from surestart.remedies.basis.same_topic import recorded_topic, refuse_other_topic
from surestart.remedies.loss.find_loss import begin_loss_search, find_loss, hidden_below, together
from surestart.remedies.loss.loss import Loss, LossSearch
from surestart.remedies.planning.estimate import (
    CERTIFY,
    check_loss,
    describe_plan,
    number,
    run_steps,
    undo_until,
    without,
)
from surestart.remedies.planning.plan_sinks import plan_database, plan_own_sink
from surestart.remedies.planning.wanted import Request
from surestart.spark.delta_table import read_columns, read_table

IN_PLACE = "in-place"


def plan_in_place(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    remedy: str,
    stage: str,
    rule: StayRule,
    request: Request,
    intro: Sequence[str] = (),
) -> Plan:
    """Rows that do not stay are removed from the tables as they stand; Delta's time travel keeps them for an undo."""
    links = chain.below(stage)
    facts = [read_link(link, spark) for link in links]
    refuse_unwritable(facts)
    runs = read_runs(environment, spark)
    top = links[0]
    if plan_keeps_rows(rule):
        refuse_without_positions(spark, environment, top)
    topic = recorded_topic(runs, top, environment)
    refuse_other_topic(environment, top, find_stay_marks(spark, environment, rule), topic, "Nothing was planned.")
    found, rules, losses, starts = begin_loss_search(spark, environment, links, topic), {top.name: rule}, {}, {}
    for one in facts:
        name = one.link.name
        if name != stage:
            rules[name] = _rule_below(one, facts, rules, spark)
        rules[name], losses[name] = _spare(found, environment, remedy, one.link, rules[name], request)
        if plan_keeps_rows(rules[name]) and one.link.keyed:
            _refuse_columns_of_others(spark, environment, one)
    loss = together(list(losses.values()))
    check_loss(loss, request, remedy, environment, stage)
    steps, effects = _steps(spark, environment, facts, rules, losses)
    marks = {step.stage: step.arguments["sha256"] for step in steps_of_kind(steps, KEEP)}
    for one in facts:
        keeps = plan_keeps_rows(rules[one.link.name])
        below_top = one.link.name != stage
        starts[one.link.name] = {"kept": keeps, "caught_up": below_top and _is_caught_up(one, facts, marks, spark)}
    steps.append(Step.of("start", "", _start_line(links), arguments={"starts": starts}))
    if request.run:
        steps += run_steps(links, environment, runs)
        steps.append(CERTIFY)
    return Plan(
        remedy=remedy,
        stage=stage,
        method=IN_PLACE,
        **request.of_plan(environment),
        touched=tuple(link.name for link in links),
        preconditions=as_preconditions(facts),
        steps=tuple(steps),
        effects=tuple(effects),
        statements=(*intro, *describe_plan(facts, runs, loss, effects), *name_other_writers(spark, facts)),
        loss=loss.rows,
        accepted_loss=request.accept_loss or 0,
        undo=undo_until(facts),
    )


def plan_keeps_rows(rule: StayRule) -> bool:
    return rule.kind != NOTHING or bool(rule.at_least)


def _spare(
    found: LossSearch, environment: Environment, remedy: str, link: Link, rule: StayRule, request: Request
) -> tuple[StayRule, Loss]:
    """Which rows of the stage stay, and which are lost with the others. With --keep-lost, rows that would be lost
    stay."""
    if plan_keeps_rows(rule):
        refuse_without_positions(found.spark, environment, link)
    kept = find_stay_marks(found.spark, environment, rule) if plan_keeps_rows(rule) else None
    loss = find_loss(found, link, kept)
    if not loss.of_stage or not request.keep_lost:
        return rule, loss
    hidden = hidden_below(found, link, loss.marks) if loss.marks else 0
    if hidden or not loss.marks:
        why = f"{hidden:,} rows of its input that it has not read are below them" if hidden else loss.why
        raise _cannot_keep(environment, remedy, link, replace(loss, why=why), request)
    least = {source: dict(parts) for source, parts in rule.at_least.items()}
    for source, parts in loss.marks.items():
        known = least.setdefault(source, {})
        known.update({part: max(mark, known.get(part, 0)) for part, mark in parts.items()})
    rule = replace(rule, at_least=least)
    found.keep(link, find_stay_marks(found.spark, environment, rule))
    return rule, Loss(why=loss.why)


def refuse_without_positions(spark: SparkSession, environment: Environment, link: Link) -> None:
    for output in link.outputs:
        columns = read_columns(spark, output.table)
        missing = [] if columns is None else [name for name in POSITION if name not in columns]
        if missing:
            raise Refused(
                f"{output.table.name} has no column {', '.join(missing)}",
                meaning="Which of its rows are to be read again cannot be told. Nothing was planned.",
                next=plan_command(environment, "reset", link.name, note="all of it, from the beginning"),
                code="TableWithoutPositions",
            )


def _refuse_columns_of_others(spark: SparkSession, environment: Environment, one: LinkFacts) -> None:
    """Raises where a former reading could not be written with every column of its table."""
    link = one.link
    if link.input is None or read_columns(spark, link.input) is None:
        return
    given = link.stage.transform(read_table(spark, link.input)).columns
    for table in one.tables.values():
        columns = read_columns(spark, table.table) or {}
        others = [name for name in columns if name not in given and name not in table.generated]
        if others:
            raise Refused(
                f"{table.table.label} has {len(others)} columns that {link.query} does not write: {', '.join(others)}",
                meaning="A row that comes back is written whole, and nothing says what it would hold there. Nothing "
                "was planned.",
                next=plan_command(environment, "reset", link.name, note="every row anew, without values in them"),
                do_not="drop the column: streams that read the table would stop.",
                code="ColumnsOfOthers",
            )


def _rule_below(
    one: LinkFacts, facts: Sequence[LinkFacts], rules: Mapping[str, StayRule], spark: SparkSession
) -> StayRule:
    """What stays in a stage below: no more than what stays above it, and no more than it has completely processed."""
    link = one.link
    above = rules[link.upstream]
    if not plan_keeps_rows(above):
        return KEEP_NOTHING
    if link.keyed:
        return above
    assert link.input is not None
    return StayRule(
        PROCESSED,
        held={name: table.version for name, table in one.tables.items()},
        given={link.input.name: _input_facts(one, facts, spark).version},
        within=above.as_dict(),
    )


def _input_facts(one: LinkFacts, facts: Sequence[LinkFacts], spark: SparkSession) -> TableFacts:
    assert one.link.input is not None
    for other in facts:
        if one.link.input.name in other.tables:
            return other.tables[one.link.input.name]
    return read_table_facts(spark, one.link.input)


def _is_caught_up(one: LinkFacts, facts: Sequence[LinkFacts], marks: Mapping[str, str], spark: SparkSession) -> bool:
    """The stage has committed everything that its input holds, and keeps as much of it as the stage above: after the
    clearing there is nothing old left to read."""
    if marks.get(one.link.name) != marks.get(one.link.upstream):
        return False
    if one.checkpoint.in_flight is not None or not one.checkpoint.sources:
        return False
    ends = [source.end for source in one.checkpoint.sources]
    version = _input_facts(one, facts, spark).version
    return all(isinstance(end, DeltaPosition) and not end.initial_snapshot and end.version > version for end in ends)


def _steps(
    spark: SparkSession,
    environment: Environment,
    facts: Sequence[LinkFacts],
    rules: Mapping[str, StayRule],
    losses: Mapping[str, Loss],
) -> tuple[list[Step], list[Effect]]:
    keep, clear, retire, effects = [], [], [], []
    for one in facts:
        link, rule = one.link, rules[one.link.name]
        kept, keeps, lost = find_stay_marks(spark, environment, rule), plan_keeps_rows(rule), losses[link.name].of_stage
        if keeps:
            summary = summarize_marks(kept.collect())
            arguments: dict[str, Any] = {"rule": rule.as_dict(), **summary}
            what = f"note what stays of {link.query}: {summary['marks']} partitions or files"
            keep.append(Step.of("keep", link.name, what, link.name, arguments))
        for name, table in one.tables.items():
            rows, in_files, in_bytes = _count_going(spark, table, kept if keeps else None)
            effects.append(Effect(name, REMOVE_ROWS, rows, in_files, in_bytes))
            what = f"remove {'?' if rows is None else format(rows, ',')} of {number(table.rows)} rows from {name}"
            arguments = {"table": name, "version": table.version, "keeps": keeps, "lost": lost}
            clear.append(Step.of("clear", name, what, link.name, arguments))
        for sink in link.databases:
            effect, step = plan_database(link, sink, kept if keeps else None)
            effects.append(effect)
            clear.append(replace(step, arguments={**step.arguments, "lost": lost}))
        for own in link.own_sinks:
            effect, step = plan_own_sink(environment, link, own, keeps)
            effects.append(effect)
            clear.append(replace(step, arguments={**step.arguments, "lost": lost}))
        effect, step = move_aside(one)
        effects.append(effect)
        retire.append(step)
    # From the last table to the first: a key's former reading is fetched from the table above it.
    return [*keep, *reversed(clear), *reversed(retire)], effects


def _count_going(spark: SparkSession, table: TableFacts, kept: DataFrame | None) -> tuple[int | None, int, int]:
    """Rows that go, and the files that they lie in with their bytes: removed, or written again without them."""
    from pyspark.sql import functions as F

    if not table.exists:
        return 0, 0, 0
    if kept is None:
        return table.rows, table.files, table.size
    place = F.col("_metadata.file_path").alias("file"), F.col("_metadata.file_size").alias("size")
    rows = read_table(spark, table.table).select("source", "partition", "offset", *place)
    by_file = removed_rows(rows, kept).groupBy("file").agg(F.count("*").alias("rows"), F.max("size").alias("size"))
    rows_of, files, size = by_file.agg(F.sum("rows"), F.count("*"), F.sum("size")).collect()[0]
    return int(rows_of or 0), int(files), int(size or 0)


def move_aside(one: LinkFacts, **more: Any) -> tuple[Effect, Step]:
    """A stage's checkpoint is moved aside. more: what else the step has to know."""
    link, files, size = one.link, len(one.manifest.files), one.manifest.size
    what = f"move the checkpoint of {link.query} aside: {batches_of(one)}{files} files, {size:,} bytes"
    step = Step.of("retire", link.name, what, link.name, {"manifest": one.manifest.digest, **more})
    return Effect(link.checkpoint, "move aside", None, files, size), step


def batches_of(one: LinkFacts) -> str:
    """The committed batches, for a line about a checkpoint; "" where there are none."""
    newest = one.checkpoint.latest_committed
    return "" if newest is None else f"{newest + 1:,} batch{'es' if newest else ''}, "


def _start_line(links: Sequence[Link]) -> str:
    return f"write down where {', '.join(link.query for link in links)} begin"


def _cannot_keep(environment: Environment, remedy: str, link: Link, loss: Loss, request: Request) -> UsageError:
    options = (*without(request.options, "--keep-lost"), "--accept-loss", loss.rows)
    return UsageError(
        f"--keep-lost: which rows of {link.query} to keep cannot be said by position: {loss.why}",
        meaning="Nothing was planned.",
        next=plan_command(environment, remedy, link.name, *options, note="if nobody needs them"),
        code="CannotKeepLost",
    )
