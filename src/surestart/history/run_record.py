"""One run of one query as a row of `surestart_runs`, and what it looks like on the way in and out.

    run_id  event  environment  stage  query  checkpoint  place  query_id  sources  sinks  fingerprint  declaration …

A run has one row, written when it ends. Where a claim has to stand in the table itself (no shared lock file) it has a
second, earlier row of the event `started`; both carry the same run_id and `merge_events` makes one run of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

STARTED, ENDED, REMEDY = "started", "ended", "remedy"
FINISHED, FAILED, STOPPED, DIED = "finished", "failed", "stopped", "died"


@dataclass(frozen=True)
class RunRecord:
    """place: the checkpoint path in its canonical form.
    sinks, sources: target to table or topic id.
    outcome: "" for a run that has not ended, as far as is known.
    job_attempt: the task of the job run and how often it was started, `raw_ingest/2`.
    rows: None where nobody says how many: Spark Connect reports none of a function's batches.
    taken_over: the run whose place this one took, as a sentence.
    remedy, undoes: of a row of the event `remedy`, the digest of the remedy that was applied, or of the one that was
        taken back.
    metrics: one entry per batch, the newest of them; in the table's column only, not in the commit's note."""

    run_id: str
    event: str = STARTED
    pipeline: str = ""
    environment: str = ""
    stage: str = ""
    query: str = ""
    checkpoint: str = ""
    place: str = ""
    query_id: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    declaration: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    git_commit: str = ""
    spark: str = ""
    runtime: str = ""
    host: str = ""
    pid: int = 0
    process_started: str = ""
    job_run: str = ""
    job_url: str = ""
    job_attempt: str = ""
    started_at: int = 0
    ended_at: int | None = None
    outcome: str = ""
    error: str = ""
    first_batch: int | None = None
    last_batch: int | None = None
    batches: int = 0
    rows: int | None = None
    accepted: tuple[str, ...] = ()
    taken_over: str = ""
    epoch: int | None = None
    remedy: str = ""
    undoes: str = ""
    metrics: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def as_columns(self) -> dict[str, Any]:
        """Plain SQL values by column; nested ones as JSON text."""
        return {
            name: json.dumps(value, sort_keys=True) if name in _NESTED else value
            for name, value in self.as_dict().items()
        }

    def as_note(self) -> dict[str, Any]:
        """What the commit's note says of it: everything but the batches' metrics."""
        return {name: value for name, value in self.as_dict().items() if name != "metrics" and value not in _EMPTY}


TABLE = "surestart_runs"
# The key of a commit's note that repeats its rows.
NOTE = "surestart_runs"

# column -> SQL type, in the order in which a person reads a row
COLUMNS = {
    one.name: "BIGINT"
    if one.name in ("pid", "started_at", "ended_at", "first_batch", "last_batch", "batches", "rows", "epoch")
    else "STRING"
    for one in fields(RunRecord)
}
_NESTED = ("sources", "sinks", "declaration", "accepted", "metrics")
_KINDS: dict[str, type] = {"BIGINT": int, "STRING": str}
_EMPTY: tuple[object, ...] = ("", None, (), {})


def read_record(values: Mapping[str, Any]) -> RunRecord | None:
    """The record of a row or a note; None for one without a run id. Unknown columns are passed over."""
    known: dict[str, Any] = {}
    for name in COLUMNS:
        value = values.get(name)
        if value is None:
            continue
        if name in _NESTED and isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                continue
        if name in ("accepted", "metrics"):
            value = tuple(value) if isinstance(value, list | tuple) else ()
        elif not isinstance(value, _KINDS.get(COLUMNS[name], str) if name not in _NESTED else Mapping):
            continue
        known[name] = value
    return RunRecord(**known) if known.get("run_id") else None


def read_note(text: str) -> Iterator[RunRecord]:
    """The runs that a commit's note names; none for anybody else's note."""
    if f'"{NOTE}"' not in text:
        return
    try:
        rows = json.loads(text).get(NOTE)
    except (ValueError, AttributeError, RecursionError):
        return
    for row in rows if isinstance(rows, list) else ():
        record = read_record(row) if isinstance(row, dict) else None
        if record is not None:
            yield record


def merge_events(records: Iterable[RunRecord]) -> tuple[RunRecord, ...]:
    """One record per run, in the order in which the runs started; what ended counts over what started."""
    runs: dict[str, RunRecord] = {}
    for record in records:
        known = runs.get(record.run_id)
        if known is None or not known.outcome or record.outcome:
            runs[record.run_id] = record
    return tuple(sorted(runs.values(), key=lambda run: run.started_at))
