"""retire: a query that nobody needs any more. Its checkpoint is moved aside; its tables stay, or are emptied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.describe_run import plan_command
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.other_writers import name_other_writers
from surestart.remedies.basis.plan import REMOVE_ROWS, Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, as_preconditions, read_link, refuse_unwritable
from surestart.remedies.planning.estimate import number, undo_until
from surestart.remedies.planning.make_plan import IN_PLACE, move_aside
from surestart.remedies.planning.plan_sinks import plan_database, plan_own_sink
from surestart.remedies.planning.wanted import Request


def plan_retire(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, clear_tables: bool, request: Request
) -> Plan:
    link = chain.link(stage)
    facts = read_link(link, spark)
    readers = [one.query for one in chain.below(stage)[1:]]
    if clear_tables and readers:
        raise Refused(
            f"{', '.join(readers)} read the tables of {link.query}",
            meaning="Emptied, they would stop those streams. Nothing was planned.",
            next=plan_command(environment, "retire", stage, note="its tables stay"),
            code="TablesAreRead",
        )
    if clear_tables:
        refuse_unwritable([facts])
    steps, effects = [], []
    for name, table in facts.tables.items():
        action = REMOVE_ROWS if clear_tables else "stays as it is"
        effects.append(Effect(name, action, table.rows, table.files, table.size))
        if clear_tables:
            arguments = {"table": name, "version": table.version, "keeps": False}
            steps.append(Step.of("clear", name, f"remove all rows from {name}", stage, arguments))
    for sink in link.databases:
        effect, step = plan_database(link, sink, None)
        effects.append(effect if clear_tables else replace(effect, action="stays as it is", rows=None))
        steps += [step] if clear_tables else []
    for own in link.own_sinks:
        effect, step = plan_own_sink(environment, link, own, keeps=False)
        effects.append(effect if clear_tables else replace(effect, action="stays as it is", rows=None))
        steps += [step] if clear_tables else []
    effect, step = move_aside(facts)
    effects.append(effect)
    steps.append(step)
    starts = {stage: {"kept": False, "caught_up": False}}
    steps.append(Step.of("start", "", f"write down that {link.query} is retired", arguments={"starts": starts}))
    return Plan(
        remedy="retire",
        stage=stage,
        method=IN_PLACE,
        **request.of_plan(environment),
        touched=(stage,),
        preconditions=as_preconditions([facts]),
        steps=tuple(steps),
        effects=tuple(effects),
        statements=(
            f"{link.query} is not started again; take it out of its schedule and out of the pipeline.",
            *(_emptied(spark, effects, facts) if clear_tables else ["Its tables stay as they are."]),
        ),
        undo=undo_until([facts]),
    )


def _emptied(spark: SparkSession, effects: Sequence[Effect], facts: LinkFacts) -> list[str]:
    gone = ", ".join(
        f"{number(effect.rows)} rows of {effect.target}" for effect in effects if effect.action == REMOVE_ROWS
    )
    return [
        f"{gone}: removed for good, whoever wrote them. No stage writes them again; only the undo gives them back.",
        "The tables stay as tables.",
        *name_other_writers(spark, [facts]),
    ]
