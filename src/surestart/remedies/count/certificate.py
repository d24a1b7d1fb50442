"""The counted proof: what every stage's output holds against what the stage has read, position by position.

    source ──> raw ──> good + quarantine ──> gold ──> PostgreSQL
           a        b                     c        d

Order makes it true while the streams go on. From the last stage to the first: how far a stage has come is read before
its output, and its output before its input. So whatever a stage has passed must be in the output that is counted, and
whatever the output holds is in the input that is counted. Each table is counted at the version that it had then.

None of the stages' own code takes part, except for the transform in front of a keyed table: it says what a row is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from surestart.environment import Environment
from surestart.facts.checkpoint.stage_progress import (
    EVERYTHING,
    UNKNOWN,
    UP_TO,
    StageProgress,
    TableProgress,
    progress_in_table,
    read_stage_progress,
)
from surestart.facts.delta.pinned import (
    PinnedTable,
    first_line,
    pin,
    read_pinned,
    read_pinned_positions,
    read_version,
    reading_errors,
)
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import NEWEST, Chain, Link, Output
from surestart.remedies.count.count_databases import count_databases
from surestart.remedies.count.count_positions import (
    CountedOutput,
    as_found,
    count_own_sinks,
    count_positions,
    count_source,
    present,
    undecided,
)
from surestart.remedies.count.counts import KEYS, Counts, Gap, StageCount
from surestart.remedies.count.newest_rows import FoundKeys, KeyedRows, count_newest
from surestart.remedies.count.position_blocks import ComparedRows
from surestart.sinks.delta.merge import as_stored
from surestart.sources.abilities import table_of

EXACT, NOT_EXACT, CANNOT_TELL = "exact", "not exact", "cannot tell"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Certificate:
    """source_asked False: the first stage's rows were counted without what they came from."""

    pipeline: str
    environment: str
    observed_at: str
    source_asked: bool
    stages: tuple[StageCount, ...]

    @property
    def lost(self) -> int:
        """A key whose newest row is missing is lost as well: the row it has is an older one."""
        return sum(stage.counts.lost + stage.counts.wrong for stage in self.stages)

    @property
    def duplicated(self) -> int:
        return sum(stage.counts.duplicated + stage.counts.in_both for stage in self.stages)

    @property
    def faults(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for stage in self.stages:
            for name, number in stage.counts.faults.items():
                found[f"{stage.stage} {stage.kind}: {name.replace('_', ' ')}"] += number
        return dict(found)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for stage in self.stages for gap in stage.gaps)

    @property
    def is_exact(self) -> bool:
        return self.verdict == EXACT

    @property
    def verdict(self) -> str:
        """The verdict. A fault that was counted stays a fault, whatever else could not be told."""
        if self.faults:
            return NOT_EXACT
        return CANNOT_TELL if any(stage.cannot_tell for stage in self.stages) else EXACT

    def as_dict(self) -> dict[str, Any]:
        body = {key: value for key, value in asdict(self).items() if key != "stages"}
        return {
            "schema_version": SCHEMA_VERSION,
            **body,
            "verdict": self.verdict,
            "exact": self.is_exact,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "faults": dict(self.faults),
            "stages": [stage.as_dict() for stage in self.stages],
        }


@dataclass(frozen=True)
class _Snapshot:
    link: Link
    progress: StageProgress
    outputs: tuple[tuple[Output, PinnedTable], ...]


def certify(spark: SparkSession, environment: Environment, chain: Chain, *, ask_source: bool = True) -> Certificate:
    """What is lost, duplicated and pending in each stage of the chain, now. Reads only; the streams may run."""
    observed_at = datetime.now(UTC).isoformat(timespec="seconds")
    links = {link.name: link for link in chain}
    tables: dict[str, PinnedTable] = {}
    snapshots: dict[str, _Snapshot] = {}
    for name in reversed(_upstream_first(links)):
        link = links[name]
        progress = read_stage_progress(link.checkpoint)
        for output in link.outputs:
            tables.setdefault(output.table.label, pin(spark, output.table))
        snapshots[name] = _Snapshot(
            link, progress, tuple((output, tables[output.table.label]) for output in link.outputs)
        )
    for link in chain:
        if link.input is not None:
            tables.setdefault(link.input.label, pin(spark, link.input))
    counts: list[StageCount] = []
    for link in chain:
        counts += _count_link(spark, environment, snapshots[link.name], tables, ask_source)
    return Certificate(environment.pipeline, environment.name, observed_at, ask_source, tuple(counts))


def _upstream_first(links: Mapping[str, Link]) -> list[str]:
    order: list[str] = []

    def add(name: str) -> None:
        if name in links and name not in order:
            add(links[name].upstream)
            order.append(name)

    for name in links:
        add(name)
    return order


