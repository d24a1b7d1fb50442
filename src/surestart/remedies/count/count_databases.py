"""A stage's PostgreSQL tables against the Delta table that the same stage writes: the same rows, column by column.
Where the stage writes none: against what its transform makes of the table that it reads, as far as it has read it.

A batch reaches Delta first. So while one is in flight, or was planned while the two were read, what differs may be that
batch: nobody can tell, and it is not counted as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surestart.errors import SurestartError
from surestart.facts.checkpoint.stage_progress import (
    NOTHING,
    UNKNOWN,
    UP_TO,
    StageProgress,
    progress_in_table,
    read_stage_progress,
)
from surestart.facts.delta.pinned import PinnedTable, read_pinned, read_version
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Link
from surestart.remedies.basis.database_facts import read_column_names
from surestart.remedies.count.counts import DATABASE, Counts, StageCount
from surestart.remedies.count.database_rows import FoundRows, count_database
from surestart.remedies.count.position_gaps import runs_or_extents
from surestart.sinks.delta.merge import newest_per_key
from surestart.sinks.postgres.sink import PostgresSink

_NOTHING_TO_COMPARE = "the stage neither writes nor reads a Delta table that this one could be compared with"


def count_databases(
    spark: SparkSession,
    link: Link,
    progress: StageProgress,
    outputs: Sequence[PinnedTable],
    given: PinnedTable | None = None,
) -> list[StageCount]:
    """given: the table that the stage reads."""
    return [_count(spark, link, progress, outputs, given, sink) for sink in link.databases]


def _count(
    spark: SparkSession,
    link: Link,
    progress: StageProgress,
    outputs: Sequence[PinnedTable],
    given: PinnedTable | None,
    sink: PostgresSink,
) -> StageCount:
    mirrored = outputs[0] if len(outputs) == 1 else given if not outputs else None
    rows, problem = _expected(spark, link, progress, mirrored, sink) if mirrored else (None, _NOTHING_TO_COMPARE)
    found = FoundRows(Counts(), problem=problem) if rows is None else _ask(sink, rows)
    gaps, complete = runs_or_extents(link.name, found.missing)
    moved = (
        progress.in_flight or bool(progress.problem) or read_stage_progress(link.checkpoint).planned != progress.planned
    )
    return StageCount(
        stage=link.name,
        kind=DATABASE,
        input=mirrored.label if mirrored else "",
        outputs={f"PostgreSQL {sink.target} ({sink.url.label})": None},
        counts=undecided_difference(found.counts) if moved else found.counts,
        gaps=() if moved else gaps,
        gaps_complete=complete or moved,
        examples=found.examples,
        problem=found.problem,
        left_out=found.left_out,
    )


def _expected(
    spark: SparkSession, link: Link, progress: StageProgress, mirrored: PinnedTable, sink: PostgresSink
) -> tuple[DataFrame | None, str]:
    """The rows that the database should hold; None, and why that is not known."""
    if link.outputs:
        return read_pinned(spark, mirrored), _NOTHING_TO_COMPARE
    reached = progress_in_table(progress, mirrored.table_id, mirrored.version or 0)
    if link.stage.state:
        return None, f"the stage keeps state ({', '.join(link.stage.state)}), and no table holds what it has made of it"
    if reached.how == UNKNOWN or reached.partly:
        return None, reached.problem or "the stage is in the middle of a version of its input"
    rows = read_pinned(spark, mirrored)
    if rows is None:
        return None, _NOTHING_TO_COMPARE
    if reached.how == UP_TO:
        rows = read_version(spark, mirrored.table, reached.version)
    rows = link.stage.transform(rows.limit(0) if reached.how == NOTHING else rows)
    return (newest_per_key(rows, sink.keys, sink.order) if sink.mode == "upsert" else rows), ""


def _ask(sink: PostgresSink, rows: DataFrame) -> FoundRows:
    try:
        return count_database(sink, rows, sink.keys or POSITION, sink.order)
    except SurestartError as error:
        return FoundRows(Counts(), problem=error.what)


def count_against(sink: PostgresSink, rows: DataFrame) -> FoundRows:
    """Counts the table's keys that these rows have not. A table without keys is compared row by row, on all columns
    that both have."""
    try:
        known = read_column_names(sink)
        keys = sink.keys or tuple(column for column in rows.columns if column in known)
        return count_database(sink, rows.select(*keys).distinct(), keys, ())
    except SurestartError as error:
        return FoundRows(Counts(), problem=error.what)


def undecided_difference(counts: Counts) -> Counts:
    differing = counts.lost + counts.wrong + counts.from_nowhere
    return replace(counts, lost=0, wrong=0, from_nowhere=0, undecided=differing)
