"""One stage's output against its input, where rows are known by their position: raw-ingest and deserialize.

Which missing positions are lost and which are pending, by the kind of input:

    Kafka   below the checkpoint's offset of the partition: lost
    files   of a file in the checkpoint's list, or of a file that the output has other rows of: lost. A batch takes
            whole files, so half a file is never pending
    Delta   in the version that the checkpoint has passed: lost

A stage's own sinks against what the stage has read: each row's position, as the sink itself tells it.

A sink of your own has no version to be read at. So when it has changed while it was counted, what differs may be the
batch that came meanwhile: nobody can tell, and it is not counted as lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.checkpoint.file_list import plain_path, read_listed_files
from surestart.facts.checkpoint.stage_progress import StageProgress, read_stage_progress
from surestart.facts.delta.pinned import POSITION_TYPES, PinnedTable, first_line, read_pinned_positions, reading_errors
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import Link, OwnSink
from surestart.remedies.count.count_databases import undecided_difference
from surestart.remedies.count.counts import KEPT_PLACES, POSITIONS, CountedPlace, Counts, StageCount
from surestart.remedies.count.position_blocks import (
    ComparedRows,
    FoundPlaces,
    PartitionLimit,
    compare_positions,
    read_places,
)
from surestart.remedies.count.position_gaps import read_gaps
from surestart.sources.abilities import topic_of
from surestart.sources.kafka import KafkaSource
from surestart.spark.session import persisted
from surestart.stage import POSITION, Source

if TYPE_CHECKING:
    from surestart.facts.kafka.evidence import KafkaEvidence


Judge = Callable[[FoundPlaces], FoundPlaces]


@dataclass(frozen=True)
class CountedOutput:
    """An output as it is counted.

    version: of a Delta table.
    positions: of each of its rows."""

    label: str
    version: int | None
    positions: DataFrame


def present(spark: SparkSession, pinned: PinnedTable) -> CountedOutput:
    return CountedOutput(pinned.label, pinned.version, read_pinned_positions(spark, pinned))


def as_found(found: FoundPlaces) -> FoundPlaces:
    return found


def count_positions(
    spark: SparkSession,
    stage: str,
    given: str,
    outputs: Sequence[CountedOutput],
    sides: ComparedRows,
    *,
    judge: Judge = as_found,
    problem: str = "",
) -> StageCount:
    read = {one.label: one.positions for one in outputs} | ({given: sides.input} if sides.input is not None else {})
    bare = [label for label, rows in read.items() if not set(POSITION) <= set(rows.columns)]
    if bare:
        why = f"{bare[0]} has no columns {', '.join(POSITION)}: which of its rows are missing cannot be told"
        versions = {one.label: one.version for one in outputs}
        counts = Counts(rows=sum(one.positions.count() for one in outputs))
        return StageCount(stage, POSITIONS, given, versions, counts, compared=False, problem=why)
    with persisted(compare_positions(spark, sides)) as blocks:
        found = judge(read_places(blocks))
        lost = [(one.source, one.partition) for one in found.places if one.counts.lost and one.partition is not None]
        gaps, complete = read_gaps(spark, blocks, stage, lost) if lost else ((), not found.totals.lost)
    return StageCount(
        stage=stage,
        kind=POSITIONS,
        input=given,
        outputs={one.label: one.version for one in outputs},
        counts=found.totals,
        compared=sides.input is not None,
        places=tuple(sorted(found.places, key=lambda place: not place.counts.faults)[:KEPT_PLACES]),
        place_count=found.place_count,
        gaps=gaps,
        gaps_complete=complete,
        problem=problem,
    )


def undecided(found: FoundPlaces) -> FoundPlaces:
    """The count where nobody knows what the stage has passed: what is missing may be lost."""
    return replace(
        found,
        totals=_undecided(found.totals),
        places=tuple(replace(place, counts=_undecided(place.counts)) for place in found.places),
    )


def _undecided(counts: Counts) -> Counts:
    return replace(counts, pending=0, undecided=counts.undecided + counts.pending)


def count_source(
    spark: SparkSession,
    environment: Environment,
    link: Link,
    progress: StageProgress,
    outputs: Sequence[CountedOutput],
    ask_source: bool,
) -> StageCount:
    """The first stage's output against what Kafka or the landing folder has now."""
    source = link.stage.source
    given = source.declare(environment).target
    alone = ComparedRows(tuple(one.positions for one in outputs))
    unreadable: tuple[type[Exception], ...] = (SurestartError, *reading_errors())
    if not ask_source:
        return count_positions(spark, link.name, given, outputs, alone)
    try:
        topic = topic_of(source)
        if topic is not None:
            return _count_kafka(spark, environment, link, topic, progress, outputs)
        return _count_files(spark, environment, link, source, progress, outputs)
    except unreadable as error:
        # When it is the output that cannot be read, the count of the output alone fails as well, and says so.
        why = error.what if isinstance(error, SurestartError) else f"{given} cannot be read: {first_line(error)}"
        return count_positions(spark, link.name, given, outputs, alone, problem=why)


