"""Runs of an environment as a table of at most 80 columns, the newest last, and as one JSON object.

started (UTC)     stage         batches        rows     took  how it ended
2026-11-18 14:02  raw-ingest    0-9         200,000     12 s  finished
2026-11-18 14:05  raw-ingest    10                -        -  died
    took over from run 6f1c… (process 71 on host, since …): process 71 has gone
    Spark           4.1, before 4.0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from surestart.environment import Environment
from surestart.history.run_record import REMEDY, RunRecord
from surestart.runs.owner import Life, OwnerState, describe_owner
from surestart.spark.spark_lines import find_line
from surestart.typed import Place, Words, surestart
from surestart.words.amounts import time_text
from surestart.words.finding import labelled
from surestart.words.inert import inert


def render_history(
    environment: Environment, runs: Sequence[RunRecord], states: Mapping[str, OwnerState], now: int, options: Words = ()
) -> str:
    return "\n".join(_lines(environment, runs, states, now, options)) + "\n"


def history_object(
    environment: Environment, runs: Sequence[RunRecord], states: Mapping[str, OwnerState]
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "pipeline": environment.pipeline,
        "environment": environment.name,
        "runs": [
            {
                **run.as_dict(),
                "spark_line": line.name if (line := find_line(run.spark)) else None,
                "live": states[run.run_id].life.value if run.run_id in states else None,
            }
            for run in runs
        ],
    }


def _lines(
    environment: Environment, runs: Sequence[RunRecord], states: Mapping[str, OwnerState], now: int, options: Words
) -> Iterator[str]:
    yield f"{environment.pipeline} · {environment.name}"
    yield ""
    if not runs:
        yield "No run is recorded yet."
        yield ""
        yield f"Next: {environment.begin_command(options)}"
        return
    width = max(len(inert(run.stage, 20)) for run in runs)
    yield f"  {'started (UTC)':<16}  {'stage':<{width}}  {'batches':<11}  {'rows':>11}  {'took':>6}  how it ended"
    lines: dict[str, str] = {}
    for run in runs:
        took = _span((run.ended_at or now) - run.started_at) if run.ended_at or run.run_id in states else "-"
        rows = f"{run.rows:,}" if run.rows else "-"
        head = f"  {time_text(run.started_at)[:16]}  {inert(run.stage, 20):<{width}}  {_batches(run):<11}"
        yield f"{head}  {rows:>11}  {took:>6}  {_ending(run, states.get(run.run_id))}"
        if run.taken_over:
            yield from labelled("took over from", inert(run.taken_over, 300), indent=6)
        if run.accepted:
            label = "of" if run.event == REMEDY else "accepted"
            yield from labelled(label, inert(", ".join(run.accepted), 200), indent=6)
        if said := _line_said(run, lines):
            yield from labelled("Spark", said, indent=6)
        if run.run_id in states:
            yield from labelled("owner", inert(f"{describe_owner(run)}: {states[run.run_id].why}", 300), indent=6)
    yield ""
    yield f"Next: {surestart('doctor', place=Place(environment.name, options))}"


def _line_said(run: RunRecord, before: dict[str, str]) -> str:
    """Where the query's run before had another line of Spark, and where it is none that is known. before: the lines
    that were said last, by query."""
    if not run.spark:
        return ""
    line = find_line(run.spark)
    name = line.name if line else f"{inert(run.spark, 40)}, of no known line"
    former = before.get(run.query, name if line else "")
    before[run.query] = name
    return "" if name == former else f"{name}, before {former}" if former else name


def _ending(run: RunRecord, state: OwnerState | None) -> str:
    if state is not None:
        return {Life.ALIVE: "RUNNING", Life.PAUSED: "PAUSED", Life.DEAD: "died"}.get(state.life, "running, or died")
    if run.event == REMEDY:
        return inert(f"remedy {run.outcome}", 30)
    return inert(f"{run.outcome}: {run.error}" if run.error else run.outcome or "unknown", 40)


def _batches(run: RunRecord) -> str:
    if run.last_batch is None:
        return "none"
    if run.first_batch is None:
        return f"to {run.last_batch}"
    return f"{run.first_batch}" if run.first_batch == run.last_batch else f"{run.first_batch}-{run.last_batch}"


def _span(milliseconds: int) -> str:
    seconds = max(milliseconds, 0) // 1000
    if seconds < 600:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 36_000 else f"{seconds // 3600} h"
