"""`python -m benchmarks.lines 4.0 4.1 --readings 300000 --rounds 2`: lines of Spark side by side, in one run.

Each line in its own environment (`make test-line LINE=…` makes it; the default line's is `.venv`), the same input,
alternating; every answer is checked. Batches: all three stages over files of ten records, the first batches left out.
Bulk: cold, from the start of the process, with Java's archive of classes. A ratio below 1: faster than the first line.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bulk import check_ours
from benchmarks.inputs import Input, make_input
from benchmarks.machine import load_average
from benchmarks.process import Measured, run_measured
from benchmarks.table import Line, format_table, median, spread
from surestart.spark.spark_lines import DEFAULT, NAMES

ROOT = Path(__file__).parents[1]
WARM_UP = 5
_Values = dict[tuple[str, str], list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lines")
    parser.add_argument("lines", nargs="+", choices=NAMES)
    parser.add_argument("--readings", type=int, default=300_000)
    parser.add_argument("--tiny", type=int, default=25, help="tiny batches of each stage")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".surestart/bench"))
    args = parser.parse_args()
    work = args.work.absolute()
    tiny, bulk = make_input(work, 0, tiny_files=WARM_UP + args.tiny), make_input(work, args.readings)
    for line in args.lines:
        subprocess.run([_python(line), "-m", "surestart.spark.class_archive"], check=True)
    values: _Values = {}
    for number in range(args.rounds):
        for line in args.lines:
            _measure_tiny(line, tiny, work, values)
            _measure_bulk(line, bulk, work, values)
            sys.stderr.write(f"round {number + 1}: Spark {line}, load {load_average():.1f}\n")
    print(format_table(_lines(values, args.lines, args.readings)))
    return 0


def _measure_tiny(line: str, data: Input, work: Path, values: _Values) -> None:
    done = _run(line, data, work, "--one-file")
    reports = [json.loads(text) for text in done.output.splitlines() if text.startswith("{")]
    for stage in ("raw-ingest", "deserialize", "merge-gold"):
        times = [report["seconds"] for report in reports if report["stage"] == stage][WARM_UP:]
        values.setdefault((f"tiny batch, {stage}", line), []).extend(times)


def _measure_bulk(line: str, data: Input, work: Path, values: _Values) -> None:
    done = _run(line, data, work)
    for name, value in (("seconds", done.seconds), ("CPU seconds", done.cpu_seconds), ("GB", done.peak_bytes / 1e9)):
        values.setdefault((f"bulk, {name}", line), []).append(value)


def _run(line: str, data: Input, work: Path, *options: str) -> Measured:
    root = work / f"line-{line}"
    shutil.rmtree(root, ignore_errors=True)
    done = run_measured(["-m", "benchmarks.ours", str(root), str(data.landing), *options], python=_python(line))
    check_ours(data, root)
    shutil.rmtree(root)
    return done


def _python(line: str) -> str:
    return str(ROOT / (".venv" if line == DEFAULT else f".venv-{line}") / "bin" / "python")


def _lines(values: _Values, lines: Sequence[str], readings: int) -> list[Line]:
    found = []
    for measure in dict.fromkeys(measure for measure, _ in values):
        first = median(values[measure, lines[0]])
        unit = "" if measure.startswith("bulk") else "s"
        name = measure.replace("bulk", f"bulk of {readings:,}")
        for line in lines:
            times = values[measure, line]
            found.append(Line(name, f"Spark {line}", spread(times, unit), f"{median(times) / first:.2f}x"))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
