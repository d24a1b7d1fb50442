"""What Spark reported of former batches (StreamingQueryProgress), for durations and lag that no checkpoint holds.

    {"batchId":41,"timestamp":"…","numInputRows":9000,"durationMs":{"addBatch":800,"walCommit":30,…,"triggerExecution":900},
     "sources":[{"endOffset":{"orders":{"0":510}},"latestOffset":{"orders":{"0":640}}, …}], …}

One object per line, an array, or a driver log in which Spark wrote "Streaming query made progress: {…}" over many
lines. Anything else in the text is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from surestart.errors import UsageError
from surestart.facts.checkpoint.positions import Position, read_position
from surestart.typed import in_the_code, surestart

TEXT_LIMIT = 64 << 20
_OBJECT_LIMIT = 1 << 20
# A log full of braces that are no progress would be decoded again and again.
_MISSES = 500
_START = re.compile(r"^(?=\{)|(?<=progress: )(?=\{)", re.M)


@dataclass(frozen=True)
class BatchFacts:
    """One batch as Spark reported it.

    query_id: '' when it does not say.
    at: when it began, in ms since 1970.
    parts: its phases in ms.
    ends, latest: by the source's place in the query.
    behind: what the sources say of their lag."""

    batch: int
    query_id: str = ""
    rows: int | None = None
    total_ms: int | None = None
    parts: Mapping[str, int] | None = None
    ends: tuple[Position | None, ...] = ()
    latest: tuple[Position | None, ...] = ()
    at: int | None = None
    behind: Mapping[str, float] = field(default_factory=dict)


def read_progress_text(text: str) -> tuple[BatchFacts, ...]:
    """Every batch that the text reports, by query and batch, the last report of each."""
    text = text[:TEXT_LIMIT]
    try:
        whole = json.loads(text)
        return read_progress(whole if isinstance(whole, list) else [whole])
    except (ValueError, RecursionError):
        pass  # not one JSON value: lines, or a log
    decoder = json.JSONDecoder()
    found: list[Any] = []
    end = misses = 0
    for start in _START.finditer(text):
        at = start.end()
        if at < end or misses > _MISSES:
            continue
        try:
            value, length = decoder.raw_decode(text[at : at + _OBJECT_LIMIT])
        except (ValueError, RecursionError):
            misses += 1
            continue
        end = at + length
        found.append(value)
    return read_progress(found)


def read_progress(reports: Iterable[Any]) -> tuple[BatchFacts, ...]:
    """From progress objects as `json.loads(query.lastProgress.json)` gives them."""
    found = {(facts.query_id, facts.batch): facts for report in reports if (facts := _facts(report)) is not None}
    return tuple(found[key] for key in sorted(found))


def read_progress_file(path: str) -> tuple[BatchFacts, ...]:
    """As `read_progress_text`; refuses a file that cannot be read or reports no batch."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            found = read_progress_text(file.read(TEXT_LIMIT))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            meaning="Without it the page has no durations; everything else does not need it.",
            next=surestart("inspect", "--help", note="leave out --progress"),
        ) from error
    if not found:
        raise UsageError(
            f"{path} reports no batch",
            meaning='It holds no object with "batchId", as Spark reports progress.',
            next=in_the_code("print(query.lastProgress.json), one line for each batch"),
        )
    return found


def of_query(facts: Iterable[BatchFacts], query_id: str | None) -> tuple[BatchFacts, ...]:
    """The batches of one query: a driver's log holds several queries, and the file may be of another query
    altogether."""
    return tuple(one for one in facts if one.query_id in ("", query_id))


def _facts(report: Any) -> BatchFacts | None:
    if not isinstance(report, Mapping):
        return None
    batch = _number(report.get("batchId"))
    if batch is None:
        return None
    durations = report.get("durationMs")
    parts = {}
    if isinstance(durations, Mapping):
        parts = {str(name): ms for name, value in durations.items() if (ms := _number(value)) is not None}
    sources = report.get("sources")
    known = [source for source in sources if isinstance(source, Mapping)] if isinstance(sources, list) else []
    total = parts.pop("triggerExecution", None)
    return BatchFacts(
        batch=batch,
        query_id=str(report.get("id") or "")[:64],
        rows=_number(report.get("numInputRows")),
        total_ms=total if total is not None else _number(report.get("batchDuration")),
        parts=parts,
        ends=tuple(_position(source.get("endOffset")) for source in known),
        latest=tuple(_position(source.get("latestOffset")) for source in known),
        at=_time(report.get("timestamp")),
        behind=_behind(source.get("metrics") for source in known),
    )


def read_run_metrics(query_id: str, metrics: Iterable[Any]) -> tuple[BatchFacts, ...]:
    """From what the run history keeps of each batch (`surestart_runs`, column metrics)."""
    found: dict[int, BatchFacts] = {}
    for metric in metrics:
        batch = _number(metric.get("batch")) if isinstance(metric, Mapping) else None
        if batch is None:
            continue
        phases = metric.get("phases")
        parts = (
            {str(name): ms for name, value in phases.items() if (ms := _number(value)) is not None}
            if isinstance(phases, Mapping)
            else {}
        )
        parts.pop("triggerExecution", None)
        found[batch] = BatchFacts(
            batch=batch,
            query_id=query_id,
            rows=_number(metric.get("rows")),
            total_ms=_number(metric.get("ms")),
            parts=parts,
            at=_time(metric.get("at")),
            behind=_behind([metric.get("lag")]),
        )
    return tuple(found[batch] for batch in sorted(found))


def _time(value: Any) -> int | None:
    """Spark writes "2026-11-18T10:00:00.000Z"."""
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def _behind(said: Iterable[Any]) -> dict[str, float]:
    """Kafka's source gives its numbers as texts. Of several sources the one that is furthest behind counts."""
    found: dict[str, float] = {}
    for metrics in said:
        for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if 0 <= number < 1 << 62:
                found[str(name)[:64]] = max(number, found.get(str(name)[:64], 0.0))
    return found


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _position(value: Any) -> Position | None:
    if value is None:
        return None
    return read_position(value if isinstance(value, str) else json.dumps(value))
