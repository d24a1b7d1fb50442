"""What the start gate costs: `python -m benchmarks.gate [ROUNDS] [ROWS]`.

Measures claim + history + diagnosis of a stage that has run before, which is all that happens before Spark opens the
checkpoint, against a whole one-batch run of the same stage. The limit is 0.5 s, or 5 % of that run.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.gate.start_gate import open_gate
from surestart.runner import run_stage
from surestart.session import local_session

LIMIT_SECONDS, LIMIT_SHARE = 0.5, 0.05


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_from_settings("local", "sensor", {"root": folder}, environ={})
        landing, truth = Path(environment.landing), Path(folder) / "truth.json"
        spark = local_session("bench gate")
        stage = build_stages({})[0]
        seconds = 0.0
        for _ in range(2):
            write_files(landing, truth, rows)
            began = time.perf_counter()
            run_stage(spark, environment, stage)
            seconds = time.perf_counter() - began
        gate, processor = [], []
        for _ in range(rounds):
            began, used = time.perf_counter(), time.process_time()
            guarded = open_gate(spark, environment, stage)
            gate.append(time.perf_counter() - began)
            processor.append(time.process_time() - used)
            guarded.ended("finished")
        spark.stop()
    median, worst = statistics.median(gate), max(gate)
    print(f"one-batch run of {rows} rows  {seconds:.2f} s")
    print(f"start gate                  median {median * 1000:.0f} ms, worst {worst * 1000:.0f} ms of {rounds}")
    print(f"of it processor time        median {statistics.median(processor) * 1000:.0f} ms")
    print(f"share of the run            {median / seconds:.1%}")
    return 0 if median <= max(LIMIT_SECONDS, LIMIT_SHARE * seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
