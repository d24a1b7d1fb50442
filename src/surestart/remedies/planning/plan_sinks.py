"""The steps of a plan that clear the sinks of a stage beside its Delta tables: a PostgreSQL table, or a sink of your
own, which takes out all that it holds."""

from __future__ import annotations

from dataclasses import replace

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.describe_run import plan_command
from surestart.library_types import DataFrame
from surestart.remedies.basis.chain import EVERY_ROW, GOOD, Link, OwnSink
from surestart.remedies.basis.database_facts import count_going, read_database, read_marks
from surestart.remedies.basis.plan import REMOVE_ROWS, REPLACE_ROWS, Effect, Step
from surestart.sinks.postgres.sink import PostgresSink
from surestart.typed import surestart


def plan_database(link: Link, sink: PostgresSink, kept: DataFrame | None) -> tuple[Effect, Step]:
    """kept: which rows stay, None for none. Raises Refused where it cannot be said which rows those are."""
    if kept is not None:
        _refuse_unknown(link, sink)
    facts = read_database(sink)
    rows = count_going(sink, None if kept is None else read_marks(kept)) if facts.exists else 0
    arguments = {
        "target": sink.target,
        "place": sink.url.label,
        "exists": facts.exists,
        "keeps": kept is not None,
        "rows": rows,
    }
    what = f"remove {rows:,} of {facts.rows:,} rows from PostgreSQL {sink.target} ({sink.url.label})"
    step = Step.of("database", sink.target, what, link.name, arguments)
    return Effect(f"postgres {sink.target}", REMOVE_ROWS, rows, None, facts.size), step


def plan_database_swap(link: Link, sink: PostgresSink) -> tuple[Effect, Step]:
    """The step by which the database gets the rows that were filled into the stage's Delta table beside."""
    effect, step = plan_database(link, sink, None)
    mirror = link.mirror_of(sink)
    assert mirror is not None
    what = f"put the new content in the place of {step.arguments['rows']:,} rows of PostgreSQL {sink.target}"
    arguments = {**step.arguments, "beside": mirror.table.name}
    return replace(effect, action=REPLACE_ROWS), replace(step, what=f"{what} ({sink.url.label})", arguments=arguments)


def _refuse_unknown(link: Link, sink: PostgresSink) -> None:
    row_by_row = any(output.role in (EVERY_ROW, GOOD) for output in link.outputs)
    if sink.mode == "append":
        if row_by_row:
            return
        why = "gets every row of a batch, and no Delta table of the stage says which rows it has"
    else:
        if row_by_row or link.input is not None:
            return
        why = "keeps one row per key, and no table keeps the readings that were replaced"
    raise Refused(
        f"{link.query}: PostgreSQL {sink.target} {why}",
        meaning="Which rows have to stay there cannot be told. Nothing was planned.",
        next=surestart("plan", "reset", link.name, "-o", "plan.json", note="all of it, from the beginning"),
        code="DatabaseOnly",
    )


def plan_own_sink(environment: Environment, link: Link, own: OwnSink, keeps: bool) -> tuple[Effect, Step]:
    """keeps: some rows are to stay. A sink of your own can only give up all of them, so that is refused."""
    if keeps:
        raise Refused(
            f"{link.query} writes to {own.label}, which is cleared as a whole or not at all",
            meaning="Some of its rows must stay. Nothing was planned.",
            next=plan_command(environment, "reset", link.name, note="all of it, from the beginning"),
            code="SinkClearedWhole",
        )
    held = own.sink.read_holdings(environment)
    rows = "?" if held.rows is None else f"{held.rows:,}"
    what = f"have {own.label} take out all it holds: {rows} rows"
    step = Step.of("sink", own.target, what, link.name, {"sink": own.target, "exists": bool(held.id)})
    return Effect(own.label, REMOVE_ROWS, held.rows, None, held.size), step
