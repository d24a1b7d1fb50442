"""A stage's PostgreSQL tables against the Delta table that the same stage writes: the same rows, by keys and order.

A batch reaches Delta first. So while one is in flight, or was planned while the two were read, what differs may be that
batch: nobody can tell, and it is not counted as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surestart.errors import SurestartError
from surestart.remedies.chain import POSITION, Link
from surestart.remedies.counts import DATABASE, Counts, StageCount
from surestart.remedies.database_rows import FoundRows, count_database
from surestart.remedies.pinned import Pinned, read_pinned
from surestart.remedies.reach import Reach, read_reach
from surestart.sinks.postgres import PostgresSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def count_databases(spark: SparkSession, link: Link, reach: Reach, outputs: Sequence[Pinned]) -> list[StageCount]:
    return [_count(spark, link, reach, outputs, sink) for sink in link.databases]


def _count(spark: SparkSession, link: Link, reach: Reach, outputs: Sequence[Pinned], sink: PostgresSink) -> StageCount:
    mirrored = outputs[0] if len(outputs) == 1 else None
    rows = read_pinned(spark, mirrored) if mirrored else None
    if rows is None:
        found = FoundRows(Counts(), problem="the stage writes no Delta table that this one could be compared with")
    else:
        found = _ask(sink, rows)
    moved = reach.in_flight or bool(reach.problem) or read_reach(link.checkpoint).planned != reach.planned
    return StageCount(
        stage=link.name,
        kind=DATABASE,
        input=mirrored.label if mirrored else "",
        outputs={f"PostgreSQL {sink.target} ({sink.url.label})": None},
        counts=_undecided(found.counts) if moved else found.counts,
        examples=found.examples,
        problem=found.problem,
    )


def _ask(sink: PostgresSink, rows: DataFrame) -> FoundRows:
    try:
        return count_database(sink, rows, sink.keys or POSITION, sink.order)
    except SurestartError as error:
        return FoundRows(Counts(), problem=error.what)


def _undecided(counts: Counts) -> Counts:
    differing = counts.lost + counts.wrong + counts.from_nowhere
    return replace(counts, lost=0, wrong=0, from_nowhere=0, undecided=differing)
