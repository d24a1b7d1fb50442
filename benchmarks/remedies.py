"""What a reset costs beside reading everything again: `python -m benchmarks.remedies [ROWS] [FILES]`.

    planning a reset of raw-ingest, the session being up                      bar: 5 s with 10,000,000 raw rows
    applying it, the stages being left to their schedule (--no-run)           bar: 20 s
    undoing it                                                                no bar of its own

The stages have run over a few files before; then the raw table gets its millions of rows, each with its position, of
files that have as many lines: what the landing folder has not is lost, and a plan refuses it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.planning.plan_reset import plan_reset
from surestart.remedies.planning.wanted import Request
from surestart.runs.runner import run_stage
from surestart.spark.session import local_session

PLAN_SECONDS, APPLY_SECONDS = 5.0, 20.0
# When the files arrived; their rows say the same.
LANDED = 1_700_000_000


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_from_settings("local", "sensor", {"root": folder}, environ={})
        write_files(Path(environment.landing), Path(folder) / "truth.json", 2000)
        spark = local_session("bench remedies", memory="2g")
        stages = build_stages({})
        for stage in stages:
            run_stage(spark, environment, stage)
        fill(spark, environment, rows, files)
        chain = read_chain(environment, stages)
        made: list[Any] = []
        asked = Request({}, run=False)
        planning = _seconds(lambda: made.append(plan_reset(spark, environment, chain, "raw-ingest", asked)))
        plan = made[0]
        assert plan.effects[0].rows == rows + 2000, plan.effects[0]
        applying = _seconds(lambda: apply_plan(spark, environment, chain, plan, lambda plan: plan.target))
        assert spark.read.format("delta").load(environment.table("sensor_raw").path).isEmpty()
        undoing = _seconds(lambda: undo_remedy(spark, environment, chain, plan, lambda plan: plan.target))
        spark.sql(f"REFRESH TABLE {environment.table('sensor_raw').sql}")
        assert spark.read.format("delta").load(environment.table("sensor_raw").path).count() == rows + 2000
        spark.stop()
    print(f"{rows:,} raw rows of {files} files")
    print(f"planning a reset  {planning:.1f} s  {_word(planning <= PLAN_SECONDS)} (bar {PLAN_SECONDS:.0f} s)")
    print(f"applying it  {applying:.1f} s  {_word(applying <= APPLY_SECONDS)} (bar {APPLY_SECONDS:.0f} s)")
    print(f"undoing it  {undoing:.1f} s")
    return 0 if planning <= PLAN_SECONDS and applying <= APPLY_SECONDS else 1


def fill(spark: Any, environment: Environment, rows: int, files: int) -> None:
    """The raw table has that many more rows, of files that lie in the landing folder under their names."""
    each = rows // files
    for number in range(files):
        file = Path(environment.landing) / f"bulk-{number:05d}.jsonl"
        file.write_text("x\n" * each)
        os.utime(file, (LANDED, LANDED))
    table = environment.table("sensor_raw")
    spark.range(rows).selectExpr(
        "CAST('x' AS BINARY) AS payload",
        "CAST(NULL AS BINARY) AS key",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        f"concat('file:{environment.landing}/bulk-', lpad(CAST(id div {each} AS STRING), 5, '0'), '.jsonl') AS source",
        "0 AS partition",
        f"id % {each} AS offset",
        f"timestamp_seconds({LANDED}) AS source_time",
        "current_timestamp() AS ingested_at",
    ).write.format("delta").mode("append").save(table.path)


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _word(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
