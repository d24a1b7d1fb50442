"""State on the page: bytes per operator and partition, and the versions that a restart could load."""

from __future__ import annotations

import time

from surestart.facts.checkpoint.state_folder import StateFolder, StateOperator
from surestart.facts.checkpoint.state_versions import StoreSummary, summarise
from surestart.report.html.chart import Bar, bars, figure
from surestart.report.html.markup import Child, Limits, Markup, foldable, join_markup, table, tag
from surestart.report.html.report import CheckpointReport
from surestart.report.text.state import rows_text, versions_text, watermark_text

_BARS = 200


def state_section(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    state = report.inspection.checkpoint.state
    if not state.operators:
        return tag("p", None, "None: the query is stateless, or its state/ is gone.")
    mark = watermark_text(report.inspection.checkpoint, time.time() * 1000)
    parts: list[Child] = [tag("p", None, f"{_summary(state)} Watermark: {mark}.")]
    for operator in state.operators[: limits.sources]:
        name = f"Operator {operator.id}" + (f": {operator.name}" if operator.name else "")
        parts += [tag(f"h{level + 1}", None, name), _stores(operator, f"{prefix}stores-{operator.id}-", limits)]
        parts += [_operator(operator, f"{prefix}state-{operator.id}-", limits)]
    if len(state.operators) > limits.sources:
        parts.append(
            tag("p", {"class": "note"}, f"{len(state.operators) - limits.sources} more operators: --json lists them.")
        )
    return join_markup(parts)


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def _summary(state: StateFolder) -> str:
    version = ", checkpoint format v2" if state.format_v2 else ""
    sampled = f" Not everything was read: {state.sampled}" if state.sampled else ""
    return (
        f"Provider {state.provider or 'unknown'}{version}; {len(state.operators)} operator"
        f"{'s' if len(state.operators) != 1 else ''}, {state.files:,} files, {bytes_text(state.size)}.{sampled}"
    )


def _stores(operator: StateOperator, prefix: str, limits: Limits) -> Markup:
    rows: list[list[Child]] = [
        [
            store.store,
            rows_text(store),
            bytes_text(store.size),
            _spread(store),
            versions_text(store),
            store.schema or "not known",
        ]
        for store in summarise(operator)
    ]
    return table(
        f"Stores of operator {operator.id}",
        ["Store", "Rows", "Bytes", "Largest partition", "Versions", "Columns"],
        rows,
        table_id=f"{prefix}table",
        limit=limits.rows,
        text_limit=limits.text * 4,
        left_out="stores",
    )


def _spread(store: StoreSummary) -> str:
    partition, size = store.largest
    skew = "" if store.skew is None else f", {store.skew:.1f} x the mean"
    return f"{partition} with {bytes_text(size)}{skew}"


def _operator(operator: StateOperator, prefix: str, limits: Limits) -> Markup:
    sizes: dict[int, int] = {}
    for (partition, _), versions in operator.stores.items():
        sizes[partition] = sizes.get(partition, 0) + versions.size
    table_id = f"{prefix}table"
    rows: list[list[Child]] = [
        [
            f"{partition} {store}" if len(operator.store_names) > 1 else str(partition),
            versions.files,
            versions.size,
            _version(versions.oldest),
            _version(versions.latest),
            len(versions.full),
        ]
        for (partition, store), versions in sorted(operator.stores.items())
    ]
    numbers = table(
        f"State of operator {operator.id} by partition",
        ["Partition", "Files", "Bytes", "Oldest version", "Newest version", "Snapshots"],
        rows,
        table_id=table_id,
        numbers=(1, 2, 3, 4, 5),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="stores",
    )
    if not sizes:
        return numbers
    shown = sorted(sizes.items())[:_BARS]
    total, largest = sum(sizes.values()), max(sizes, key=lambda partition: sizes[partition])
    caption = (
        f"Bytes on storage per partition: {bytes_text(total)} in {len(sizes)} partition"
        f"{'s' if len(sizes) != 1 else ''}, most in partition {largest} with {bytes_text(sizes[largest])}."
    )
    items = [Bar(str(partition), (size,), f"partition {partition}: {bytes_text(size)}") for partition, size in shown]
    folded = foldable("The same as a table", numbers, is_open=len(rows) <= 12)
    return figure(bars(items, "bytes", caption), caption, folded, table_id)


def _version(version: int | None) -> str | None:
    return None if version is None else str(version)
