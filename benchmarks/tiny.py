"""Tiny batches of ten records: their time from trigger to commit, and their tasks from Spark's event log.

Raw appends, and MERGEs into a gold table of about 10,000 rows. Each stage runs alone in a warm JVM, one file a batch;
the first batches are left out. Rounds alternate between the systems.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.bulk import check_ours
from benchmarks.check import check_answer, delta_files
from benchmarks.event_log import read_batch_tasks
from benchmarks.inputs import Input, make_input
from benchmarks.process import run_measured
from benchmarks.table import Line, Plan, at_least, at_most, median, spread

RAW_TASKS, MERGE_TASKS = 6, 22
_STAGES = {
    "ours": {"raw-ingest": "raw append", "merge-gold": "MERGE"},
    "naive": {"raw": "raw append", "gold": "MERGE"},
    "delta-rs": {"raw": "raw append", "gold": "MERGE"},
}


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    data = make_input(work, plan.tiny_base, tiny_files=plan.tiny_warm_up + plan.tiny_batches)
    seconds: dict[tuple[str, str], list[float]] = {}
    tasks: dict[tuple[str, str], list[int]] = {}
    for number in range(plan.tiny_rounds):
        for system in _STAGES:
            root, events = work / f"tiny-{system}", work / f"tiny-{system}-events"
            shutil.rmtree(root, ignore_errors=True)
            shutil.rmtree(events, ignore_errors=True)
            # The event log costs some milliseconds a batch; both write it in the same round.
            counting = number == 0 and system != "delta-rs"
            reports = run_once(system, data, root, events if counting else None)
            _check(system, data, root)
            for stage, kind in _STAGES[system].items():
                measured = [line for line in reports if line["stage"] == stage][-plan.tiny_batches :]
                seconds.setdefault((system, kind), []).extend(line["seconds"] for line in measured)
                say(f"tiny round {number + 1}: {system} {kind} {median([line['seconds'] for line in measured]):.3f} s")
                if counting:
                    wanted = {(line["query_id"], line["batch"]) for line in measured}
                    tasks[system, kind] = [
                        batch.tasks
                        for batch in read_batch_tasks(events)
                        if (batch.query_id, batch.batch) in wanted and not batch.writes_checkpoint
                    ]
            shutil.rmtree(root, ignore_errors=True)
            shutil.rmtree(events, ignore_errors=True)
    return _lines(seconds, tasks)


def run_once(system: str, data: Input, root: Path, events: Path | None) -> list[dict[str, object]]:
    """One report per batch, in the order in which the batches ended."""
    module = {"ours": "ours", "naive": "naive", "delta-rs": "delta_rs"}[system]
    arguments = ["-m", f"benchmarks.{module}", str(root), str(data.landing), "--one-file"]
    if events is not None:
        arguments += ["--event-log", str(events)]
    return [json.loads(line) for line in run_measured(arguments).output.splitlines() if line.startswith("{")]


def _check(system: str, data: Input, root: Path) -> None:
    if system == "ours":
        check_ours(data, root)
    else:
        check_answer(data, raw=delta_files(root / "raw"), gold=delta_files(root / "gold"))


def _lines(seconds: dict[tuple[str, str], list[float]], tasks: dict[tuple[str, str], list[int]]) -> list[Line]:
    lines = []
    for kind, most, times in (("raw append", RAW_TASKS, 5.0), ("MERGE", MERGE_TASKS, 4.0)):
        for system in _STAGES:
            ratio, bar = "", ("", None)
            if system == "ours":
                faster = median(seconds["naive", kind]) / median(seconds["ours", kind])
                ratio, bar = f"{faster:.1f}x naive", at_least(faster, times)
            lines.append(Line(f"tiny batch, {kind}", system, spread(seconds[system, kind]), ratio, *bar))
        for system in ("ours", "naive"):
            counts = tasks[system, kind]
            bar = at_most(max(counts), most, " tasks") if system == "ours" else ("", None)
            value = f"{median(counts):.0f} (at most {max(counts)})"
            lines.append(Line(f"tasks of a tiny batch, {kind}", system, value, "", *bar))
    return lines
