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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surestart.checkpoint.positions import Position, read_position
from surestart.errors import UsageError

TEXT_LIMIT = 64 << 20
_OBJECT_LIMIT = 1 << 20
# A log full of braces that are no progress would be decoded again and again.
_MISSES = 500
_START = re.compile(r"^(?=\{)|(?<=progress: )(?=\{)", re.M)


@dataclass(frozen=True)
class BatchFacts:
    """One batch as Spark reported it. query_id: '' when it does not say. parts: its phases in
    ms. ends, latest: by the source's place in the query."""

    batch: int
    query_id: str = ""
    rows: int | None = None
    total_ms: int | None = None
    parts: Mapping[str, int] | None = None
    ends: tuple[Position | None, ...] = ()
    latest: tuple[Position | None, ...] = ()


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
            next="surestart inspect --help   # leave out --progress",
        ) from error
    if not found:
        raise UsageError(
            f"{path} reports no batch",
            meaning='It holds no object with "batchId", as Spark reports progress.',
            next="in the notebook or application: print(query.lastProgress.json)   # one line per batch",
        )
    return found


def of_query(facts: Iterable[BatchFacts], query_id: str | None) -> tuple[BatchFacts, ...]:
    """Those of one query: a driver's log holds several, and the file may be another query's altogether."""
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
    )


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _position(value: Any) -> Position | None:
    if value is None:
        return None
    return read_position(value if isinstance(value, str) else json.dumps(value))
