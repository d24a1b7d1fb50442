"""`surestart inspect PATH`: read a checkpoint without Spark and say what the next start does. Writes nothing."""

from __future__ import annotations

import argparse
import sys

from surestart.diagnosis.finding import EXIT_CODES
from surestart.diagnosis.restart import DEFAULT_LINE, SPARK_LINES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the checkpoint folder: local, /Volumes/…, s3://…, abfss://…, gs://…")
    parser.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="SINK",
        help="where its rows go: the folder of a Delta table, or KIND:TARGET; `none` judges the checkpoint alone",
    )
    parser.add_argument(
        "--spark",
        default=DEFAULT_LINE,
        metavar="LINE",
        help=f"the Spark line that will start it, for the verdict: {', '.join(SPARK_LINES)} (default {DEFAULT_LINE})",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/inspect.md)")
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page")
    parser.add_argument(
        "--progress", metavar="FILE", help="Spark's progress or a driver log: durations and lag for the page"
    )
    parser.add_argument("--no-color", action="store_true", help="accepted everywhere; this output has no colour")


def run(args: argparse.Namespace) -> int:
    from surestart.diagnosis.inspection import inspect_checkpoint

    inspection = inspect_checkpoint(args.path, sinks=tuple(args.sink), spark=args.spark)
    if args.html:
        from surestart.report.html import render, write_page
        from surestart.report.progress_history import read_progress_file

        progress = read_progress_file(args.progress) if args.progress else ()
        write_page(args.html, render(inspection, progress=progress))
    if args.json:
        from surestart.report.inspection_json import inspection_json

        sys.stdout.write(inspection_json(inspection) + "\n")
    else:
        from surestart.report.text import render_inspection

        sys.stdout.write(render_inspection(inspection))
    return EXIT_CODES[inspection.verdict]
