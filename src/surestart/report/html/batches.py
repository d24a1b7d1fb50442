"""The batch timeline: which batches are planned, committed, in flight; how far each reads and how long it took.

A hole of many batches is one gap on the page: batch numbers come from file names, and two names may lie 10^17 apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.log_file import LogFault
from surestart.facts.checkpoint.positions import (
    AutoLoaderPosition,
    DeltaPosition,
    FilesPosition,
    KafkaPosition,
    NumberPosition,
    Position,
)
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.report.html.chart import ABSENT, FLIGHT, THERE, WRONG, Bar, Lane, bars, figure, lane_legend, lanes
from surestart.report.html.markup import Child, Limits, Markup, foldable, join_markup, moment, signed_word, table, tag
from surestart.report.html.report import CheckpointReport
from surestart.report.progress_history import BatchFacts

_SMALL_HOLE = 5
# The phases of a batch that differ in cause: the sink, asking the source, the checkpoint's own storage, all the rest.
PHASES = {"addBatch": "sink and transformations", "latestOffset": "asking the source", "walCommit": "writing offsets/"}
REST = "everything else"


@dataclass(frozen=True)
class Column:
    """One batch, or a hole of several (batch is its first, last its last)."""

    batch: int
    last: int
    planned: bool = False
    committed: bool = False

    @property
    def label(self) -> str:
        return str(self.batch) if self.last == self.batch else f"{self.batch}–{self.last}"

    @property
    def is_hole(self) -> bool:
        return not self.planned and not self.committed


def batch_columns(checkpoint: Checkpoint, count: int) -> tuple[Column, ...]:
    """The newest `count` batches that either folder knows, with the holes between them."""
    planned, committed = set(checkpoint.offsets_folder.ids), set(checkpoint.commits_folder.ids)
    newest = sorted(planned | committed)[-count:]
    columns: list[Column] = []
    for batch in newest:
        if columns and batch - columns[-1].last > 1:
            first, last = columns[-1].last + 1, batch - 1
            few = last - first < _SMALL_HOLE
            columns += [Column(one, one) for one in range(first, last + 1)] if few else [Column(first, last)]
        columns.append(Column(batch, batch, batch in planned, batch in committed))
    return tuple(columns[-count:])


def batches_section(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    checkpoint = report.inspection.checkpoint
    columns = batch_columns(checkpoint, limits.columns)
    if not columns:
        return tag("p", None, "No batch is planned yet.")
    rows = batch_columns(checkpoint, limits.rows)
    table_id = f"{prefix}batches-table"
    drawn = [
        Lane("planned", tuple(_planned(checkpoint, column) for column in columns)),
        Lane("committed", tuple(_committed(checkpoint, column) for column in columns)),
    ]
    caption = _caption(checkpoint, columns)
    numbers = foldable(
        "The same as a table",
        _table(report, rows, table_id, limits),
        is_open=len(rows) <= 12,
    )
    chart = lanes([column.label for column in columns], drawn, caption)
    parts: list[Child] = [figure(chart, caption, join_markup(), table_id, lane_legend(drawn))]
    parts += _reach_figures(report, columns, table_id)
    parts += _duration_figure(report, columns, table_id)
    return join_markup(parts, numbers)


def how_far(before: Position | None, after: Position | None) -> tuple[int, str] | None:
    """(how far a batch reads, of what), or None where the two positions do not say."""
    if isinstance(before, KafkaPosition) and isinstance(after, KafkaPosition):
        total = 0
        for topic, offsets in after.partitions.items():
            known = before.partitions.get(topic, {})
            # A partition that is new begins at its earliest offset, which the checkpoint does not hold.
            total += sum(max(end - known[number], 0) for number, end in offsets.items() if number in known)
        return total, "offsets"
    if isinstance(before, DeltaPosition) and isinstance(after, DeltaPosition):
        return (max(after.version - before.version, 0), "versions") if before.table_id == after.table_id else None
    if isinstance(before, FilesPosition) and isinstance(after, FilesPosition):
        return max(after.log_offset - before.log_offset, 0), "list entries"
    if isinstance(before, AutoLoaderPosition) and isinstance(after, AutoLoaderPosition):
        return max(after.sequence - before.sequence, 0), "files"
    if isinstance(before, NumberPosition) and isinstance(after, NumberPosition):
        return max(after.value - before.value, 0), "steps"
    return None


def _planned(checkpoint: Checkpoint, column: Column) -> str:
    if isinstance(checkpoint.offsets.get(column.batch), LogFault) or column.batch in checkpoint.offsets_folder.empty:
        return WRONG
    if column.planned:
        return THERE
    first = checkpoint.offsets_folder.first
    return WRONG if column.committed and first is not None and column.batch > first else ABSENT


def _committed(checkpoint: Checkpoint, column: Column) -> str:
    if isinstance(checkpoint.commits.get(column.batch), LogFault) or column.batch in checkpoint.commits_folder.empty:
        return WRONG
    if column.committed:
        return THERE
    return FLIGHT if column.batch == checkpoint.in_flight else ABSENT


def _caption(checkpoint: Checkpoint, columns: Sequence[Column]) -> str:
    planned, committed = checkpoint.latest_planned, checkpoint.latest_committed
    said = f"Planned up to {'none' if planned is None else planned}, committed up to "
    said += "none" if committed is None else str(committed)
    flight = checkpoint.in_flight
    said += f": batch {flight} is in flight." if flight is not None else ": nothing is in flight."
    kept = len(checkpoint.offsets_folder.ids)
    return said + (f" Shown: the newest {len(columns)} of {kept:,} kept." if kept > len(columns) else "")


def _state(checkpoint: Checkpoint, column: Column) -> tuple[str, str]:
    """(word, sign) of one batch."""
    for log in (checkpoint.offsets.get(column.batch), checkpoint.commits.get(column.batch)):
        if isinstance(log, LogFault):
            return f"damaged: {log.path} {log.kind}", "bad"
    if column.is_hole:
        return "missing", "bad"
    if column.planned and column.committed:
        return "committed", "good"
    if column.batch == checkpoint.in_flight:
        return "in flight", "look"
    if column.planned:
        first = checkpoint.commits_folder.first
        purged = first is not None and column.batch < first
        return ("commit no longer kept", "note") if purged else ("planned, commit missing", "bad")
    first = checkpoint.offsets_folder.first
    purged = first is not None and column.batch < first
    return ("plan no longer kept", "note") if purged else ("committed, plan missing", "bad")


def _table(report: CheckpointReport, columns: Sequence[Column], table_id: str, limits: Limits) -> Markup:
    checkpoint, facts = report.inspection.checkpoint, report.facts()
    reaches = {column.batch: _reaches(checkpoint, column.batch) for column in columns}
    units = sorted({pair for found in reaches.values() for pair in found})
    phases = [phase for phase in PHASES if any(phase in (one.parts or {}) for one in facts.values())] if facts else []
    head = ["Batch", "State", "Planned at", *(_reach_name(index, unit, units) for index, unit in units)]
    head += ["Rows", "Seconds", *(f"{PHASES[phase]}, s" for phase in phases), REST] if facts else []
    rows = []
    for column in reversed(columns):
        said, sign = _state(checkpoint, column)
        entry = checkpoint.offsets.get(column.batch)
        stamp = entry.timestamp_ms if isinstance(entry, OffsetLogEntry) else None
        row: list[Child] = [column.label, signed_word(said[:80], sign), moment(stamp)]
        row += [reaches[column.batch].get(pair) for pair in units]
        row += _fact_cells(facts.get(column.batch), phases) if facts else []
        rows.append(row)
    return table(
        "Batches, newest first",
        head,
        rows,
        table_id=table_id,
        numbers=tuple(range(3, len(head))),
        limit=limits.rows,
        text_limit=limits.text,
    )


def _fact_cells(facts: BatchFacts | None, phases: Sequence[str]) -> list[Child]:
    if facts is None:
        return [None] * (len(phases) + 3)
    parts = facts.parts or {}
    named = sum(parts.get(phase, 0) for phase in PHASES)
    rest = None if facts.total_ms is None else _seconds(max(facts.total_ms - named, 0))
    total = None if facts.total_ms is None else _seconds(facts.total_ms)
    cells: list[Child] = [facts.rows, total]
    return [*cells, *(_seconds(parts[phase]) if phase in parts else None for phase in phases), rest]


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.2f}"


def _reaches(checkpoint: Checkpoint, batch: int) -> dict[tuple[int, str], int]:
    """(source's place, unit) -> how far the batch reads there."""
    entry, before = checkpoint.offsets.get(batch), checkpoint.offsets.get(batch - 1)
    if not isinstance(entry, OffsetLogEntry) or not isinstance(before, OffsetLogEntry):
        return {}
    starts = {source.id: source.position for source in before.sources}
    found = {}
    for index, source in enumerate(entry.sources[:4]):
        far = how_far(starts.get(source.id), source.position)
        if far is not None:
            found[(index, far[1])] = far[0]
    return found


def _reach_name(index: int, unit: str, units: Sequence[tuple[int, str]]) -> str:
    return unit.capitalize() if len({place for place, _ in units}) == 1 else f"Source {index}: {unit}"


def _reach_figures(report: CheckpointReport, columns: Sequence[Column], table_id: str) -> list[Markup]:
    checkpoint = report.inspection.checkpoint
    reaches = {column.batch: _reaches(checkpoint, column.batch) for column in columns}
    units = sorted({pair for found in reaches.values() for pair in found})
    figures = []
    for index, unit in units[:3]:
        items = []
        for column in columns:
            far = reaches[column.batch].get((index, unit))
            shown = "not known" if far is None else f"{far:,} {unit}"
            items.append(Bar(column.label, None if far is None else (far,), f"batch {column.label}: {shown}"))
        known = [item.values[0] for item in items if item.values is not None]
        low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
        span = f"{low} to {high} {unit}" if low != high else f"{low} {unit} each"
        caption = f"How far each batch reads{'' if len(units) == 1 else f' in source {index}'}: {span}."
        figures.append(figure(bars(items, unit, caption), caption, join_markup(), table_id))
    return figures


def _duration_figure(report: CheckpointReport, columns: Sequence[Column], table_id: str) -> list[Markup]:
    facts = report.facts()
    timed = [one for column in columns if (one := facts.get(column.batch)) is not None and one.total_ms is not None]
    if not timed:
        return [
            tag(
                "p",
                {"class": "note"},
                "A checkpoint does not say how long batches took, nor how far behind its sources each was: give "
                "Spark's progress (--progress FILE) to see both.",
            )
        ]
    items = []
    for column in columns:
        one = facts.get(column.batch)
        if one is None or one.total_ms is None:
            items.append(Bar(column.label, None, f"batch {column.label}: not known"))
            continue
        named = [(one.parts or {}).get(phase, 0) / 1000 for phase in PHASES]
        rest = max(one.total_ms / 1000 - sum(named), 0)
        items.append(Bar(column.label, (*named, rest), f"batch {column.label}: {one.total_ms / 1000:,.2f} s"))
    longest = max(timed, key=lambda one: one.total_ms or 0)
    caption = f"How long batches took: at most {(longest.total_ms or 0) / 1000:,.2f} s, batch {longest.batch}."
    legend = {f"part-{number}": name for number, name in enumerate([*PHASES.values(), REST], 1)}
    return [figure(bars(items, "s", caption), caption, join_markup(), table_id, legend)]
