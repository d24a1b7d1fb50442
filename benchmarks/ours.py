"""This pipeline in a process of its own: `python -m benchmarks.ours ROOT LANDING [--one-file] [--event-log DIR]`.

Prints one JSON line per batch: stage, query_id, batch, rows, seconds. --one-file makes every batch of every stage one
file, so that tiny files give tiny batches.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from benchmarks.event_log import event_log_confs
from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.runs.runner import BatchProgress, run_stage
from surestart.sources.delta import DeltaSource
from surestart.spark.session import local_session
from surestart.stage import Stage


def one_file_at_a_time(stage: Stage) -> Stage:
    """The file source is limited by the pipeline's own setting, a Delta source by this option."""
    if isinstance(stage.source, DeltaSource):
        return replace(stage, source=replace(stage.source, options=(("maxFilesPerTrigger", "1"),)))
    return stage


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("landing")
    parser.add_argument("--one-file", action="store_true")
    parser.add_argument("--files", help="the pipeline's max_files_per_trigger (default: its own)")
    parser.add_argument("--event-log", type=Path)
    parser.add_argument("--stages", default="raw-ingest,deserialize,merge-gold")
    args = parser.parse_args()
    environment = environment_from_settings("local", "sensor", {"root": args.root, "landing": args.landing}, environ={})
    spark = local_session("bench", confs=event_log_confs(args.event_log) if args.event_log else {})
    files = "1" if args.one_file else args.files
    settings = {"max_files_per_trigger": files} if files else {}
    for stage in build_stages(settings):
        if stage.name in args.stages.split(","):
            run_stage(
                spark, environment, one_file_at_a_time(stage) if args.one_file else stage, on_progress=print_batch
            )


def print_batch(progress: BatchProgress) -> None:
    line = {
        "stage": progress.stage,
        "batch": progress.batch,
        "rows": progress.rows,
        "seconds": progress.seconds,
        "query_id": progress.report["id"],
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
