"""From "which rows stay" to a plan: effects, losses, steps and what they mean, for the stage and all below it.

stage           its rows at or above the marks go; its checkpoint is retired; it begins at the marks
stages below    their rows that came from those go too; a keyed table gets its former readings back
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from surestart.checkpoint.positions import DeltaPosition
from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.gate.identities import read_topic_id
from surestart.registry.read_runs import read_runs
from surestart.registry.run_record import RunRecord
from surestart.remedies.chain import Chain, Link
from surestart.remedies.journal import now
from surestart.remedies.kept import (
    KEEP_NOTHING,
    NOTHING,
    PROCESSED,
    KeptRule,
    find_kept,
    removed_rows,
    summarize_kept,
)
from surestart.remedies.plan import Effect, Plan, Step, environment_facts
from surestart.remedies.source_reach import Loss, find_loss
from surestart.remedies.world import LinkFacts, TableFacts, as_world, read_link, read_table_facts
from surestart.sinks.delta_table import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_PLACE = "in-place"


@dataclass(frozen=True)
class Request:
    """What was asked for, beside the remedy's own arguments."""

    settings: Mapping[str, str]
    pipeline: str = ""
    accept_loss: int | None = None
    keep_lost: bool = False
    run: bool = True


def plan_in_place(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    remedy: str,
    stage: str,
    rule: KeptRule,
    request: Request,
    intro: Sequence[str] = (),
) -> Plan:
    """Rows that do not stay are removed from the tables as they stand; Delta's time travel keeps them for an undo."""
    links = chain.below(stage)
    facts = [read_link(link, spark) for link in links]
    runs = read_runs(environment, spark)
    top = links[0]
    kept = find_kept(spark, environment, rule)
    loss = find_loss(spark, environment, top, kept, read_topic_id(_own(runs, top), top.stage.declare(environment)))
    if loss.rows and request.keep_lost:
        if not loss.marks:
            raise _cannot_keep(top, loss)
        rule = replace(rule, at_least={**rule.at_least, **loss.marks})
        kept, loss = find_kept(spark, environment, rule), Loss(why=loss.why)
    _check_loss(loss, request, remedy, stage)
    rules, starts = {top.name: rule}, {}
    for one in facts:
        if one.link.name != stage:
            rules[one.link.name] = _rule_below(one, facts, rules, spark)
    steps, effects = _steps(spark, environment, facts, rules)
    marks = {step.stage: step.arguments["sha256"] for step in steps if step.kind == "keep"}
    for one in facts:
        keeps = rules[one.link.name].kind != NOTHING or bool(rules[one.link.name].at_least)
        below_top = one.link.name != stage
        starts[one.link.name] = {"kept": keeps, "caught_up": below_top and _is_caught_up(one, facts, marks, spark)}
    steps.append(Step("start", "start", _start_line(links), arguments={"starts": starts}))
    if request.run:
        steps += [
            Step(f"run:{link.name}", "run", f"run {link.query} to the end of the data", link.name) for link in links
        ]
        steps.append(Step("certify", "certify", "count every row from the source to the last table"))
    return Plan(
        remedy=remedy,
        stage=stage,
        method=IN_PLACE,
        environment=environment_facts(environment),
        created_at=now(),
        touched=tuple(link.name for link in links),
        world=as_world(facts),
        steps=tuple(steps),
        effects=tuple(effects),
        statements=(*intro, *_statements(environment, facts, runs, loss, effects)),
        loss=loss.rows,
        accepted_loss=request.accept_loss or 0,
        undo=undo_until(facts),
        settings=dict(request.settings),
        pipeline=request.pipeline,
    )


def _rule_below(
    one: LinkFacts, facts: Sequence[LinkFacts], rules: Mapping[str, KeptRule], spark: SparkSession
) -> KeptRule:
    """What stays in a stage below: no more than what stays above it, and no more than it has completely processed."""
    link = one.link
    above = rules[link.upstream]
    if above.kind == NOTHING and not above.at_least:
        return KEEP_NOTHING
    if link.keyed:
        return above
    assert link.input is not None
    return KeptRule(
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
    spark: SparkSession, environment: Environment, facts: Sequence[LinkFacts], rules: Mapping[str, KeptRule]
) -> tuple[list[Step], list[Effect]]:
    keep, clear, retire, effects = [], [], [], []
    for one in facts:
        link, rule = one.link, rules[one.link.name]
        kept = find_kept(spark, environment, rule)
        keeps = rule.kind != NOTHING or bool(rule.at_least)
        if keeps:
            summary = summarize_kept(kept.collect())
            arguments: dict[str, Any] = {"rule": rule.as_dict(), **summary}
            what = f"note what stays of {link.query}: {summary['marks']} partitions or files"
            keep.append(Step(f"keep:{link.name}", "keep", what, link.name, arguments))
        for name, table in one.tables.items():
            rows = _count_going(spark, table, kept if keeps else None)
            effects.append(Effect(name, "remove rows", rows, table.files, table.size))
            what = f"remove {'?' if rows is None else format(rows, ',')} of {_number(table.rows)} rows from {name}"
            arguments = {"table": name, "version": table.version, "keeps": keeps}
            clear.append(Step(f"clear:{name}", "clear", what, link.name, arguments))
        for sink in link.databases:
            arguments = {"target": sink.target, "keeps": keeps}
            what = f"remove the same rows from PostgreSQL {sink.target}"
            effects.append(Effect(f"postgres {sink.target}", "remove rows"))
            clear.append(Step(f"database:{sink.target}", "database", what, link.name, arguments))
        files, size = len(one.manifest.files), one.manifest.size
        effects.append(Effect(link.checkpoint, "move aside", None, files, size))
        retire.append(
            Step(
                f"retire:{link.name}",
                "retire",
                f"move the checkpoint of {link.query} aside: {files} files, {size:,} bytes",
                link.name,
                {"manifest": one.manifest.digest},
            )
        )
    # From the last table to the first: a key's former reading is fetched from the table above it.
    return [*keep, *reversed(clear), *reversed(retire)], effects


