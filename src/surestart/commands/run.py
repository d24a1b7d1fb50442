"""`surestart run STAGE|all`: run stages in turn to the end of the available data, and count what came out."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.commands.arguments import add_environment_arguments, choose_stages, read_environment
from surestart.environment import Environment
from surestart.errors import EXIT_FINDINGS, SurestartError, UsageError
from surestart.report.json_log import JsonLog
from surestart.report.progress import ProgressLines
from surestart.report.run_table import run_table

if TYPE_CHECKING:
    from surestart.runner import StageRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", help="a stage's name, or all")
    add_environment_arguments(parser)
    parser.add_argument(
        "--trigger",
        default="available-now",
        help="available-now (default): to the end of the data, then stop. Or an interval such as '10 seconds'",
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="CODE",
        help="start although this finding cannot be decided by evidence; kept in the history",
    )
    parser.add_argument(
        "--log", choices=("text", "json"), default="text", help="json: one object per line on stderr, for jobs"
    )
    parser.add_argument("--no-count", action="store_true", help="leave out the independent count at the end")
    parser.add_argument("--ui", action="store_true", help="open Spark's own web page on 127.0.0.1:4040")


def run(args: argparse.Namespace) -> int:
    environment, pipeline, settings = read_environment(args)
    stages = choose_stages(pipeline, settings, args.stage)
    from surestart.runner import AVAILABLE_NOW, processing_time, run_stage

    trigger = AVAILABLE_NOW if args.trigger == "available-now" else processing_time(args.trigger)
    if not trigger.available_now and len(stages) > 1:
        raise UsageError(
            f"{len(stages)} stages cannot run in turn with an endless trigger",
            meaning="The first one would never end, and the others never start.",
            next=f"surestart run {stages[0].name} --trigger '{args.trigger}'  # one process per stage",
        )
    check_writable(environment)
    if pipeline.prepare:
        pipeline.prepare(environment, settings)
    lines = JsonLog(sys.stderr) if args.log == "json" else ProgressLines(sys.stderr)
    lines.note("starting Spark")
    from surestart.session import session

    spark = session("surestart", ui=args.ui)
    runs: list[StageRun] = []
    for stage in stages:
        lines.begin(environment.query_name(stage.name))
        try:
            done = run_stage(spark, environment, stage, trigger=trigger, on_progress=lines.batch, accept=args.accept)
        except SurestartError as error:
            if isinstance(lines, JsonLog):
                lines.error(error)
            raise
        lines.end(done)
        runs.append(done)
    account = None
    if pipeline.count and not args.no_count and environment.root:
        lines.note("counting rows, without Spark")
        account = pipeline.count(environment, settings)
    lines.clear()
    sys.stdout.write(run_table(environment, runs, account))
    return EXIT_FINDINGS if account is not None and not account.is_exact else 0


def check_writable(environment: Environment) -> None:
    """Raises before anything is started when the root cannot hold tables and checkpoints."""
    if not environment.root or "://" in environment.root:
        return
    folder = Path(environment.root)
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{environment.root} cannot be written: {folder} is {'read-only' if folder.is_dir() else 'not a folder'}",
            meaning="Neither tables nor checkpoints can be kept there. Nothing was started.",
            next="surestart run all --root /a/folder/you/may/write",
        )