def _count_link(
    spark: SparkSession,
    environment: Environment,
    snapshot: _Snapshot,
    tables: Mapping[str, PinnedTable],
    ask_source: bool,
) -> list[StageCount]:
    link, progress = snapshot.link, snapshot.progress
    rows = [present(spark, pinned) for output, pinned in snapshot.outputs if output.role != NEWEST]
    keyed = [(output, pinned) for output, pinned in snapshot.outputs if output.role == NEWEST]
    if link.input is None:
        counts = [count_source(spark, environment, link, progress, rows, ask_source)] if rows else []
        why = "a keyed table is counted against the table that feeds it, and no table feeds this one"
        untold = [StageCount(link.name, KEYS, "", {one.label: one.version}, Counts(), problem=why) for _, one in keyed]

        def count_given(outputs: Sequence[CountedOutput]) -> StageCount:
            return count_source(spark, environment, link, progress, outputs, ask_source)

        databases = count_databases(spark, link, progress, [pinned for _, pinned in snapshot.outputs])
        return [*counts, *untold, *databases, *count_own_sinks(spark, link, progress, count_given)]
    given = tables[link.input.label]
    reached = _told_to_start_later(link) or progress_in_table(progress, given.table_id, given.version or 0)

    def count_rows(outputs: Sequence[CountedOutput]) -> StageCount:
        return _known(reached, lambda known: _count_table(spark, link, given, known, outputs))

    counts = []
    if rows:
        counts.append(count_rows(rows))
    for output, pinned in keyed:
        counts.append(_known(reached, partial(_count_keys, spark, link, given, output, pinned)))
    databases = count_databases(spark, link, progress, [pinned for _, pinned in snapshot.outputs], given)
    return [*counts, *databases, *count_own_sinks(spark, link, progress, count_rows)]


def _told_to_start_later(link: Link) -> TableProgress | None:
    source = table_of(link.stage.source)
    if source is not None and any(name.lower().startswith("starting") for name, _ in source.options):
        return TableProgress(UNKNOWN, problem="the stage was told to start after its input's first row")
    return None


def _known(reached: TableProgress, count: Callable[[TableProgress], StageCount]) -> StageCount:
    """The count. Where the version that the stage has read is gone (VACUUM, log retention), how far it has come counts
    for nothing."""
    if reached.how != UP_TO:
        return count(reached)
    try:
        return count(reached)
    except reading_errors() as gone:
        why = f"version {reached.version} of the input cannot be read: {first_line(gone)}"
        return count(TableProgress(UNKNOWN, problem=why))


def _reached(spark: SparkSession, given: PinnedTable, reached: TableProgress) -> DataFrame | None:
    return read_version(spark, given.table, reached.version) if reached.how == UP_TO else None


def _count_table(
    spark: SparkSession, link: Link, given: PinnedTable, reached: TableProgress, outputs: Sequence[CountedOutput]
) -> StageCount:
    sides = ComparedRows(
        outputs=tuple(one.positions for one in outputs),
        input=read_pinned_positions(spark, given),
        reached=_reached(spark, given, reached),
        all_reached=reached.how == EVERYTHING,
    )
    judge = undecided if reached.how == UNKNOWN or reached.partly else as_found
    return count_positions(spark, link.name, given.label, outputs, sides, judge=judge, problem=reached.problem)


def _count_keys(
    spark: SparkSession, link: Link, given: PinnedTable, output: Output, pinned: PinnedTable, reached: TableProgress
) -> StageCount:
    feeding, keyed = read_pinned(spark, given), read_pinned(spark, pinned)
    found = FoundKeys(Counts())
    if feeding is not None:
        before = _reached(spark, given, reached)

        def transform(rows: DataFrame) -> DataFrame:
            return as_stored(link.stage.transform(rows), output.partition_by)

        everything = transform(feeding)
        newest = KeyedRows(
            keyed=everything.limit(0) if keyed is None else keyed,
            keys=output.keys,
            order=output.order,
            everything=everything,
            reached=None if before is None else transform(before),
            all_reached=reached.how == EVERYTHING,
        )
        found = count_newest(link.name, newest)
    elif keyed is not None:
        rows = keyed.count()
        found = FoundKeys(Counts(rows=rows, from_nowhere=rows))
    counts = found.counts
    if reached.how == UNKNOWN or reached.partly:
        counts = replace(counts, pending=0, undecided=counts.pending)
    return StageCount(
        stage=link.name,
        kind=KEYS,
        input=given.label,
        outputs={pinned.label: pinned.version},
        counts=counts,
        gaps=found.gaps,
        gaps_complete=found.complete,
        examples=found.examples,
        problem=reached.problem,
    )
