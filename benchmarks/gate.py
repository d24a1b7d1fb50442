"""What guarding a run costs: `python -m benchmarks.gate [ROUNDS] [ROWS] [RUNS]`.

    claim, history, diagnosis   before Spark opens the checkpoint: the start gate      bar: 0.5 s, or 5 % of the run
    the run's row               after the stream: one small Delta commit               no bar of its own
    guarded against unguarded   the same run of one batch, in turn                      no bar of its own

Of each of the three stages, which have run before; then of one of them behind 100 runs and behind 100,000, in turn,
with claims as files and, in a catalog, as rows                                     bar: at most 1.2 times as long
"""

from __future__ import annotations

import json
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
from surestart.history.run_record import COLUMNS, ENDED, FINISHED, NOTE, TABLE
from surestart.history.run_table import append_runs
from surestart.runs.runner import run_stage, run_ungated
from surestart.runs.start_gate import describe_run, open_gate
from surestart.spark.session import local_session
from surestart.stage import Stage

LIMIT_SECONDS, LIMIT_SHARE, LIMIT_GROWTH = 0.5, 0.05, 1.2
FEW, MANY = 100, 100_000


def main() -> int:
    # A line at a time, also into a file: what was measured is there when the rest takes too long.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    many = int(sys.argv[3]) if len(sys.argv) > 3 else MANY
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_from_settings("local", "sensor", {"root": folder}, environ={})
        landing, truth = Path(environment.landing), Path(folder) / "truth.json"
        spark = local_session("bench gate", confs={"spark.sql.warehouse.dir": f"{folder}/warehouse"})
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
        flat = [_growth(spark, folder, stages[0], kind, max(rounds, 5), many) for kind in ("files", "rows")]
        record = replace(describe_run(spark, environment, stages[0]), event=ENDED, outcome=FINISHED)
        row = [_seconds(lambda: append_runs(spark, environment, (record,))) for _ in range(rounds)]
        spark.stop()
    met = worst <= max(LIMIT_SECONDS, LIMIT_SHARE * seconds)
    print(f"the run's row in the history  median {statistics.median(row) * 1000:.0f} ms")
    print(f"slowest gate against its bar  {worst * 1000:.0f} ms, {worst / seconds:.1%} of the run  {_word(met)}")
    return 0 if met and all(flat) else 1


def _growth(spark: Any, folder: str, stage: Stage, kind: str, rounds: int, many: int) -> bool:
    """Whether the gate takes as long behind many runs as behind few. Of both in turn: the machine is the same then."""
    there = {runs: _stood(spark, f"{folder}/{kind}-{runs}", stage, kind, runs) for runs in (FEW, many)}
    wall: dict[int, list[float]] = {runs: [] for runs in there}
    try:
        for number in range(rounds + 1):
            for runs, environment in there.items():
                began = time.perf_counter()
                run = open_gate(spark, environment, stage)
                seconds = time.perf_counter() - began
                run.ended(FINISHED)
                if number:
                    # The first of each folds the history, or warms up.
                    wall[runs].append(seconds)
                elif runs == many:
                    print(f"start gate, claims as {kind}, the first start behind {runs} runs  {seconds:.1f} s")
    finally:
        if kind == "rows":
            for runs in there:
                spark.sql(f"DROP SCHEMA bench_gate_{runs} CASCADE")
    few, most = (statistics.median(wall[runs]) for runs in (FEW, many))
    print(
        f"start gate, claims as {kind}, behind {FEW} and {many} runs  median {few * 1000:.0f} ms and "
        f"{most * 1000:.0f} ms, ratio {most / few:.2f}  {_word(most <= LIMIT_GROWTH * few)}"
    )
    return most <= LIMIT_GROWTH * few


def _stood(spark: Any, folder: str, stage: Stage, kind: str, runs: int) -> Environment:
    """The stage has run once, and since then so many runs of another query are in the history."""
    given = {"root": folder}
    if kind == "rows":
        schema = f"bench_gate_{runs}"
        spark.sql(f"CREATE SCHEMA {schema}")
        given = {"catalog": "spark_catalog", "schema": schema, "landing": f"{folder}/landing"}
        given["checkpoint_root"] = f"{folder}/checkpoints"
    environment = environment_from_settings("local", "sensor", given, environ={})
    write_files(Path(environment.landing), Path(environment.landing).with_name("truth.json"), 20)
    run_stage(spark, environment, stage)
    # In a catalog an earlier version wrote two commits a run.
    _remember(spark, environment, stage, runs, commits=runs if kind == "files" else 2 * runs)
    return environment


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


def _remember(spark: Any, environment: Environment, stage: Stage, runs: int, commits: int) -> None:
    """So many runs of another query more are rows of the history, and its log is longer by so many commits."""
    own = describe_run(spark, environment, stage)
    other = replace(own, event=ENDED, outcome=FINISHED, query="sensor-other", place="/other", checkpoint="/other")
    table = environment.table(TABLE)
    rows = (
        spark.createDataFrame([other.as_columns()], ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
        .crossJoin(spark.range(runs, numPartitions=2))
        .selectExpr("concat(run_id, '-', id) AS run_id", *(name for name in COLUMNS if name != "run_id"))
    )
    writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
    if table.path:
        writer.save(table.path)
    else:
        writer.saveAsTable(table.sql)
    location = table.path or spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]["location"].removeprefix("file:")
    log = Path(location) / "_delta_log"
    last = max(int(entry.stem) for entry in log.glob("*.json"))
    note = json.dumps({NOTE: [other.as_note()]})
    info = {"timestamp": other.started_at, "operation": "WRITE", "operationParameters": {}, "userMetadata": note}
    text = json.dumps({"commitInfo": info}) + "\n"
    # By hand: through Spark each would take half a second. Delta reads them, which is looked at below.
    for number in range(1, commits + 1):
        fresh = text.replace(other.run_id, f"{other.run_id[:-8]}{number:08d}")
        (log / f"{last + number:020d}.json").write_text(fresh)
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]["version"]
    if newest != last + commits:
        raise RuntimeError(f"Delta sees version {newest} of {table.label}, not {last + commits}")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _word(met: bool) -> str:
    return "yes" if met else "NO"


if __name__ == "__main__":
    sys.exit(main())
