"""Recovery: from the start of a process, after kill -9, to the first new commit in its raw table.

start ──> some commits ──> kill -9 at an odd moment ──> start, the clock runs ──> first new commit, the clock stops
                                    └──────────────────── again, `kills` times ──────────────────────┘
then it may finish, and its tables are checked like everyone's
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bulk import check_ours
from benchmarks.check import check_answer, delta_files
from benchmarks.inputs import Input, make_input
from benchmarks.process import run_measured
from benchmarks.table import Line, Plan, at_most, median, spread


class Restart:
    """One system's restarts on one root. due() is asked about every tenth of a second while its process runs."""

    def __init__(self, data: Input, root: Path, log: Path, dice: random.Random) -> None:
        self.data, self.root, self.log, self.dice = data, root, log, dice

    def run(self, command: list[str], variables: dict[str, str]) -> float:
        """Killed a random while after its first new commit; the seconds that commit took to appear."""
        before, began = _version(self.log), time.monotonic()
        appeared = linger = 0.0

        def due() -> bool:
            nonlocal appeared, linger
            if not appeared and _version(self.log) > before:
                appeared, linger = time.monotonic() - began, self.dice.uniform(0.0, 1.5)
            return bool(appeared) and time.monotonic() - began > appeared + linger

        if run_measured(command, variables=variables, kill_when=due).ended is not None:
            raise RuntimeError(f"{self.root} had nothing left to do before it could be killed: give it more files")
        return appeared


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    # Tiny files, one a batch, and more of them than all restarts together can use up.
    data = make_input(work, 0, tiny_files=60 + 25 * plan.kills, tiny=50)
    systems = {
        "ours": (["-m", "surestart", "run", "all", "--no-count"], "tables/sensor_raw"),
        "naive": (["-m", "benchmarks.naive"], "raw"),
    }
    found: dict[str, list[float]] = {name: [] for name in systems}
    dice = random.Random(7)
    for name in systems:
        shutil.rmtree(work / f"recovery-{name}", ignore_errors=True)
    for number in range(plan.kills + 1):
        for name, (command, table) in systems.items():
            root = work / f"recovery-{name}"
            restart = Restart(data, root, root / table / "_delta_log", dice)
            seconds = restart.run(command + _rest(name, root, data, "1"), _variables(data))
            # The first start is no restart: it creates tables and checkpoints.
            if number:
                found[name].append(seconds)
                say(f"recovery {number}: {name} {seconds:.1f} s")
    for name, (command, _) in systems.items():
        root = work / f"recovery-{name}"
        run_measured(command + _rest(name, root, data, "1000"), variables=_variables(data))
        if name == "ours":
            check_ours(data, root)
        else:
            check_answer(data, raw=delta_files(root / "raw"), gold=delta_files(root / "gold"))
        shutil.rmtree(root, ignore_errors=True)
    ratio = median(found["ours"]) / median(found["naive"])
    measure = "kill -9 to the first new commit"
    return [
        Line(measure, "ours", spread(found["ours"]), f"{ratio:.2f}x naive", *at_most(ratio, 0.65)),
        Line(measure, "naive", spread(found["naive"])),
    ]


def _rest(name: str, root: Path, data: Input, files: str) -> list[str]:
    if name == "ours":
        return ["--root", str(root), "--set", f"max_files_per_trigger={files}"]
    return [str(root), str(data.landing), "--files", files]


def _variables(data: Input) -> dict[str, str]:
    return {"SURESTART_LANDING": str(data.landing)}


def _version(log: Path) -> int:
    """The newest commit; -1 while there is none. Version 0 creates the table and is no batch's."""
    return max((int(path.stem) for path in log.glob("*.json") if path.stem.isdecimal()), default=0)
