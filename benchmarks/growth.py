"""Growth: whether batch 1000 costs more than batch 100. Raw appends of ten records each, in one process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.check import check_raw, delta_files
from benchmarks.inputs import Input, make_input
from benchmarks.process import run_measured
from benchmarks.table import Line, Plan, at_most, median


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    count = plan.growth_batches
    data = make_input(work, 0, tiny_files=count)
    root = work / "growth"
    reports = run_ours(data, root, "--stages", "raw-ingest")
    check_raw(data, delta_files(root / "tables" / "sensor_raw"))
    shutil.rmtree(root, ignore_errors=True)
    seconds = [float(report["seconds"]) for report in reports]
    tenth = count // 10
    early, late = seconds[tenth : 2 * tenth], seconds[-tenth:]
    times = median(late) / median(early)
    say(f"growth: {median(early):.3f} s, then {median(late):.3f} s")
    measure = f"raw append, batch {count} against batch {tenth}"
    value = f"{median(late):.3f} s after {median(early):.3f} s"
    # One batch in a hundred writes a table checkpoint; a median of a tenth of the batches does not see it.
    return [Line(measure, "ours", value, f"{times:.2f}x", *at_most(times, 1.1))]


def run_ours(data: Input, root: Path, *options: str) -> list[dict[str, Any]]:
    """The reports of all batches, one file each. The tables are left at root."""
    shutil.rmtree(root, ignore_errors=True)
    done = run_measured(["-m", "benchmarks.ours", str(root), str(data.landing), "--one-file", *options])
    return [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
