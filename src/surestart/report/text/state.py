"""State as plain text: what is in the checkpoint, then the rows, each on a line."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.stage_progress import watermark_ms
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_types import Array, Map, Struct, Type
from surestart.facts.checkpoint.state_versions import StoreSummary, ranges_text, summarise
from surestart.facts.state.check_files import CheckedStores
from surestart.facts.state.read_rows import ShownRows
from surestart.words.amounts import size_text, span_text, time_text
from surestart.words.inert import inert

FAULTS_SHOWN = 40


def write_text(write: Callable[[str], object], checkpoint: Checkpoint, stores: Sequence[ShownRows]) -> None:
    for line in _head(checkpoint, stores):
        write(f"{line}\n")
    for store in stores:
        for line in _store(store):
            write(f"{line}\n")


def watermark_text(checkpoint: Checkpoint, now_ms: float) -> str:
    mark = watermark_ms(checkpoint)
    if mark is None:
        return "none"
    return (
        f"{time_text(mark)}, {span_text(now_ms - mark)} ago" if mark <= now_ms else f"{time_text(mark)}, ahead of now"
    )


def state_in_a_line(checkpoint: Checkpoint) -> str:
    """All of a query's state: operators, rows where the files say them, bytes, watermark; "" where it has none."""
    state = checkpoint.state
    if not state.operators:
        return ""
    stores = [store for operator in state.operators for store in summarise(operator)]
    counted = [store.rows for store in stores if store.rows is not None]
    rows = f"{sum(counted):,} rows, " if len(counted) == len(stores) else ""
    operators = f"{len(state.operators)} operator{'s' if len(state.operators) != 1 else ''}"
    mark = watermark_text(checkpoint, time.time() * 1000)
    return f"{operators} ({state.provider or 'unknown provider'}), {rows}{size_text(state.size)}, watermark {mark}"


def store_lines(operator: StateOperator) -> Iterator[str]:
    """One paragraph for each store: rows, bytes, how they are spread, how far back one can go, columns."""
    for store in summarise(operator):
        yield f"{store_text(store)}; {versions_text(store)}"
        if store.schema:
            yield store.schema


def store_text(store: StoreSummary) -> str:
    name = "" if store.store == "default" else f"{store.store}: "
    partitions = f"{store.partitions} partition{'s' if store.partitions != 1 else ''}"
    spread = ""
    if store.partitions > 1 and store.skew is not None:
        spread = (
            f", most in partition {store.largest[0]} with {size_text(store.largest[1])} ({store.skew:.1f} x the mean)"
        )
    return f"{name}{rows_text(store)}, {size_text(store.size)} in {partitions}{spread}"


def rows_text(store: StoreSummary) -> str:
    if store.rows is None or store.rows_at is None:
        return "rows not counted in the files"
    first, last = store.rows_at
    at = f"version {last}" if first == last else f"versions {first} to {last}"
    return f"{store.rows:,} row{'s' if store.rows != 1 else ''} at {at}"


def versions_text(store: StoreSummary) -> str:
    if not store.loadable:
        return "no version is there in every partition"
    batches = ranges_text(tuple(version - 1 for version in store.loadable))
    snapshot = "no snapshot" if store.snapshot is None else f"newest snapshot {store.snapshot}"
    return f"versions {ranges_text(store.loadable)} are there, left by batches {batches}; {snapshot}"


def checked_lines(checkpoint: Checkpoint, found: Sequence[tuple[StateOperator, CheckedStores]]) -> Iterator[str]:
    yield f"checkpoint    {inert(checkpoint.location, 300)}"
    for operator, checked in found:
        yield ""
        yield inert(f"operator {operator.id}, {operator.name or 'of no name'}: {checked.files:,} state files read", 200)
        for store in checked.stores:
            yield f"  {inert(store.store, 100)}: {versions_text(store)}"
        for path, why in (*checked.damaged, *checked.unknown)[:FAULTS_SHOWN]:
            yield f"  {inert(path, 200)}: {inert(why, 300)}"
        if (left := len(checked.damaged) + len(checked.unknown) - FAULTS_SHOWN) > 0:
            yield f"  and {left:,} more files: --json lists them"


def _head(checkpoint: Checkpoint, stores: Sequence[ShownRows]) -> Iterator[str]:
    state = checkpoint.state
    yield f"checkpoint    {inert(checkpoint.location, 300)}"
    yield f"state         {state.provider or 'unknown provider'}{', format v2' if state.format_v2 else ''}"
    yield f"watermark     {watermark_text(checkpoint, time.time() * 1000)}"
    if stores:
        look = stores[0].look
        yield f"as of         batch {look.batch}, which wrote version {look.version}"


def _store(store: ShownRows) -> Iterator[str]:
    look = store.look
    name = f"operator {look.operator.id}, {look.operator.name or 'of no name'}"
    name += f", store {look.store}" if look.store != "default" else ""
    name += f", variable {look.variable}" if look.variable else ""
    yield ""
    yield inert(name, 200)
    if look.schema.key.fields or look.schema.value.fields:
        yield f"  {inert(look.schema.text, 4_000)}"
    for row in store:
        yield f"  {row.partition:>4}  {text_of(row.key, look.schema.key)} -> {text_of(row.value, look.schema.value)}"
    yield f"  {_end(store)}"
    for note in store.notes:
        yield f"  Note: {inert(note, 400)}"


def _end(store: ShownRows) -> str:
    rows = f"{store.shown:,} row{'s' if store.shown != 1 else ''}"
    if store.failure is not None:
        return f"{rows}; then it cannot be read: {inert(store.failure, 400)}"
    if store.more:
        return f"{rows}, and there are more: --limit 0 shows all"
    return rows if store.shown else "no row" if store.wanted is None else "no row has that key"


LINE_LIMIT = 2_000


def json_value(value: Any, kind: Type) -> Any:
    """A struct as an object, a map as a list of its entries, binary in hexadecimal, a decimal as text."""
    if value is None:
        return None
    if isinstance(kind, Struct):
        return json_struct(value, kind)
    if isinstance(kind, Array):
        return [json_value(item, kind.element) for item in value]
    if isinstance(kind, Map):
        return [{"key": json_value(key, kind.key), "value": json_value(item, kind.value)} for key, item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def json_struct(values: tuple[Any, ...], kind: Struct) -> dict[str, Any]:
    """A struct as an object, by the names of its columns. If two columns have one name, the later one has its place
    added."""
    found: dict[str, Any] = {}
    for place, (field, value) in enumerate(zip(kind.fields, values, strict=True)):
        found[field.name if field.name not in found else f"{field.name} ({place})"] = json_value(value, field.type)
    return found


def text_of(values: tuple[Any, ...], kind: Struct) -> str:
    """The value on one line, cut before it floods a terminal."""
    return inert(json.dumps(json_struct(values, kind), ensure_ascii=False), LINE_LIMIT)
