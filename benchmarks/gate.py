"""What guarding a run costs: `python -m benchmarks.gate [ROUNDS] [ROWS]`.

    claim, history, diagnosis   before Spark opens the checkpoint: the start gate      bar: 0.5 s, or 5 % of the run
    the run's row               after the stream: one small Delta commit               no bar of its own
    guarded against unguarded   the same run of one batch, in turn                      no bar of its own

Of each of the three stages, which have run before; then again behind a history of some hundred runs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.gate.start_gate import describe_run, open_gate
from surestart.registry.run_record import ENDED, FINISHED
from surestart.registry.write_runs import append_runs
from surestart.runner import run_stage, run_ungated
from surestart.session import local_session
from surestart.stage import Stage

LIMIT_SECONDS, LIMIT_SHARE = 0.5, 0.05
RUNS_BEFORE = 300


def main() -> int:
    # A line at a time, also into a file: what was measured is there when the rest takes too long.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_from_settings("local", "sensor", {"root": folder}, environ={})
        landing, truth = Path(environment.landing), Path(folder) / "truth.json"
        spark = local_session("bench gate")
        stages = build_stages({})
        guarded, bare = [], []
        for number in range(rounds + 1):
            for run, times in ((run_ungated, bare), (run_stage, guarded)):
                write_files(landing, truth, rows)
                times.append(_seconds(lambda run=run: run(spark, environment, stages[0])))  # type: ignore[misc]
            if not number:
                # The first of each warms Spark up.
                guarded, bare = [], []
        for stage in stages[1:]:
            run_stage(spark, environment, stage)
        seconds = statistics.median(guarded)
        worst = 0.0
        print(f"one batch of {rows} rows, unguarded  median {statistics.median(bare):.2f} s")
        print(f"the same, guarded  median {seconds:.2f} s")
        for stage in stages:
            worst = max(worst, _gate(spark, environment, stage, rounds, stage.name))
        _remember(spark, environment, stages[0], RUNS_BEFORE)
        worst = max(worst, _gate(spark, environment, stages[0], rounds, f"{stages[0].name}, {RUNS_BEFORE} runs before"))
        record = replace(describe_run(spark, environment, stages[0]), event=ENDED, outcome=FINISHED)
        row = [_seconds(lambda: append_runs(spark, environment, (record,))) for _ in range(rounds)]
        spark.stop()
    met = worst <= max(LIMIT_SECONDS, LIMIT_SHARE * seconds)
    print(f"the run's row in the history  median {statistics.median(row) * 1000:.0f} ms")
    print(f"slowest gate against its bar  {worst * 1000:.0f} ms, {worst / seconds:.1%} of the run  {_word(met)}")
    return 0 if met else 1


def _gate(spark: Any, environment: Environment, stage: Stage, rounds: int, name: str) -> float:
    """Seconds in the median of what happens before Spark opens the checkpoint."""
    wall, processor = [], []
    for _ in range(rounds):
        used = time.process_time()
        began = time.perf_counter()
        run = open_gate(spark, environment, stage)
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
        run.ended(FINISHED)
    print(
        f"start gate, {name}  median {statistics.median(wall) * 1000:.0f} ms, worst {max(wall) * 1000:.0f} ms, "
        f"processor {statistics.median(processor) * 1000:.0f} ms"
    )
    return statistics.median(wall)


def _remember(spark: Any, environment: Environment, stage: Stage, runs: int) -> None:
    """The history holds so many runs more, one commit each, of another environment of the same table."""
    other = replace(describe_run(spark, environment, stage), environment="other", place="/other", checkpoint="/other")
    record = replace(other, event=ENDED, outcome=FINISHED)
    log = Path(environment.table("surestart_runs").path) / "_delta_log"
    append_runs(spark, environment, (record,))
    last = max(int(entry.stem) for entry in log.glob("*.json"))
    text = (log / f"{last:020d}.json").read_text()
    # By hand: through Spark each would take half a second, and the gate reads the notes of commits alone.
    for number in range(1, runs + 1):
        fresh = text.replace(record.run_id, f"{record.run_id[:-6]}{number:06d}")
        (log / f"{last + number:020d}.json").write_text(fresh)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _word(met: bool) -> str:
    return "yes" if met else "NO"


if __name__ == "__main__":
    sys.exit(main())
