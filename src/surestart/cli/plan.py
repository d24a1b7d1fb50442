"""`surestart plan REMEDY STAGE [-o plan.json]`: what a remedy would do. Writes the plan file and nothing else."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.cli.arguments import add_environment_arguments, choose_stages, read_given_environment
from surestart.cli.doctor import given_options, given_place
from surestart.environment import Environment
from surestart.errors import EXIT_FINE, UsageError
from surestart.journal.protocol import REMEDIES
from surestart.library_types import SparkSession
from surestart.remedies.planning.wanted import Wanted
from surestart.typed import PLAN_FILE, NextCommand, Place, surestart, typed
from surestart.words.finding import EXIT_CODES, Verdict

if TYPE_CHECKING:
    from surestart.remedies.basis.chain import Chain
    from surestart.remedies.basis.plan import Plan
    from surestart.streams.stream import Stream

_REMEDIES = """\
remedies:
  resume    what the next start runs again, and why that is safe; nothing is done
  rewind    back to a batch or a time: the table, the positions and the state as they
            were then, and on from there. With --beside DIR a fork: the same in a
            folder of its own, with nothing else touched
  restart   a declared stream begins anew from a batch: its checkpoint goes aside, and
            the plan says with which options, and which rows come twice
  replay    process again from a batch, a time or positions; or rebuild a checkpoint
            that is gone from what the output holds
  backfill  fill a hole (the one that `surestart verify` found, or a named range)
            while the stream goes on
  reset     rebuild the stage, and those below it, from the beginning
  move      a declared stream's checkpoint to another folder, under the same query id;
            a job that still names the old one fails
  retire    a query that nobody needs: its checkpoint goes, its tables stay or go
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _REMEDIES + "\n" + (parser.epilog or "")
    parser.add_argument("remedy", choices=REMEDIES)
    parser.add_argument("stage", help="a stage's name")
    add_environment_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the plan, for `surestart apply FILE`")
    parser.add_argument("--html", metavar="FILE", help="also write it as a self-contained page")
    parser.add_argument("--json", action="store_true", help="the plan as one JSON object on stdout")
    back = parser.add_argument_group("rewind")
    back.add_argument("--to-batch", type=int, metavar="N", help="the last batch that stays")
    back.add_argument("--to-time", metavar="TIME", help="the newest batch that was written then or before (ISO 8601)")
    parser.add_argument("--to", metavar="PATH", help="move: where the checkpoint goes, a folder that is not there yet")
    begin = parser.add_argument_group("replay")
    begin.add_argument("--from-batch", type=int, metavar="N", help="from this batch of the stage on")
    begin.add_argument("--from-time", metavar="TIME", help="from the first batch written then or later (ISO 8601)")
    begin.add_argument(
        "--from-positions", metavar="JSON", help='{"topic or file": {"partition": first offset to read again}}'
    )
    begin.add_argument(
        "--from-output",
        action="store_true",
        help="from where the output ends, by the rows it holds: for a checkpoint that is gone or cannot be trusted",
    )
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="SOURCE:PARTITION:FIRST-LAST",
        help="backfill: this range; default: the gaps that are found by counting",
    )
    parser.add_argument("--arrived-from", metavar="TIME", help="backfill: only rows that arrived then or later")
    parser.add_argument("--arrived-before", metavar="TIME", help="backfill: only rows that arrived before that")
    parser.add_argument("--clear-tables", action="store_true", help="retire: empty the stage's tables too")
    parser.add_argument(
        "--beside",
        nargs="?",
        const=True,
        default=False,
        metavar="DIR",
        help="reset: fill new tables while readers keep the old ones; swapped when every row is counted. rewind: make "
        "a fork in DIR, and leave the stream as it is (docs/rehearse.md)",
    )
    how = parser.add_argument_group("reset, replay and rewind")
    how.add_argument("--accept-loss", type=int, metavar="N", help="accept that exactly so many rows are lost for ever")
    how.add_argument("--keep-lost", action="store_true", help="keep rows that the source no longer has")
    how.add_argument("--no-run", action="store_true", help="leave starting the stages to their schedule")
    parser.add_argument(
        "--jobs",
        choices=("auto", "all", "found", "none"),
        help="the Databricks jobs that the plan pauses and cancels. all: every stage has one; found: those that are "
        "found; none: no job is looked for. Default auto: all, or none where no job can know of the place",
    )


def run(args: argparse.Namespace) -> int:
    from surestart.remedies.basis.chain import read_chain
    from surestart.remedies.planning.plan_remedy import check_times

    check_options(args)
    environment, pipeline, settings = read_given_environment(args)
    stages = pipeline.build_stages(settings)
    (stage,) = choose_stages(pipeline, settings, args.stage) if args.stage != "all" else (None,)
    if stage is None:
        raise UsageError(
            "a remedy is for one stage; those below it follow",
            meaning="Nothing was planned.",
            next=_again(args, args.remedy, stages[0].name),
        )
    check_output(args.output)
    check_output(args.html)
    chain = read_chain(environment, stages)
    check_times(environment, stage.name, wanted_of(args))
    from surestart.spark.session import obtain_session

    sys.stderr.write("starting Spark\n")
    spark = obtain_session("surestart plan")
    plan = make_plan(spark, environment, chain, args, settings)
    write_plan(plan, args, environment)
    return EXIT_CODES[Verdict(plan.verdict)] if plan.verdict else EXIT_FINE


