"""reset: a stage is rebuilt from the beginning, and with it every stage below.

reset --beside: new tables are filled while readers and streams keep the old ones, and swapped when the count holds.

    fill     each stage, from the beginning of its source, into tables and checkpoints of its own    the stages may run
    check    lost 0, duplicated 0, or nothing happens                                   from here on they stand still
    swap     each table's content, in one commit; that of a PostgreSQL table in one transaction
    retire, start, run, certify      as in place; the first stage begins where its new output ends
    drop     what was filled beside

What the plan names of tables and checkpoints is who they are, not how far they have come: the stages go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surestart.environment import Environment
from surestart.errors import UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.history.describe_run import plan_command
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_runs
from surestart.library_types import SparkSession
from surestart.remedies.basis.beside import BESIDE, read_beside
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.other_writers import name_other_writers
from surestart.remedies.basis.plan import REPLACE_ROWS, Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, as_identities, read_link, refuse_unwritable
from surestart.remedies.basis.rows_that_stay import KEEP_NOTHING
from surestart.remedies.basis.same_topic import recorded_topic
from surestart.remedies.loss.find_loss import begin_loss_search, find_loss, together
from surestart.remedies.loss.loss import Loss
from surestart.remedies.planning.estimate import CERTIFY, check_loss, describe_rebuild, number, run_steps, undo_until
from surestart.remedies.planning.make_plan import plan_in_place
from surestart.remedies.planning.plan_sinks import plan_database_swap
from surestart.remedies.planning.wanted import Request
from surestart.sinks.postgres.sink import PostgresSink
from surestart.words.amounts import size_text


def plan_reset(spark: SparkSession, environment: Environment, chain: Chain, stage: str, request: Request) -> Plan:
    """Every row of the stage and of those below goes, and comes again from the source."""
    intro = ["Everything the stage has written is removed and read again from the beginning of its source."]
    return plan_in_place(spark, environment, chain, "reset", stage, KEEP_NOTHING, request, intro)


Swap = tuple[Effect, Step]


def plan_reset_beside(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, request: Request
) -> Plan:
    """Every row of the stage and of those below comes again from the source, and takes the place of the former ones."""
    _refuse_what_cannot(environment, chain, stage, request)
    links = chain.below(stage)
    facts = [read_link(link, spark, with_files=False) for link in links]
    refuse_unwritable(facts)
    runs = read_runs(environment, spark)
    top = links[0]
    topic = recorded_topic(runs, top, environment)
    found = begin_loss_search(spark, environment, links, topic)
    losses = {link.name: find_loss(found, link, None) for link in links}
    loss = together(list(losses.values()))
    check_loss(loss, request, "reset", environment, stage, keeps=False)
    databases = {sink: plan_database_swap(link, sink) for link in links for sink in link.databases}
    return Plan(
        remedy="reset",
        stage=stage,
        method=BESIDE,
        **request.of_plan(environment),
        touched=tuple(link.name for link in links),
        preconditions=as_identities(facts),
        steps=tuple(_steps(facts, databases, losses, run_steps(links, environment, runs) if request.run else [])),
        effects=(*_effects(facts), *(effect for effect, _ in databases.values())),
        statements=(*_statements(facts, databases, runs, loss), *name_other_writers(spark, facts)),
        loss=loss.rows,
        accepted_loss=request.accept_loss or 0,
        undo=undo_until(facts, behind="after the swap "),
    )


def _refuse_what_cannot(environment: Environment, chain: Chain, stage: str, request: Request) -> None:
    in_place = plan_command(environment, "reset", stage, note="clears in place")
    if request.keep_lost:
        raise UsageError(
            "--keep-lost does not go with --beside: what is filled from the source has no row that the source lacks",
            meaning="Nothing was planned.",
            next=plan_command(environment, "reset", stage, "--keep-lost", note="clears in place"),
            code="BesideNotOffered",
        )
    for link in chain.below(stage):
        if link.stage.state:
            raise UsageError(
                f"{link.query} keeps state ({', '.join(link.stage.state)}), which a swap of tables does not carry over",
                meaning="It would go on without what it knows of earlier rows. Nothing was planned.",
                next=in_place,
                code="BesideNotOffered",
            )
    # Names that are too long for a query, a database sink, a place that is not mounted: known before anything is done.
    own, beside = read_beside(environment, chain, stage, "0" * 64)
    for link in beside:
        local_folder(own.checkpoint(link.name))
        for output in link.outputs:
            if output.table.path:
                local_folder(output.table.path)


def _steps(
    facts: Sequence[LinkFacts],
    databases: Mapping[PostgresSink, Swap],
    losses: Mapping[str, Loss],
    run: Sequence[Step],
) -> list[Step]:
    links = [one.link for one in facts]
    top = links[0]
    names = ", ".join(link.query for link in links)
    steps = [
        Step.of("fill", link.name, f"fill the tables of {link.query} beside, to the end of the data", link.name)
        for link in links
    ]
    lost = {name: loss.of_stage for name, loss in losses.items()}
    what = "stages stand still: read what has arrived meanwhile, and count every row beside"
    steps.append(Step.of("check", "", what, arguments={"lost": lost}))
    if not top.keyed:
        steps.append(Step.of("mark", top.name, f"note where the new output of {top.query} ends", top.name))
    for one in reversed(facts):
        steps += [step for sink, (_, step) in databases.items() if sink in one.link.databases]
        steps += [
            Step.of("swap", name, f"put the new content in the place of {number(table.rows)} rows of {name}",
                 one.link.name, {"table": name})
            for name, table in reversed(list(one.tables.items()))
        ]  # fmt: skip
    steps += [
        Step.of("retire", link.name, f"move the checkpoint of {link.query} aside", link.name)
        for link in reversed(links)
    ]
    steps.append(Step.of("start", "", f"write down where {names} begin", arguments={"starts": _starts(links)}))
    if run:
        steps += [*run, CERTIFY]
    return [*steps, Step.of("drop", "", "drop what was filled beside")]


def _starts(links: Sequence[Link]) -> Mapping[str, Any]:
    """The first stage leaves out what its output holds; those below begin behind the swap of their input."""
    top = links[0]
    below = {link.name: {"kept": False, "caught_up": True} for link in links[1:]}
    return {top.name: {"kept": not top.keyed, "caught_up": False}, **below}


def _effects(facts: Sequence[LinkFacts]) -> list[Effect]:
    found = []
    for one in facts:
        for name, table in one.tables.items():
            found.append(Effect(name, REPLACE_ROWS, table.rows, table.files, table.size))
        found.append(Effect(one.link.checkpoint, "move aside"))
    return found


def _statements(
    facts: Sequence[LinkFacts], databases: Mapping[PostgresSink, Swap], runs: Sequence[RunRecord], loss: Loss
) -> list[str]:
    tables = [table for one in facts for table in one.tables.values()]
    size = size_text(sum(table.size for table in tables))
    lines = [
        "New tables are filled beside the old ones from the beginning of the source, and take the place of their "
        "content when every row is counted: lost 0, duplicated 0. Otherwise nothing is swapped.",
        f"{loss.rows:,} rows are lost for ever: {loss.why}" if loss.rows else "Every row that is replaced comes again.",
        "The stages may run while this is filled. For the count and the swap they have to stand still: one that is "
        "not stopped then is named, and apply goes on there when it is called again.",
        f"Extra space: about {size} beside until the end, and as much again until a VACUUM, because the former "
        "content stays for the undo.",
    ]
    lines += [
        f"PostgreSQL {sink.target}: its {effect.rows:,} rows are replaced in one transaction, and kept there for the "
        f"undo until `surestart prune`: about {size_text(effect.size or 0)}."
        for sink, (effect, _) in databases.items()
    ]
    for one in facts:
        rows = [table.rows for table in one.tables.values()]
        lines += describe_rebuild(one, runs, None if None in rows else sum(count or 0 for count in rows))
    top = facts[0].link
    if top.keyed:
        lines.append(f"{top.query} merges its input once more after the swap, which changes nothing.")
    lines.append("What was filled beside is dropped at the end, and by an undo.")
    lines.append("Any other stream that reads these tables stops at the swap, unless it skips change commits.")
    return lines
