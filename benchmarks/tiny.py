"""Tiny batches of ten records: their time from trigger to commit, and their tasks from Spark's event log.

Raw appends, and MERGEs into a gold table of about 10,000 rows. Each stage runs alone in a warm JVM, one file a batch;
the first batches are left out. Of raw appends ten, then forty are measured; of MERGEs fewer, because one of naive's
takes ten seconds. Rounds alternate between the systems.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.bulk import check_ours
from benchmarks.check import check_answer, check_raw, delta_files
from benchmarks.event_log import read_batch_tasks
from benchmarks.inputs import Input, make_input
from benchmarks.process import run_measured
from benchmarks.table import Line, Plan, at_least, at_most, median, spread

RAW_TASKS, MERGE_TASKS = 6, 22
_STAGES = {
    "raw append": {"ours": "raw-ingest", "naive": "raw", "delta-rs": "raw"},
    "MERGE": {"ours": "merge-gold", "naive": "gold", "delta-rs": "gold"},
}
_SYSTEMS = ("ours", "naive", "delta-rs")
_Times = dict[tuple[str, str], list[float]]
_Tasks = dict[tuple[str, str], list[int]]


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    seconds: _Times = {}
    tasks: _Tasks = {}
    kinds = {
        "raw append": (make_input(work, 0, tiny_files=10 + plan.tiny_appends), plan.tiny_appends),
        "MERGE": (
            make_input(work, plan.tiny_base, tiny_files=plan.tiny_warm_up + plan.tiny_batches),
            plan.tiny_batches,
        ),
    }
    for number in range(plan.tiny_rounds):
        for kind, (data, batches) in kinds.items():
            for system in _SYSTEMS:
                _measure_one(work, system, kind, data, batches, number == 0, seconds, tasks)
                latest = seconds[system, kind][-batches:]
                say(f"tiny round {number + 1}: {system} {kind} {median(latest):.3f} s")
    return _lines(seconds, tasks)


def _measure_one(
    work: Path, system: str, kind: str, data: Input, batches: int, first: bool, seconds: _Times, tasks: _Tasks
) -> None:
    root, events = work / f"tiny-{system}", work / f"tiny-{system}-events"
    for folder in (root, events):
        shutil.rmtree(folder, ignore_errors=True)
    # The event log costs some milliseconds a batch; both write it in the same round.
    counting = first and system != "delta-rs"
    stage = _STAGES[kind][system]
    only = stage if kind == "raw append" and system != "delta-rs" else ""
    reports = run_once(system, data, root, events if counting else None, only)
    if only:
        ours = system == "ours"
        check_raw(data, delta_files(root / ("tables/sensor_raw" if ours else "raw")), positions=ours)
    else:
        _check(system, data, root)
    measured = [line for line in reports if line["stage"] == stage][-batches:]
    seconds.setdefault((system, kind), []).extend(float(str(line["seconds"])) for line in measured)
    if counting:
        wanted = {(line["query_id"], line["batch"]) for line in measured}
        tasks[system, kind] = [
            batch.tasks
            for batch in read_batch_tasks(events)
            if (batch.query_id, batch.batch) in wanted and not batch.writes_checkpoint
        ]
    for folder in (root, events):
        shutil.rmtree(folder, ignore_errors=True)


def run_once(system: str, data: Input, root: Path, events: Path | None, only: str = "") -> list[dict[str, object]]:
    """One report per batch, in the order in which the batches ended. only: the one stage that runs."""
    module = {"ours": "ours", "naive": "naive", "delta-rs": "delta_rs"}[system]
    arguments = ["-m", f"benchmarks.{module}", str(root), str(data.landing), "--one-file"]
    if events is not None:
        arguments += ["--event-log", str(events)]
    if only:
        arguments += ["--stages", only]
    return [json.loads(line) for line in run_measured(arguments).output.splitlines() if line.startswith("{")]


def _check(system: str, data: Input, root: Path) -> None:
    if system == "ours":
        check_ours(data, root)
    else:
        check_answer(data, raw=delta_files(root / "raw"), gold=delta_files(root / "gold"))


def _lines(seconds: _Times, tasks: _Tasks) -> list[Line]:
    lines = []
    for kind, most, times in (("raw append", RAW_TASKS, 5.0), ("MERGE", MERGE_TASKS, 4.0)):
        for system in _SYSTEMS:
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