def _count_going(spark: SparkSession, table: TableFacts, kept: DataFrame | None) -> int | None:
    if not table.exists:
        return 0
    if kept is None:
        return table.rows
    return removed_rows(read_table(spark, table.table), kept).count()


def _start_line(links: Sequence[Link]) -> str:
    return f"write down where {', '.join(link.query for link in links)} begin"


def _check_loss(loss: Loss, request: Request, remedy: str, stage: str) -> None:
    accepted = request.accept_loss
    if not loss.rows and not accepted:
        return
    if accepted is not None and accepted != loss.rows:
        raise Refused(
            f"--accept-loss {accepted} was given, {loss.rows:,} rows would be lost"
            + (f": {loss.why}" if loss.why else ""),
            meaning="The number has to be the one that is lost, so that nobody accepts a loss unseen. "
            "Nothing was planned.",
            next=f"surestart plan {remedy} {stage} --accept-loss {loss.rows}"
            if loss.rows
            else f"surestart plan {remedy} {stage}",
            code="LossNotNamed",
        )
    if accepted is None:
        raise Refused(
            f"{loss.rows:,} rows would be lost for ever: {loss.why}",
            meaning="They would be removed from the output, and the source cannot bring them again. "
            "Nothing was planned.",
            next=f"surestart plan {remedy} {stage} --keep-lost -o plan.json  # those rows stay as they are",
            do_not=f"accept it with --accept-loss {loss.rows} unless nobody needs them.",
            code="SourceLostRows",
        )


def _cannot_keep(link: Link, loss: Loss) -> UsageError:
    return UsageError(
        f"--keep-lost: which rows of {link.query} to keep cannot be said by position: {loss.why}",
        meaning="Nothing was planned.",
        next=f"surestart plan replay {link.name} --accept-loss {loss.rows}",
        code="CannotKeepLost",
    )


def _statements(
    environment: Environment,
    facts: Sequence[LinkFacts],
    runs: Sequence[RunRecord],
    loss: Loss,
    effects: Sequence[Effect],
) -> list[str]:
    lines = []
    lines.append(
        f"{loss.rows:,} rows are lost for ever: {loss.why}"
        if loss.rows
        else "The source still has every row that is removed."
        if not loss.why
        else f"Rows that the source no longer has stay: {loss.why}."
    )
    for one in facts:
        if one.link.stage.state:
            lines.append(f"{one.link.query} loses its state: {', '.join(one.link.stage.state)}.")
        seconds = _expected(one, runs)
        removed = [effect.rows for effect in effects if effect.action == "remove rows" and effect.target in one.tables]
        if seconds is not None and all(count is not None for count in removed):
            rows = sum(count or 0 for count in removed)
            lines.append(f"{one.link.query}: about {_duration(rows / seconds)} for {rows:,} rows, by its last runs.")
        else:
            lines.append(f"{one.link.query}: how long it takes is not known; no run of it is in the history.")
    if len(facts) > 1:
        below = ", ".join(one.link.query for one in facts[1:])
        lines.append(f"{below}: stopped first, restarted last; a stage below another begins behind its clearing.")
    lines.append("Any other stream that reads these tables stops at the removal, unless it skips change commits.")
    return lines


def _expected(one: LinkFacts, runs: Sequence[RunRecord]) -> float | None:
    """Rows a second of the stage's last runs that had something to do."""
    done = [run for run in _own(runs, one.link) if run.rows and run.ended_at and run.ended_at > run.started_at][-5:]
    if not done:
        return None
    return sum(run.rows for run in done) / (sum((run.ended_at or 0) - run.started_at for run in done) / 1000)


def _own(runs: Sequence[RunRecord], link: Link) -> list[RunRecord]:
    return [run for run in runs if run.query == link.query]


def undo_until(facts: Sequence[LinkFacts]) -> str:
    """Until when the removed rows can come back."""
    days = [table.deleted_file_retention / 86_400_000 for one in facts for table in one.tables.values() if table.exists]
    shortest = min((day for day in days if day), default=7.0)
    until = datetime.datetime.fromtimestamp(now() / 1000, datetime.UTC) + datetime.timedelta(days=shortest)
    return (
        f"possible until a VACUUM deletes the removed files (by these tables' settings not before "
        f"{until:%Y-%m-%d %H:%M} UTC) or `surestart prune` the retired checkpoints"
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _number(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"
