"""Where each source stands: positions of the newest batch, and what lies unread behind it, per partition or version."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.facts.checkpoint.positions import DeltaPosition, KafkaPosition, Position
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource
from surestart.report.html.chart import Bar, bars, figure
from surestart.report.html.markup import Child, Limits, Markup, foldable, join_markup, safe_text, table, tag
from surestart.report.html.report import CheckpointReport

_BARS = 128


def sources_section(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    checkpoint = report.inspection.checkpoint
    if not checkpoint.sources:
        return tag("p", None, "No source is known: no batch is planned, or its plan cannot be read.")
    shown = checkpoint.sources[: limits.sources]
    parts: list[Child] = []
    for index, source in enumerate(shown):
        heading = tag(f"h{level + 1}", None, f"Source {source.id}: {source.kind}")
        parts += [heading, _source(report, index, source, f"{prefix}source-{index}-", limits)]
    if len(checkpoint.sources) > len(shown):
        parts.append(
            tag("p", {"class": "note"}, f"{len(checkpoint.sources) - len(shown)} more sources: --json lists them.")
        )
    return join_markup(parts)


def _source(report: CheckpointReport, index: int, source: CheckpointSource, prefix: str, limits: Limits) -> Markup:
    latest, known_from = report.latest_of(index)
    if isinstance(source.end, KafkaPosition):
        newest = latest if isinstance(latest, KafkaPosition) else None
        return _kafka(source, source.end, newest, known_from, prefix, limits)
    return _other(report.inspection.checkpoint, source, latest, known_from, prefix, limits)


def _kafka(
    source: CheckpointSource,
    end: KafkaPosition,
    latest: KafkaPosition | None,
    known_from: str,
    prefix: str,
    limits: Limits,
) -> Markup:
    start = source.start if isinstance(source.start, KafkaPosition) else KafkaPosition({})
    rows: list[tuple[str, int, int | None, int | None, int | None, int | None]] = []
    for topic, offsets in sorted(end.partitions.items()):
        for number, offset in sorted(offsets.items()):
            begin = start.partitions.get(topic, {}).get(number)
            there = latest.partitions.get(topic, {}).get(number) if latest else None
            rows.append((topic, number, begin, offset, there, None if there is None else max(there - offset, 0)))
    if latest:
        rows += [
            (topic, number, None, None, there, None)
            for topic, offsets in sorted(latest.partitions.items())
            for number, there in sorted(offsets.items())
            if number not in end.partitions.get(topic, {})
        ]
    if not rows:
        return tag("p", None, "No partition yet.")
    # The partition that lags most is what one looks for; without lag, the one that got most.
    rows.sort(key=lambda row: -(row[5] if row[5] is not None else 0))
    table_id = f"{prefix}table"
    head = ["Partition", "Batch starts at", "Batch ends before", "In the batch"]
    cells: list[list[Child]] = [
        [f"{topic}-{number}", begin, upto, None if begin is None or upto is None else upto - begin, there, lag]
        for topic, number, begin, upto, there, lag in rows
    ]
    if latest:
        head += ["Topic ends before", "Lag"]
    numbers = table(
        f"Offsets per partition. {known_from}",
        head,
        [row[: len(head)] for row in cells],
        table_id=table_id,
        numbers=(1, 2, 3, 4, 5),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="partitions",
    )
    caption, items = _kafka_bars(rows, latest is not None, known_from)
    folded = foldable("The same as a table", numbers, is_open=len(rows) <= 12)
    return figure(bars(items, "offsets", caption), caption, folded, table_id) if items else numbers


def _kafka_bars(
    rows: Sequence[tuple[str, int, int | None, int | None, int | None, int | None]], has_latest: bool, known_from: str
) -> tuple[str, list[Bar]]:
    topics = len({row[0] for row in rows})
    values: list[tuple[str, int | None]] = []
    for topic, number, begin, upto, _, lag in rows:
        label = str(number) if topics == 1 else f"{topic}-{number}"
        values.append((label, lag if has_latest else None if begin is None or upto is None else max(upto - begin, 0)))
    known = [value for _, value in values if value is not None]
    if not known:
        return "", []
    if has_latest:
        caption = f"Lag per partition: {sum(known):,} offsets unread, at most {max(known):,} in one. {known_from}"
    else:
        caption = f"The newest batch per partition: {sum(known):,} offsets, at most {max(known):,} in one. {known_from}"
    shown = values[:_BARS] if has_latest else sorted(values[:_BARS], key=lambda pair: -(pair[1] or 0))
    unknown = "not known"
    return caption, [
        Bar(label, None if value is None else (value,), f"{label}: {unknown if value is None else f'{value:,}'}")
        for label, value in shown
    ]


def _other(
    checkpoint: Checkpoint,
    source: CheckpointSource,
    latest: Position | None,
    known_from: str,
    prefix: str,
    limits: Limits,
) -> Markup:
    rows: list[tuple[str, Child]] = [
        ("Newest batch starts at", source.start.describe() if source.start else None),
        ("Newest batch ends at", source.end.describe() if source.end else None),
    ]
    if isinstance(source.end, DeltaPosition):
        if isinstance(latest, DeltaPosition) and latest.table_id in (source.end.table_id, ""):
            # index -1 stands before the version's first file: that version is unread.
            unread = latest.version - source.end.version + (1 if source.end.index == -1 else 0)
            rows += [("Table's newest version", str(latest.version)), ("Lag in versions", f"{max(unread, 0):,}")]
            rows.append(("How that is known", known_from))
        else:
            rows.append(("Lag", known_from))
        rows.append(("Table id", source.end.table_id))
    folder = source.folder
    log = folder.file_log if folder else None
    if log is not None:
        seen = None if log.files_seen is None else f"{'' if log.exact else 'about '}{log.files_seen:,}"
        rows += [
            ("Files seen", seen),
            ("Entries of the file list", f"{log.first} to {log.last}"),
            ("Entries missing", f"{len(log.missing):,}"),
            ("Newest file seen", log.last_path or None),
        ]
    if folder and folder.initial:
        rows.append(("First started at", folder.initial.describe()))
    listed: list[Sequence[Child]] = [
        [label, safe_text(value, limits.text) if isinstance(value, str) else value] for label, value in rows
    ]
    return table(
        f"Position of source {source.id}",
        ["What", "Value"],
        listed,
        table_id=f"{prefix}table",
        limit=limits.rows,
        text_limit=limits.text,
    )
