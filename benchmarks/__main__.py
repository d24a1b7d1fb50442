"""`python -m benchmarks [names…] [--quick]`: measures, checks every answer first, prints one table.

bulk       all readings through all systems, cold; peak memory
tiny       batches of ten records: time and tasks
growth     batch 1000 against batch 100; MERGE into a table 20 times as large
recovery   kill -9 to the first new commit
positions  what keeping each record's file and line costs
postgres postgres_faults inspection state fleet hostile gate guard remedies rewind
           scripts beside this one, whose tables end up in the one table

Exit code 1 when a bar is missed or a section failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from benchmarks.machine import calibrate, load_average
from benchmarks.scripts import run_script
from benchmarks.table import FULL, QUICK, Line, Plan, format_table

OWN = ("tiny", "bulk", "recovery", "growth", "merge", "positions")
OTHERS = (
    "postgres",
    "postgres_faults",
    "inspection",
    "state",
    "fleet",
    "hostile",
    "gate",
    "guard",
    "remedies",
    "rewind",
)
SMALL = {
    "postgres": ("--rows", "20000", "--repeats", "1"),
    "postgres_faults": ("--rows", "50", "--faults", "2"),
    "inspection": (),
    "state": ("8",),
    "fleet": ("100", "300"),
    "hostile": ("a line of lists", "20,000 commits"),
    "gate": ("2", "2000", "1000"),
    "guard": ("2", "5"),
    "remedies": ("20000", "2"),
    "rewind": ("20000", "8"),
}
Section = Callable[[Path, Plan, Callable[[str], None]], list[Line]]
_HERE = Path(__file__).parent


def main() -> int:
    there = tuple(name for name in OTHERS if (_HERE / f"{name}.py").exists())
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures and prints one table.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(OWN + there)} (default: all)")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, one round: shows that it runs, proves nothing"
    )
    parser.add_argument("--readings", type=int, help="readings of the bulk and positions sections")
    parser.add_argument("--repeats", type=int, help="rounds")
    parser.add_argument("--kills", type=int, help="restarts of the recovery section")
    parser.add_argument("--batches", type=int, help="batches of the growth section")
    parser.add_argument("--work", type=Path, default=Path(".surestart/bench"), help="folder for inputs and tables")
    args = parser.parse_args()
    unknown = set(args.names) - set(OWN + there)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(OWN + there)}")
    names = [name for name in (*OWN, *there) if name in (args.names or (*OWN, *there))]
    plan = _plan(args)
    work = args.work.absolute()
    work.mkdir(parents=True, exist_ok=True)

    # Without this a terminated run would leave the system that it is measuring behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    loads, calibrations = [load_average()], [calibrate()]
    lines: list[Line] = []
    for name in names:
        _say(f"== {name}")
        began = time.monotonic()
        try:
            if name in OWN:
                section: Section = import_module(f"benchmarks.{name}").measure
                lines += section(work, plan, _say)
            else:
                lines += run_script(name, SMALL[name] if args.quick else ())
        except Exception as problem:  # noqa: BLE001 - reported as a line of the table, and the exit code says so
            lines.append(Line(name, "", f"failed: {str(problem).strip().splitlines()[-1][:120]}", met=False))
            _say(f"{name} failed: {problem}")
        loads.append(load_average())
        calibrations.append(calibrate())
        _say(f"== {name} took {_minutes(began)}")
    print(_heading(plan, loads, calibrations, args.quick))
    print(format_table(lines))
    return 1 if any(line.met is False for line in lines) else 0


def _minutes(began: float) -> str:
    return f"{(time.monotonic() - began) / 60:.1f} min"


def _plan(args: argparse.Namespace) -> Plan:
    plan = QUICK if args.quick else FULL
    return replace(
        plan,
        readings=args.readings or plan.readings,
        repeats=args.repeats or plan.repeats,
        tiny_rounds=args.repeats or plan.tiny_rounds,
        kills=args.kills or plan.kills,
        growth_batches=args.batches or plan.growth_batches,
    )


def _heading(plan: Plan, loads: list[float], calibrations: list[float], quick: bool) -> str:
    drift = max(calibrations) / min(calibrations) - 1
    lines = [
        f"{time.strftime('%Y-%m-%d %H:%M')}  rounds {plan.repeats}  load average {min(loads):.1f} to {max(loads):.1f}  "
        f"calibration {min(calibrations):.2f} to {max(calibrations):.2f} s (drift {drift:.0%})"
    ]
    if drift > 0.15:
        lines.append("The machine was not quiet (drift above 15 %): read the ratios and tasks, not the seconds.")
    if quick:
        lines.append("--quick: sizes are far below those of the bars; nothing here is a result.")
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
