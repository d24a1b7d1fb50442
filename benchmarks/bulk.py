"""Bulk: all systems from process start to exit on the same landed files, cold, and the memory they took.

Each round runs every system once, back to back; ratios are of the medians over the rounds. The systems that no bar
is set against run in the first round only.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.check import check_answer, check_positions, delta_files, parquet_files
from benchmarks.inputs import Input, make_input
from benchmarks.process import Measured, run_measured
from benchmarks.table import Line, Plan, at_least, at_most, median, spread

# The pipeline's own setting for a first load: a batch is 100 files, half a million readings.
FILES_PER_BATCH = "100"


@dataclass(frozen=True)
class System:
    name: str
    run: Callable[[Input, Path], Measured]
    check: Callable[[Input, Path], None]
    every_round: bool = True


def run_ours(data: Input, root: Path) -> Measured:
    """What a person types; the independent count is left out because it is the check's work here."""
    settings = ["--root", str(root), "--set", f"max_files_per_trigger={FILES_PER_BATCH}", "--no-count"]
    return run_measured(
        ["-m", "surestart", "run", "all", *settings], variables={"SURESTART_LANDING": str(data.landing)}
    )


def check_ours(data: Input, root: Path) -> None:
    tables = {
        name: delta_files(root / "tables" / name)
        for name in ("sensor_raw", "sensor_readings_deserialized", "sensor_quarantine", "sensor_gold")
    }
    check_answer(data, raw=tables["sensor_raw"], gold=tables["sensor_gold"])
    check_positions(tables["sensor_raw"], tables["sensor_readings_deserialized"], tables["sensor_quarantine"])


def _module(name: str) -> Callable[[Input, Path], Measured]:
    return lambda data, root: run_measured(["-m", f"benchmarks.{name}", str(root), str(data.landing)])


def _check_delta(data: Input, root: Path) -> None:
    check_answer(data, raw=delta_files(root / "raw"), gold=delta_files(root / "gold"))


SYSTEMS = (
    System("ours", run_ours, check_ours),
    System("naive", _module("naive"), _check_delta),
    System("Spark batch", _module("spark_batch"), _check_delta),
    System("delta-rs", _module("delta_rs"), _check_delta, every_round=False),
    System("DuckDB", _module("duck"), lambda data, root: check_answer(data, raw=None, gold=parquet_files(root)), False),
)


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    data = make_input(work, plan.readings)
    found: dict[str, list[Measured]] = {system.name: [] for system in SYSTEMS}
    failed: dict[str, str] = {}
    for number in range(plan.repeats):
        for system in SYSTEMS:
            if system.name in failed or (number and not system.every_round):
                continue
            root = work / f"bulk-{system.name.replace(' ', '-')}"
            shutil.rmtree(root, ignore_errors=True)
            try:
                measured = system.run(data, root)
                system.check(data, root)
            except RuntimeError as problem:
                failed[system.name] = str(problem)
                say(f"bulk: {system.name} is not reported: {problem}")
                continue
            found[system.name].append(measured)
            shutil.rmtree(root, ignore_errors=True)
            say(
                f"bulk round {number + 1}: {system.name} {measured.seconds:.1f} s, "
                f"{measured.cpu_seconds:.1f} CPU s, {measured.peak_bytes / 1e9:.2f} GB"
            )
    return _lines(plan, {name: runs for name, runs in found.items() if name not in failed}, failed)


def _lines(plan: Plan, found: dict[str, list[Measured]], failed: dict[str, str]) -> list[Line]:
    seconds = {name: median([run.seconds for run in runs]) for name, runs in found.items()}
    lines = []
    for system in SYSTEMS:
        measure = f"bulk of {plan.readings:,}, cold"
        if system.name in failed:
            lines.append(Line(measure, system.name, "wrong or failed, not reported", met=False))
            continue
        runs = found[system.name]
        value = (
            f"{spread([run.seconds for run in runs])}, {plan.readings / seconds[system.name] / 1000:.1f} k/s, "
            f"{median([run.cpu_seconds for run in runs]):.0f} CPU s"
        )
        lines.append(Line(measure, system.name, value))
        if system.name == "ours":
            for other, bar in (("naive", 1.7), ("Spark batch", 0.8)):
                if other in seconds:
                    times = seconds[other] / seconds["ours"]
                    lines.append(Line(measure, "ours", "", f"{times:.2f}x {other}", *at_least(times, bar)))
    for name, runs in found.items():
        peak = max(run.peak_bytes for run in runs) / 1e9
        met = at_most(peak, 2.0, " GB") if name == "ours" else ("", None)
        lines.append(Line("peak memory in bulk, all processes", name, f"{peak:.2f} GB", "", *met))
    return lines
