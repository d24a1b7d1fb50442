"""Growth: whether batch 1000 costs more than batch 100, and a MERGE more into a table 20 times as large."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.bulk import check_ours
from benchmarks.inputs import Input, make_input
from benchmarks.process import run_measured
from benchmarks.table import Line, Plan, at_most, median, spread


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    return [*_batches(work, plan, say), *_merge(work, plan, say)]


def _batches(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    """Raw appends of ten records each, one after another in one process."""
    count = plan.growth_batches
    data = make_input(work, 0, tiny_files=count)
    reports = _run(data, work / "growth", "--stages", "raw-ingest")
    seconds = [float(report["seconds"]) for report in reports]
    tenth = count // 10
    early, late = seconds[tenth : 2 * tenth], seconds[-tenth:]
    times = median(late) / median(early)
    say(f"growth: {median(early):.3f} s, then {median(late):.3f} s")
    measure = f"raw append, batch {count} against batch {tenth}"
    value = f"{median(late):.3f} s after {median(early):.3f} s"
    # One batch in a hundred writes a table checkpoint; a median of a tenth of the batches does not see it.
    return [Line(measure, "ours", value, f"{times:.2f}x", *at_most(times, 1.1))]


def _merge(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    lines, medians = [], []
    for base in (plan.merge_base, plan.merge_base * plan.merge_factor):
        data = make_input(work, base, tiny_files=plan.tiny_warm_up + plan.tiny_batches)
        root = work / "merge"
        reports = [report for report in _run(data, root, keep=True) if report["stage"] == "merge-gold"]
        check_ours(data, root)
        shutil.rmtree(root, ignore_errors=True)
        seconds = [float(report["seconds"]) for report in reports[-plan.tiny_batches :]]
        medians.append(median(seconds))
        times = f"{medians[-1] / medians[0]:.2f}x" if len(medians) > 1 else ""
        lines.append(Line(f"tiny MERGE into {data.keys:,} rows", "ours", spread(seconds), times))
        say(f"growth: MERGE into {data.keys:,} rows {medians[-1]:.3f} s")
    return lines


def _run(data: Input, root: Path, *options: str, keep: bool = False) -> list[dict[str, object]]:
    shutil.rmtree(root, ignore_errors=True)
    done = run_measured(["-m", "benchmarks.ours", str(root), str(data.landing), "--one-file", *options])
    if not keep:
        shutil.rmtree(root, ignore_errors=True)
    return [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
