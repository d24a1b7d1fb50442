"""How far the query was behind its sources when each batch ended: from Spark's progress, or from the run history.

    offsets unread        Kafka: latestOffset less endOffset, all partitions
    versions unread       Delta: the same, counted in versions
    maxOffsetsBehindLatest, numFilesOutstanding, numBytesOutstanding    what the source itself says, where it does

A checkpoint holds none of this. Batches that nobody reported are drawn as not known, not as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from surestart.facts.checkpoint.positions import DeltaPosition, KafkaPosition, Position
from surestart.report.html.chart import Bar, bars, figure
from surestart.report.html.markup import Child, Limits, Markup, foldable, join_markup, moment, table
from surestart.report.html.report import CheckpointReport
from surestart.report.progress_history import BatchFacts

# What a source says of itself -> in words. Averages and minima hide the partition that is stuck.
_SAID = {
    "maxOffsetsBehindLatest": "offsets behind, in the partition that lags most",
    "numFilesOutstanding": "files outstanding",
    "numBytesOutstanding": "bytes outstanding",
}
_CHARTS = 3
Series = Mapping[int, float]


def has_lag(report: CheckpointReport) -> bool:
    return bool(read_series(report.progress))


def read_series(progress: Sequence[BatchFacts]) -> dict[str, Series]:
    """What was measured -> batch -> how much, the most telling measure first. What a source says of itself counts only
    where its positions tell nothing."""
    counted: dict[str, dict[int, float]] = {}
    said: dict[str, dict[int, float]] = {}
    for facts in progress:
        for index, (end, latest) in enumerate(zip(facts.ends, facts.latest, strict=False)):
            found = unread(end, latest)
            if found is not None:
                name = found[1] if len(facts.ends) == 1 else f"source {index}: {found[1]}"
                counted.setdefault(name, {})[facts.batch] = found[0]
        for name, words in _SAID.items():
            if name in facts.behind:
                said.setdefault(words, {})[facts.batch] = facts.behind[name]
    return {**counted, **said}


def unread(end: Position | None, latest: Position | None) -> tuple[int, str] | None:
    """(how much is unread behind that position, and of what), or None where the two positions do not tell."""
    if isinstance(end, KafkaPosition) and isinstance(latest, KafkaPosition):
        total = 0
        for topic, offsets in latest.partitions.items():
            known = end.partitions.get(topic, {})
            total += sum(max(there - known[number], 0) for number, there in offsets.items() if number in known)
        return total, "offsets unread"
    if isinstance(end, DeltaPosition) and isinstance(latest, DeltaPosition):
        if latest.table_id not in (end.table_id, ""):
            return None
        # index -1 stands before the version's first file: in both places that version is not read yet.
        return max(latest.version - end.version, 0), "versions unread"
    return None


def lag_section(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    series = read_series(report.progress)
    facts = report.facts()
    batches = sorted({batch for found in series.values() for batch in found})
    shown = list(series)[:_CHARTS]
    table_id = f"{prefix}lag-table"
    figures: list[Child] = []
    for name in shown:
        values = series[name]
        drawn = batches[-limits.columns :]
        items = [_bar(batch, values.get(batch), name) for batch in drawn]
        known = [values[batch] for batch in drawn if batch in values]
        if not known:
            continue
        caption = f"Lag when each batch ended, {name}: at most {max(known):,.0f}, last {known[-1]:,.0f}{_trend(known)}."
        figures.append(figure(bars(items, name.split(" ")[0], caption), caption, join_markup(), table_id))
    rows: list[list[Child]] = [
        [str(batch), moment(facts[batch].at), *(_number(series[name].get(batch)) for name in shown)]
        for batch in reversed(batches)
    ]
    numbers = table(
        "Lag when each batch ended, newest first",
        ["Batch", "Started at", *(name.capitalize() for name in shown)],
        rows,
        table_id=table_id,
        numbers=tuple(range(2, 2 + len(shown))),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="batches",
    )
    return join_markup(figures, foldable("The same as a table", numbers, is_open=len(rows) <= 12))


def _trend(values: Sequence[float]) -> str:
    """A query that falls behind at every batch never catches up; one number does not show it."""
    last = values[-5:]
    if len(last) < 3:
        return ""
    if all(after > before for before, after in pairwise(last)):
        return f", growing over the last {len(last)} batches"
    return ""


def _bar(batch: int, value: float | None, name: str) -> Bar:
    shown = "not known" if value is None else f"{value:,.0f} {name}"
    return Bar(str(batch), None if value is None else (value,), f"batch {batch}: {shown}")


def _number(value: float | None) -> Child:
    return None if value is None else f"{value:,.0f}"
