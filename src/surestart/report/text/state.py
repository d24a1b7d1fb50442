"""State as plain text: what is in the checkpoint, then the rows, each on a line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_schema import schema_text
from surestart.facts.checkpoint.watermark import watermark_ms
from surestart.facts.state.shown import ShownRows
from surestart.report.state_values import text_of
from surestart.words.inert import inert
from surestart.words.time_text import span_text, time_text


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
    yield f"  {inert(schema_text((look.schema,)), 4_000)}"
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
    return rows if store.shown else "no row"