def _count_kafka(
    spark: SparkSession,
    environment: Environment,
    link: Link,
    source: KafkaSource,
    progress: StageProgress,
    outputs: Sequence[CountedOutput],
) -> StageCount:
    evidence = source.read_evidence()
    present = tuple(one.positions for one in outputs)
    sides = ComparedRows(
        present, source.read_batch(spark, environment, evidence), limits=_limits(source, progress, evidence)
    )
    judge = undecided if progress.problem else as_found
    compacted = "compact" in evidence.cleanup_policy
    return count_positions(
        spark,
        link.name,
        source.topic,
        outputs,
        sides,
        judge=(lambda found: _gone_by_compaction(judge(found))) if compacted else judge,
        problem=progress.problem,
    )


def _limits(source: KafkaSource, progress: StageProgress, evidence: KafkaEvidence) -> tuple[PartitionLimit, ...]:
    begin = source.starting_positions() or {}
    committed = progress.kafka.get(source.topic, {})
    return tuple(
        PartitionLimit(
            source=source.topic,
            partition=one.partition,
            begin=begin.get(one.partition, 0),
            first=one.earliest,
            reached=committed.get(one.partition, 0),
        )
        for one in evidence.partitions
    )


def _gone_by_compaction(found: FoundPlaces) -> FoundPlaces:
    """Compaction takes records out of the middle of a topic: what it lacks now it may have had."""

    def moved(counts: Counts) -> Counts:
        return replace(counts, gone=counts.gone + counts.from_nowhere, from_nowhere=0)

    return replace(
        found,
        totals=moved(found.totals),
        places=tuple(replace(place, counts=moved(place.counts)) for place in found.places),
    )


def _count_files(
    spark: SparkSession,
    environment: Environment,
    link: Link,
    source: Source,
    progress: StageProgress,
    outputs: Sequence[CountedOutput],
) -> StageCount:
    landed = source.read_batch(spark, environment)
    present = tuple(one.positions for one in outputs)

    def judge(found: FoundPlaces) -> FoundPlaces:
        return _judge_files(found, progress)

    return count_positions(
        spark,
        link.name,
        environment.landing,
        outputs,
        ComparedRows(present, landed),
        judge=judge,
        problem=progress.problem,
    )


def _judge_files(found: FoundPlaces, progress: StageProgress) -> FoundPlaces:
    """`lost` holds every missing row so far, and `from_nowhere` every row that no file has."""
    if not found.totals.lost and not found.totals.from_nowhere:
        return found
    whole = [one for one in found.places if one.counts.lost and not one.counts.distinct]
    read: frozenset[str] | None = frozenset()
    if progress.problem or progress.auto_loader:
        read = None
    elif progress.files is not None and whole:
        read = read_listed_files(progress.checkpoint, progress.files)
    places = tuple(_judge_file(place, read) for place in found.places)
    judged = [(before.counts, after.counts) for before, after in zip(found.places, places, strict=True)]
    moved = {
        name: sum(getattr(after, name) - getattr(before, name) for before, after in judged)
        for name in ("lost", "pending", "undecided", "from_nowhere", "gone")
    }
    totals = replace(found.totals, **{name: getattr(found.totals, name) + number for name, number in moved.items()})
    return replace(found, totals=totals, places=places)


def _judge_file(place: CountedPlace, read: frozenset[str] | None) -> CountedPlace:
    counts = place.counts
    if counts.from_nowhere and not counts.input:
        counts = replace(counts, gone=counts.gone + counts.from_nowhere, from_nowhere=0)
    if counts.lost and not counts.distinct:
        if read is None:
            counts = replace(counts, lost=0, undecided=counts.lost)
        elif plain_path(place.source) not in read:
            counts = replace(counts, lost=0, pending=counts.lost)
    return place if counts is place.counts else replace(place, counts=counts)


Count = Callable[[Sequence[CountedOutput]], StageCount]


def count_own_sinks(spark: SparkSession, link: Link, progress: StageProgress, count: Count) -> list[StageCount]:
    """count: of an output whose positions are known."""
    return [_count(spark, link, progress, count, own) for own in link.own_sinks]


def _count(spark: SparkSession, link: Link, progress: StageProgress, count: Count, own: OwnSink) -> StageCount:
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
    if (
        changed
        or progress.in_flight
        or progress.problem
        or read_stage_progress(link.checkpoint).planned != progress.planned
    ):
        return replace(counted, counts=undecided_difference(counted.counts), places=(), gaps=(), gaps_complete=True)
    return counted
