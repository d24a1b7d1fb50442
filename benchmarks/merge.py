"""Whether a MERGE of ten rows costs more into a table twenty times as large."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.bulk import check_ours
from benchmarks.growth import run_ours
from benchmarks.inputs import make_input
from benchmarks.table import Line, Plan, median, spread


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    lines, medians = [], []
    for base in (plan.merge_base, plan.merge_base * plan.merge_factor):
        data = make_input(work, base, per_file=200_000, tiny_files=plan.tiny_warm_up + plan.tiny_batches)
        root = work / "merge"
        reports = [report for report in run_ours(data, root) if report["stage"] == "merge-gold"]
        check_ours(data, root)
        shutil.rmtree(root, ignore_errors=True)
        seconds = [float(report["seconds"]) for report in reports[-plan.tiny_batches :]]
        medians.append(median(seconds))
        times = f"{medians[-1] / medians[0]:.2f}x" if len(medians) > 1 else ""
        lines.append(Line(f"tiny MERGE into {data.keys:,} rows", "ours", spread(seconds), times))
        say(f"merge: into {data.keys:,} rows {medians[-1]:.3f} s")
    return lines
