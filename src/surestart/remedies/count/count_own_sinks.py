"""A stage's own sinks against what the stage has read: each row's position, as the sink itself tells it.

A sink of your own has no version to be read at. So when it has changed while it was counted, what differs may be the
batch that came meanwhile: nobody can tell, and it is not counted as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surestart.errors import SurestartError
from surestart.facts.checkpoint.stage_progress import StageProgress, read_stage_progress
from surestart.facts.delta.pinned import POSITION_TYPES, first_line, reading_errors
from surestart.remedies.basis.chain import Link, OwnSink
from surestart.remedies.count.count_databases import undecided_difference
from surestart.remedies.count.count_positions import CountedOutput
from surestart.remedies.count.counts import POSITIONS, Counts, StageCount

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Count = Callable[[Sequence[CountedOutput]], StageCount]


def count_own_sinks(spark: SparkSession, link: Link, reach: StageProgress, count: Count) -> list[StageCount]:
    """count: of an output whose positions are known."""
    return [_count(spark, link, reach, count, own) for own in link.own_sinks]


def _count(spark: SparkSession, link: Link, reach: StageProgress, count: Count, own: OwnSink) -> StageCount:
    unreadable: tuple[type[Exception], ...] = (SurestartError, OSError, *reading_errors())
    try:
        before = own.sink.read_holdings(own.environment)
        rows = own.read_positions(spark)
        counted = count(
            [CountedOutput(own.label, None, spark.createDataFrame([], POSITION_TYPES) if rows is None else rows)]
        )
        changed = own.sink.read_holdings(own.environment) != before
    except unreadable as error:
        why = error.what if isinstance(error, SurestartError) else f"{own.label} cannot be read: {first_line(error)}"
        return StageCount(link.name, POSITIONS, "", {own.label: None}, Counts(), compared=False, problem=why)
    if changed or reach.in_flight or reach.problem or read_stage_progress(link.checkpoint).planned != reach.planned:
        return replace(counted, counts=undecided_difference(counted.counts), places=(), gaps=(), gaps_complete=True)
    return counted
