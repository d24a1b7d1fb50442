"""`surestart doctor [STAGE]`: whether the stages of an environment may start, from evidence, without Spark. Of
the streams of surestart.toml: all of them in one table, the worst first."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.cli.arguments import add_environment_arguments, choose_stages, read_given_environment
from surestart.cli.inspect import Progress, show_fleet
from surestart.environment import Environment
from surestart.errors import CannotTell, SurestartError
from surestart.library_types import SparkSession
from surestart.typed import Place, Words, surestart
from surestart.verdict.fleet_row import Fleet, FleetRow, row_not_looked_at, row_of
from surestart.words.finding import EXIT_CODES
from surestart.words.inert import inert

if TYPE_CHECKING:
    from surestart.history.run_record import RunRecord
    from surestart.report.progress_history import BatchFacts
    from surestart.stage import Stage
    from surestart.words.finding import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", nargs="?", default="all", help="a stage's name (default: all of them)")
    add_environment_arguments(parser)
    parser.add_argument(
        "--spark",
        default="",
        metavar="LINE",
        help="what will start it: Spark 4.0, a Databricks Runtime: 15.4, or serverless-5 (default: the Spark here)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/doctor.md)")
    parser.add_argument("--bundle", metavar="DIR", help="also write all evidence as one archive, secrets redacted")
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page")
    parser.add_argument(
        "--progress", metavar="FILE", help="Spark's progress or a driver log: durations and lag for the page"
    )


def run(args: argparse.Namespace) -> int:
    from surestart.cli.stage_answers import ask_stages
    from surestart.report.text.stage_table import render_stages, verdict_of_all
    from surestart.streams.as_pipeline import StreamEnvironment
    from surestart.verdict.inspection import read_spark

    environment, pipeline, settings = read_given_environment(args)
    stages = choose_stages(pipeline, settings, args.stage)
    options = given_options(args)
    session = _session_for(environment, stages)
    if isinstance(environment, StreamEnvironment) and args.stage == "all" and not (args.bundle or args.progress):
        return _ask_many(args, environment, stages, options, session)
    spark = args.spark and read_spark(args.spark)
    diagnoses = ask_stages(environment, stages, spark=spark, options=options, session=session)
    if args.json:
        from surestart.report.json.many import stages_json

        sys.stdout.write(stages_json(environment, diagnoses, options) + "\n")
    else:
        sys.stdout.write(render_stages(environment, diagnoses, options))
        if len(diagnoses) == 1:
            from surestart.report.text.inspection import render_inspection

            sys.stdout.write("\n" + render_inspection(diagnoses[0].inspection))
    if args.html:
        from surestart.report.html.fleet import render_stages_html
        from surestart.report.html.page import write_page
        from surestart.verdict.unread import read_ends

        runs = _former_runs(environment)
        page = render_stages_html(
            environment,
            diagnoses,
            options,
            ends=[read_ends(stage, diagnosis) for stage, diagnosis in zip(stages, diagnoses, strict=True)],
            progress=_progress(environment, args.progress),
            runs=[
                [run.as_dict() for run in runs if (run.query, run.environment) == (query, environment.name)]
                for query in (diagnosis.evidence.declaration.query for diagnosis in diagnoses)
            ],
        )
        write_page(args.html, page)
        sys.stderr.write(f"Page: {args.html}\n")
    if args.bundle:
        from surestart.report.evidence_bundle import write_bundle

        sys.stderr.write(f"Evidence: {write_bundle(Path(args.bundle), environment, diagnoses)}\n")
    return EXIT_CODES[verdict_of_all(diagnoses)]


def _session_for(environment: Environment, stages: Sequence[Stage]) -> SparkSession | None:
    """The session at hand where something is known by its name in a catalog alone; None where there is none."""
    from surestart.spark.session import session_at_hand

    if environment.root and not any(_has_a_name_only(stage, environment) for stage in stages):
        return None
    try:
        return session_at_hand()
    except Exception as error:  # noqa: BLE001 - it fails in the ways of every platform; what it could tell stays open
        sys.stderr.write(f"No session answers: {type(error).__name__}: {inert(str(error), 200)}\n")
        return None


def _has_a_name_only(stage: Stage, environment: Environment) -> bool:
    source = stage.source.declare(environment)
    sinks = stage.sink.declare(environment)
    by_name = any((sink.is_delta or sink.kind == "foreach-batch") and not sink.path for sink in sinks)
    return by_name or (source.kind == "delta" and bool(source.target) and not source.path)


def _former_runs(environment: Environment) -> tuple[RunRecord, ...]:
    """The former runs. A history that cannot be read is already a finding of every stage."""
    from surestart.history.run_table import read_runs

    try:
        return read_runs(environment)
    except CannotTell:
        return ()


def _progress(environment: Environment, file: str | None) -> tuple[BatchFacts, ...]:
    """From the file if one was given, else what the run history keeps of the newest batches of each run."""
    from surestart.history.run_table import read_batches
    from surestart.report.progress_history import read_progress_file, read_run_metrics

    if file:
        return read_progress_file(file)
    try:
        kept = read_batches(environment)
    except SurestartError as error:
        sys.stderr.write(f"The page has no durations: {error.what}\n")
        return ()
    return tuple(facts for query_id, metrics in kept.items() for facts in read_run_metrics(query_id, metrics))


def given_options(args: argparse.Namespace) -> Words:
    """What the next command needs beside the environment to speak of the same place."""
    given = [("--root", args.root), *(("--set", pair) for pair in args.set), ("--pipeline", args.pipeline)]
    given += [("--streams", getattr(args, "streams", ""))]
    return tuple(word for option, value in given if value for word in (option, value))


def given_place(args: argparse.Namespace, environment: Environment) -> Place:
    return Place(environment.name, given_options(args))


# So many streams are asked at once: while one broker, table or store does not answer, the others are asked.
AT_ONCE = 8


def _ask_many(
    args: argparse.Namespace,
    environment: Environment,
    stages: Sequence[Stage],
    options: Words,
    session: SparkSession | None,
) -> int:
    from surestart.cli.stage_answers import read_run_history
    from surestart.verdict.inspection import read_spark

    spark = args.spark and read_spark(args.spark)
    history = read_run_history(environment, stages, session)
    progress = Progress()
    rows: list[FleetRow] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for row in pool.map(partial(row_of_stream, environment, spark, options, session, history), stages):
            rows.append(row)
            progress(f"{len(rows):,} of {len(stages):,} streams asked")
    progress.end()
    again = surestart("doctor", place=Place(environment.name, options))
    ranked = tuple(sorted(rows, key=lambda row: row.order))
    show_fleet(Fleet(environment.pipeline, ranked, int(time.time() * 1000), "stream", again), args)
    return EXIT_CODES[ranked[0].verdict] if ranked else 4


def row_of_stream(
    environment: Environment,
    spark: str,
    options: Words,
    session: SparkSession | None,
    history: tuple[tuple[RunRecord, ...], list[Finding]],
    stage: Stage,
) -> FleetRow:
    """What the doctor says of one stream. An error while it is asked concerns this stream alone."""
    from surestart.cli.stage_answers import ask_one
    from surestart.verdict.unread import unread_text

    try:
        diagnosis = ask_one(environment, stage, *history, spark=spark, options=options, session=session)
        return row_of(stage.name, diagnosis.inspection, unread_text(stage, diagnosis))
    except SurestartError as error:
        return row_not_looked_at(stage.name, environment.checkpoint(stage.name), error.what, error.next)
