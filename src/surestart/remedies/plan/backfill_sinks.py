"""The sinks of a stage that a backfill can write to, one by one.

DeltaAppend, DeltaSplit   rows whose position is missing, once under the backfill's identity
DeltaMerge                each row whose key has none, an older one or other values
PostgresSink              the same, by position or by key, committed together with its ledger row

A stage with state is not offered one: what it would make of the rows of a hole alone is not what they would have been.
"""

from __future__ import annotations

from collections.abc import Iterator

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.describe_run import options_of
from surestart.remedies.plan.chain import POSITION, Link
from surestart.remedies.plan.database_facts import read_column_names
from surestart.sinks.both import Both
from surestart.sinks.delta.append import DeltaAppend
from surestart.sinks.delta.merge import DeltaMerge
from surestart.sinks.delta.split import DeltaSplit
from surestart.sinks.postgres.sink import PostgresSink

KNOWN = (DeltaAppend, DeltaSplit, DeltaMerge, PostgresSink)


def sinks_of(sink: object) -> list[object]:
    """Databases last: they get their rows from the stage's Delta table."""
    return sorted(_parts(sink), key=lambda part: isinstance(part, PostgresSink))


def _parts(sink: object) -> Iterator[object]:
    if isinstance(sink, Both):
        yield from _parts(sink.first)
        yield from _parts(sink.second)
    else:
        yield sink


def refuse_unknown_sinks(link: Link, environment: Environment) -> None:
    """Raises Refused where which rows are missing, or what they would be, cannot be told."""
    sinks = sinks_of(link.stage.sink)
    for sink in sinks:
        if not isinstance(sink, KNOWN) or (isinstance(sink, DeltaSplit) and len(sinks) > 1):
            raise _refused(link, environment, f"writes to a {type(link.stage.sink).__name__}, which no backfill knows")
        if isinstance(sink, PostgresSink) and sink.mode == "append":
            missing = [column for column in POSITION if column not in read_column_names(sink)]
            if missing:
                raise _refused(
                    link, environment, f"writes every row to {sink.target}, which has no column {', '.join(missing)}"
                )
    if link.stage.state:
        raise _refused(link, environment, f"keeps state ({', '.join(link.stage.state)}), which a hole has passed by")


def _refused(link: Link, environment: Environment, what: str) -> Refused:
    place = f"-e {environment.name} {options_of(environment)}".rstrip()
    return Refused(
        f"{link.query} {what}",
        meaning="Which rows are missing, or what they would have been, cannot be told. Nothing was planned.",
        next=f"surestart plan replay {link.name} --from-batch 0 {place} -o plan.json  # or --from-positions, for the "
        "partitions that lack rows",
        code="BackfillNotOffered",
    )
