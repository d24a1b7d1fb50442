"""`surestart run STAGE|all`: run stages in turn to the end of the available data, and count what came out; or, with an
interval as trigger, side by side until one of them fails or somebody stops them.

With --log json everything on stderr is one JSON object per line, a refusal and a failure too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.cli.arguments import add_environment_arguments, choose_stages, read_given_environment
from surestart.cli.doctor import given_options
from surestart.cli.pipelines import load_pipeline
from surestart.environment import Environment
from surestart.errors import EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_USAGE, SurestartError, UsageError
from surestart.report.json.json_log import JsonLog
from surestart.report.text.run_table import ProgressLines, run_table
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.runs.runner import StageRun
    from surestart.stage import Stage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", help="a stage's name, or all")
    add_environment_arguments(parser)
    parser.add_argument(
        "--trigger",
        default="available-now",
        help="available-now (default): to the end of the data, then stop. Or an interval such as '10 seconds': "
        "a batch each time; `all` then runs the stages side by side, and the first that fails stops the others",
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="CODE",
        help="start although this finding is 'cannot tell'; the history keeps the code",
    )
    parser.add_argument(
        "--log", choices=("text", "json"), default="text", help="json: one object per line on stderr, for jobs"
    )
    parser.add_argument("--no-count", action="store_true", help="leave out the independent count at the end")
    parser.add_argument("--ui", action="store_true", help="open Spark's own web page on 127.0.0.1:4040")


def describe_settings(arguments: Sequence[str]) -> str:
    """The pipeline's own settings, for the help; why there are none where it cannot be loaded."""
    asked = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    asked.add_argument("--pipeline")
    try:
        pipeline = load_pipeline(asked.parse_known_args(list(arguments))[0].pipeline)
    except SurestartError as problem:
        return f"settings of the pipeline: unknown, {problem.what}\n"
    width = max(map(len, pipeline.settings), default=0)
    lines = [f"  {name:<{width}}  {meaning}" for name, meaning in pipeline.settings.items()]
    return "\n".join([f"settings of the pipeline {pipeline.name!r}, given by --set:", *lines, ""])


def run(args: argparse.Namespace) -> int:
    if args.log != "json":
        return _run(args, ProgressLines(sys.stderr))
    log = JsonLog(sys.stderr)
    try:
        return _run(args, log)
    except SurestartError as error:
        from surestart.words.unexpected import traceback_of_another

        # Not raised further: the four lines of text would stand among the objects.
        log.error(error, traceback_of_another(error))
        return error.exit_code
    except KeyboardInterrupt:
        log.interrupted()
        return EXIT_INTERRUPTED
    except BaseException as error:  # noqa: BLE001 - SystemExit for one: an object like the others
        from surestart.words.unexpected import as_unexpected, traceback_of

        said = as_unexpected(error, args.typed)
        log.error(said, "" if said.exit_code == EXIT_USAGE else traceback_of(error))
        return said.exit_code


def _run(args: argparse.Namespace, lines: JsonLog | ProgressLines) -> int:
    environment, pipeline, settings = read_given_environment(args)
    stages = choose_stages(pipeline, settings, args.stage)
    from surestart.runs.runner import AVAILABLE_NOW, processing_time, run_stage, run_stages

    trigger = AVAILABLE_NOW if args.trigger == "available-now" else processing_time(args.trigger)
    from surestart.spark.session import check_local_spark, obtain_session

    check_writable(environment)
    check_local_spark(lines.note)
    if pipeline.prepare and may_start(environment, stages[0], args.accept):
        pipeline.prepare(environment, settings)
    lines.note("starting Spark")
    spark = obtain_session("surestart", ui=args.ui)
    runs: list[StageRun] = []
    if trigger.available_now or len(stages) == 1:
        for stage in stages:
            lines.begin(environment.query_name(stage.name))
            done = run_stage(
                spark,
                environment,
                stage,
                trigger=trigger,
                on_progress=lines.batch,
                accept=args.accept,
                warn=lines.warn,
            )
            lines.end(done)
            runs.append(done)
    else:
        runs = run_stages(
            spark,
            environment,
            stages,
            trigger=trigger,
            on_begin=lines.begin,
            on_progress=lines.batch,
            accept=args.accept,
            warn=lines.warn,
        )
    account = None
    if pipeline.count and not args.no_count and environment.root:
        lines.note("counting rows, without Spark")
        account = pipeline.count(environment, settings, stages[-1].name)
    lines.clear()
    sys.stdout.write(run_table(environment, runs, account, given_options(args)))
    return EXIT_FINDINGS if account is not None and not account.is_exact else 0


def check_writable(environment: Environment) -> None:
    """Raises before anything is started when there is no room for tables or checkpoints."""
    if not environment.root:
        return
    for place, held, setting in (
        (environment.root, "Tables", "root"),
        (environment.checkpoint_root, "Checkpoints", "checkpoint_root"),
    ):
        if "://" in place:
            continue
        folder = Path(place)
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(
                f"{place} cannot be written: {folder} is {'read-only' if folder.is_dir() else 'not a folder'}",
                meaning=f"{held} cannot be kept there. Nothing was started.",
                next=surestart("run", "all", "--set", f"{setting}=/a/folder/you/may/write"),
            )


def may_start(environment: Environment, stage: Stage, accept: Sequence[str]) -> bool:
    """Whether the gate will let the stage through, as far as can be told without Spark. Where it will not, no sample
    data is made for it: the gate says why, and what it refuses has written nothing."""
    from surestart.cli.stage_answers import ask_stages
    from surestart.words.finding import Severity

    declared = stage.declare(environment)
    if not any(
        Path(place).exists() for place in (declared.checkpoint, *(sink.path for sink in declared.sinks)) if place
    ):
        return True  # a first start; the topic that it reads may have to be made as well
    (diagnosis,) = ask_stages(environment, [stage])
    return all(
        finding.severity is not Severity.UNSAFE
        and (finding.severity is not Severity.CANNOT_TELL or finding.code in accept)
        for finding in diagnosis.findings
    )
