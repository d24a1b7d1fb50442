"""The sinks of a stage that a backfill can write to, one by one.

Those that say how (`fill_once`), and PostgreSQL tables, whose rows are committed together with a row of their ledger.

A stage with state gets no backfill: from the rows of a hole alone it would compute something else than it did in the
stream. Nor does a stage above one that has not read its table since a remedy: that one passes over every row below its
marks, so it would pass over the new rows too."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.stage_progress import read_stage_progress
from surestart.history.describe_run import named
from surestart.journal.journal import read_journals
from surestart.journal.stage_start import find_start, in_first_snapshot
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import POSITION, QUARANTINE, Chain, Link, read_again_command
from surestart.remedies.basis.database_facts import read_column_names
from surestart.sinks.abilities import databases_of, fillable, parts_of
from surestart.typed import surestart


def sinks_of(sink: object) -> list[object]:
    """Databases last: they get their rows from the stage's Delta table."""
    return sorted(parts_of(sink), key=lambda part: bool(databases_of(part)))


def refuse_unknown_sinks(link: Link, environment: Environment) -> None:
    """Raises Refused where which rows are missing, or what they would be, cannot be told."""
    sinks = sinks_of(link.stage.sink)
    splits = any(output.role == QUARANTINE for output in link.outputs)
    known = all(fillable(sink) or databases_of(sink) for sink in sinks)
    if not known or link.own_sinks or (splits and len(sinks) > 1):
        raise _refused(link, environment, f"writes to a {type(link.stage.sink).__name__}, which no backfill can write")
    for database in link.databases:
        if database.mode == "append":
            missing = [column for column in POSITION if column not in read_column_names(database)]
            if missing:
                what = f"writes every row to {database.target}, which has no column {', '.join(missing)}"
                raise _refused(link, environment, what)
    if link.stage.state:
        kept = ", ".join(link.stage.state)
        raise _refused(link, environment, f"keeps state ({kept}), which was made without the missing rows")


def _refused(link: Link, environment: Environment, what: str) -> Refused:
    return Refused(
        f"{link.query} {what}",
        meaning="Which rows are missing, or what they would have been, cannot be told. Nothing was planned.",
        next=read_again_command(environment, [link], "or --from-positions, for the partitions that lack rows"),
        code="BackfillNotOffered",
    )


def refuse_unread_begin(spark: SparkSession, environment: Environment, chain: Chain, stage: str) -> None:
    """Raises where a stage below would leave out rows that are written into its table now."""
    journals = read_journals(environment, spark)
    for link in chain.below(stage)[1:]:
        start = find_start(journals, link.name)
        if start is not None and start.kept and in_first_snapshot(read_stage_progress(link.checkpoint)):
            raise Refused(
                f"{link.query} has not yet read its table once since its last remedy ({start.digest[:12]})",
                meaning="Rows that are written below its marks now would be left out. Nothing was written.",
                next=surestart("run", link.name, place=named(environment)),
                code="BeginNotReached",
            )
