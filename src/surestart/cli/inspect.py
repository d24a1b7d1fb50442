"""`surestart inspect PATH`: read a checkpoint without Spark and say what the next start does. Writes nothing.

`surestart inspect --all ROOT`: every checkpoint below a root in one table, the worst first.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from surestart.errors import UsageError
from surestart.facts.evidence.sink_names import NO_SINK
from surestart.spark.spark_lines import DEFAULT, NAMES
from surestart.typed import surestart
from surestart.verdict.fleet_row import Fleet
from surestart.words.finding import EXIT_CODES

if TYPE_CHECKING:
    from surestart.words.next_commands import Commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the checkpoint folder: local, /Volumes/…, s3://…, abfss://…, gs://…")
    parser.add_argument(
        "--all", action="store_true", help="PATH is a root: every checkpoint below it in one table, the worst first"
    )
    parser.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="SINK",
        help="where its rows go: the folder of a Delta table, or KIND:TARGET; `none` judges the checkpoint alone",
    )
    said = parser.add_argument_group(
        "what you know of the sinks",
        "where the evidence leaves a question open; for one of several sinks: --sink KIND+shared:TARGET",
    )
    alone = said.add_mutually_exclusive_group()
    alone.add_argument(
        "--shared", dest="said", action="append_const", const="shared", help="others write there as well"
    )
    alone.add_argument(
        "--alone", dest="said", action="append_const", const="alone", help="only this query writes there"
    )
    said.add_argument(
        "--new", dest="said", action="append_const", const="new", help="this query has never written there yet"
    )
    said.add_argument("--keys", metavar="A,B", help="the MERGE matches by these columns, and never adds to a value")
    said.add_argument("--app-id", metavar="NAME", help="the function writes under the constant txnAppId NAME")
    parser.add_argument(
        "--spark",
        default=DEFAULT,
        metavar="LINE",
        help=f"what will start it: Spark {', '.join(NAMES)}, or a "
        f"Databricks Runtime such as 15.4, or serverless-5 (default Spark {DEFAULT})",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/inspect.md)")
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page")
    parser.add_argument(
        "--progress", metavar="FILE", help="Spark's progress or a driver log: durations and lag for the page"
    )


def commands_of_its_stage(location: str) -> Commands | None:
    """Those of the stage that ran in it last, by the run history of the root that it lies in; None: it is somebody
    else's, and no command but this one knows of it."""
    from pathlib import Path

    root = Path(location).absolute().parent.parent
    # Unlike Path.is_dir, not raising for a name that is too long to be one.
    if "://" in location or not os.path.isdir(root / "tables" / "surestart_runs"):  # noqa: PTH112
        return None
    from surestart.environment import environment_from_settings
    from surestart.errors import SurestartError
    from surestart.history.checkpoint_place import checkpoint_place
    from surestart.history.describe_run import options_of
    from surestart.history.run_table import read_runs
    from surestart.words.next_commands import Commands

    place = checkpoint_place(str(Path(location).absolute()))
    try:
        runs = read_runs(environment_from_settings("local", "any", {"root": str(root)}, environ={}))
        ours = [run for run in runs if run.place == place]
        if not ours:
            return None
        last = max(ours, key=lambda run: run.started_at)
        found = environment_from_settings(last.environment, last.pipeline, {"root": str(root)}, environ={})
    except SurestartError:
        return None
    return Commands(last.stage, last.environment, options_of(found))


def run(args: argparse.Namespace) -> int:
    if args.all:
        return inspect_many(args)
    from surestart.facts.evidence.sink_names import with_said
    from surestart.verdict.inspection import inspect_checkpoint

    said = [
        *(args.said or ()),
        *([f"keys={args.keys}"] if args.keys else ()),
        *([f"app-id={args.app_id}"] if args.app_id else ()),
    ]
    sinks = tuple(with_said(name, said) for name in args.sink)
    inspection = inspect_checkpoint(args.path, sinks=sinks, spark=args.spark, commands=commands_of_its_stage(args.path))
    if args.html:
        from surestart.report.html.page import render, write_page
        from surestart.report.progress_history import read_progress_file

        progress = read_progress_file(args.progress) if args.progress else ()
        write_page(args.html, render(inspection, progress=progress))
    if args.json:
        from surestart.report.json.inspection import inspection_json

        sys.stdout.write(inspection_json(inspection) + "\n")
    else:
        from surestart.report.text.inspection import render_inspection

        sys.stdout.write(render_inspection(inspection))
    return EXIT_CODES[inspection.verdict]


EVERY_SECONDS = 0.5


def inspect_many(args: argparse.Namespace) -> int:
    from surestart.verdict.inspect_all import FleetQuestion, inspect_all
    from surestart.verdict.inspection import read_spark

    _refuse_what_is_of_one(args)
    spark = read_spark(args.spark)
    again = ["--all", args.path]
    again += ["--sink", NO_SINK] if args.sink else []
    again += [] if spark == DEFAULT else ["--spark", spark]
    progress = Progress()
    rows = inspect_all(args.path, FleetQuestion(tuple(args.sink), spark), say=progress)
    progress.end()
    show_fleet(Fleet(args.path, tuple(rows), int(time.time() * 1000), "checkpoint", surestart("inspect", *again)), args)
    return EXIT_CODES[rows[0].verdict] if rows else 4


def show_fleet(fleet: Fleet, args: argparse.Namespace) -> None:
    if args.html:
        from surestart.report.html.fleet import render_fleet_page
        from surestart.report.html.page import write_page

        write_page(args.html, render_fleet_page(fleet))
        sys.stderr.write(f"Page: {args.html}\n")
    if args.json:
        from surestart.report.json.many import fleet_json

        sys.stdout.write(fleet_json(fleet) + "\n")
    else:
        from surestart.report.text.fleet_table import render_fleet
        from surestart.words.terminal import terminal_width

        sys.stdout.write(render_fleet(fleet, terminal_width()))


class Progress:
    """Says how far it is: on a terminal in one line that is written over and gone in the end, else a line now and
    then."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._pause = EVERY_SECONDS if self._on_terminal else 20 * EVERY_SECONDS
        self._said = time.monotonic()

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said >= self._pause:
            self._said = now
            sys.stderr.write(f"\r\x1b[K{line}" if self._on_terminal else f"{line}\n")
            sys.stderr.flush()

    def end(self) -> None:
        if self._on_terminal:
            sys.stderr.write("\r\x1b[K")


def _refuse_what_is_of_one(args: argparse.Namespace) -> None:
    """Raises for a sink, or something said of one: these belong to one checkpoint, and not to all below a root."""
    given = [name for name in ("said", "keys", "app_id", "progress") if getattr(args, name)]
    named = [sink for sink in args.sink if sink != NO_SINK]
    if given or named:
        what = f"--sink {named[0]}" if named else f"--{given[0].replace('_', '-').replace('said', 'shared')}"
        raise UsageError(
            f"{what} was given together with --all",
            meaning="It is true of one checkpoint, and each of them would be judged by it. Nothing was read.",
            next=surestart("inspect", "--all", args.path, note="surestart.toml names the sink of each"),
            code="SinkOfOneForAll",
        )
