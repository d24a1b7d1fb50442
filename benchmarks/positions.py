"""What the position columns cost: the same files are read in two ways, in turn.

    python -m benchmarks.positions LANDING OUT ROUNDS

    with       whole files, split into lines with their numbers (surestart.sources.files): bytes, path, line
    without    Spark's text source: the lines as text, nothing else
Both append to a Delta table. Prints one JSON line per run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.inputs import make_input
from benchmarks.process import run_measured
from benchmarks.table import Line, Plan, median, spread


def measure(work: Path, plan: Plan, say: Callable[[str], None]) -> list[Line]:
    readings = max(plan.readings // 4, 20_000)
    data = make_input(work, readings)
    out = work / "positions"
    done = run_measured(["-m", "benchmarks.positions", str(data.landing), str(out), str(2 + 2 * plan.repeats)])
    shutil.rmtree(out, ignore_errors=True)
    found: dict[str, list[float]] = {"with": [], "without": []}
    for line in done.output.splitlines():
        if line.startswith("{"):
            report = json.loads(line)
            if report["round"] >= 2:
                found[report["way"]].append(report["seconds"])
    ratio = median(found["with"]) / median(found["without"])
    say(f"positions: {median(found['with']):.2f} s with, {median(found['without']):.2f} s without")
    measure = f"raw Delta append of {readings:,}, warm"
    return [
        Line(measure, "with path and line", spread(found["with"]), f"{ratio:.2f}x of text without them"),
        Line(measure, "text, no position", spread(found["without"])),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("landing")
    parser.add_argument("out")
    parser.add_argument("rounds", type=int)
    args = parser.parse_args()
    from pyspark.sql import functions as F

    from sensor_pipeline.raw_ingest import to_raw
    from surestart.sources.files import split_lines
    from surestart.spark.session import local_session

    spark = local_session("positions")
    ways = {
        "with": lambda: to_raw(split_lines(spark.read.format("binaryFile").load(args.landing))),
        "without": lambda: spark.read.text(args.landing).withColumn("ingested_at", F.current_timestamp()),
    }
    for number in range(args.rounds):
        for way, rows in ways.items():
            shutil.rmtree(args.out, ignore_errors=True)
            began = time.monotonic()
            rows().write.format("delta").save(args.out)
            line = {"way": way, "round": number, "seconds": time.monotonic() - began}
            sys.stdout.write(json.dumps(line) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