def check_options(args: argparse.Namespace) -> None:
    """Raises for an option that would have no effect, before anything is asked or started."""
    wanted = wanted_of(args)
    if wanted.misplaced:
        raise UsageError(
            wanted.misplaced,
            meaning="It would have no effect, and whoever gave it expects one. Nothing was planned.",
            next=_again(args, args.remedy, args.stage),
        )
    if wanted.begins > 1 and wanted.remedy == "rewind":
        raise UsageError(
            "only one of --to-batch and --to-time can be given",
            meaning="It would not be clear how far it goes back. Nothing was planned.",
            next=_again(args, "rewind", args.stage, "--to-batch", 0),
        )
    if wanted.begins > 1:
        raise UsageError(
            "only one of --from-batch, --from-time, --from-positions and --from-output can be given",
            meaning="It would not be clear where to begin. Nothing was planned.",
            next=_again(args, "replay", args.stage, "--from-batch", 0),
        )


def wanted_of(args: argparse.Namespace) -> Wanted:
    given = {field.name: getattr(args, field.name) for field in fields(Wanted)}
    return Wanted(**{**given, "range": tuple(args.range)})


def _again(args: argparse.Namespace, remedy: str, stage: str, *begin: object) -> NextCommand:
    place = Place(args.env or os.environ.get("SURESTART_ENV") or "local", given_options(args))
    return surestart("plan", remedy, stage, *begin, *PLAN_FILE, place=place)


def make_plan(
    spark: SparkSession, environment: Environment, chain: Chain, args: argparse.Namespace, settings: dict[str, str]
) -> Plan:
    """The remedy that was asked for, with the jobs that it stops."""
    from surestart.remedies.planning.plan_remedy import plan_remedy

    check_options(args)
    pipeline, place = args.pipeline or "", given_options(args)
    return plan_remedy(
        spark,
        environment,
        chain,
        wanted_of(args),
        settings=settings,
        pipeline=pipeline,
        place=place,
        streams=_declared_beside(environment),
    )


def _declared_beside(environment: Environment) -> tuple[Stream, ...]:
    """Of a plan for a stage, the streams that the nearest surestart.toml declares."""
    from surestart.streams.project_file import find_project_file, read_project_file

    path = None if _is_declared(environment) else find_project_file()
    return () if path is None else read_project_file(path).streams


def check_output(path: str | None) -> None:
    """Raises before anything is computed when the plan's file cannot be written."""
    if path and not Path(path).absolute().parent.is_dir():
        raise UsageError(
            f"{path}: its folder does not exist",
            meaning="The plan could not be kept. Nothing was planned.",
            next=typed("mkdir", "-p", Path(path).parent),
        )
    if path and (Path(path).is_dir() or not os.access(Path(path).absolute().parent, os.W_OK | os.X_OK)):
        raise UsageError(
            f"{path} is a folder" if Path(path).is_dir() else f"{path}: its folder may not be written to",
            meaning="The plan could not be kept. Nothing was planned.",
            next=typed("ls", "-ld", Path(path).absolute().parent, note="name a file in one that you may write to"),
        )


def write_plan(plan: Plan, args: argparse.Namespace, environment: Environment) -> None:
    from surestart.report.text.plan import render_plan

    if args.output:
        from surestart.report.named_file import write_named_file

        write_named_file(args.output, plan.as_json(), "the plan", "It was made, and is not kept. Nothing was changed.")
    following = command_to_apply(plan, args, environment)
    if args.html:
        from surestart.report.html.page import write_page
        from surestart.report.html.plan import render_plan_html

        write_page(args.html, render_plan_html(plan, following))
        sys.stderr.write(f"Page: {args.html}\n")
    sys.stdout.write(plan.as_json() if args.json else render_plan(plan, following))


def _is_declared(environment: Environment) -> bool:
    from surestart.streams.as_pipeline import StreamEnvironment

    return isinstance(environment, StreamEnvironment)


def command_to_apply(plan: Plan, args: argparse.Namespace, environment: Environment) -> NextCommand:
    place = given_place(args, environment)
    if (plan.kind.changes_nothing and plan.verdict != "safe") or (not plan.steps and _is_declared(environment)):
        return surestart("doctor", plan.stage, place=place)
    if not plan.steps:
        return surestart("run", plan.stage, place=place)
    if args.output:
        return surestart("apply", args.output, place=place)
    words = (
        plan.remedy,
        plan.stage,
        *plan.options,
        *(("--accept-loss", plan.accepted_loss) if plan.accepted_loss else ()),
    )
    return surestart("plan", *words, place=place, more=PLAN_FILE, note="the same, kept")
