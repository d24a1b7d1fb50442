"""`surestart plan REMEDY STAGE [-o plan.json]`: what a remedy would do. Writes the plan file and nothing else."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.cli.arguments import add_environment_arguments, choose_stages, read_environment
from surestart.cli.doctor import given_options
from surestart.environment import Environment
from surestart.errors import EXIT_FINE, UsageError
from surestart.typed import at, surestart, typed, word
from surestart.words.finding import EXIT_CODES, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from surestart.remedies.plan.chain import Chain
    from surestart.remedies.plan.plan import Plan
    from surestart.stage import Stage
    from surestart.verdict.diagnose import Diagnosis

_REMEDIES = """\
remedies:
  resume    what the next start runs again, and why that is safe; nothing is done
  replay    process again from a batch, a time or positions; or rebuild a checkpoint
            that is gone from what the output holds
  backfill  fill a hole (the one that `surestart verify` found, or a named range)
            while the stream goes on
  reset     rebuild the stage, and those below it, from the beginning
  retire    a query that nobody needs: its checkpoint goes, its tables stay or go
"""


_BELONGS = {
    "from_batch": ("replay",),
    "from_time": ("replay",),
    "from_positions": ("replay",),
    "from_output": ("replay",),
    "range": ("backfill",),
    "arrived_from": ("backfill",),
    "arrived_before": ("backfill",),
    "clear_tables": ("retire",),
    "accept_loss": ("replay", "reset"),
    "keep_lost": ("replay", "reset"),
    "no_run": ("replay", "backfill", "reset"),
    "jobs": ("replay", "reset", "retire"),
    "beside": ("reset",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _REMEDIES + "\n" + (parser.epilog or "")
    parser.add_argument("remedy", choices=("resume", "replay", "backfill", "reset", "retire"))
    parser.add_argument("stage", help="a stage's name")
    add_environment_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the plan, for `surestart apply FILE`")
    parser.add_argument("--html", metavar="FILE", help="also write it as a self-contained page")
    parser.add_argument("--json", action="store_true", help="the plan as one JSON object on stdout")
    parser.add_argument("--no-color", action="store_true", help="accepted everywhere; this output has no colour")
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
        action="store_true",
        help="reset: fill new tables while readers keep the old ones; swapped when every row is counted",
    )
    how = parser.add_argument_group("reset and replay")
    how.add_argument("--accept-loss", type=int, metavar="N", help="so many rows are lost for ever, and that is known")
    how.add_argument("--keep-lost", action="store_true", help="rows that the source no longer has stay as they are")
    how.add_argument("--no-run", action="store_true", help="leave starting the stages to their schedule")
    parser.add_argument(
        "--jobs",
        choices=("auto", "all", "found", "none"),
        help="the Databricks jobs that the plan pauses and cancels. all: every stage has one; found: those that there "
        "are; none: nobody is asked. Default auto: all, but none where no job can know of the place",
    )


def run(args: argparse.Namespace) -> int:
    from surestart.remedies.plan.chain import read_chain

    check_options(args)
    environment, pipeline, settings = read_environment(args)
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
    from surestart.spark.session import session

    sys.stderr.write("starting Spark\n")
    spark = session("surestart plan")
    plan = make_plan(spark, environment, chain, args, settings)
    write_plan(plan, args, environment)
    return EXIT_CODES[Verdict(plan.verdict)] if plan.verdict else EXIT_FINE


def check_options(args: argparse.Namespace) -> None:
    """Raises for an option that would have no effect, before anything is asked or started."""
    for name, remedies in _BELONGS.items():
        value = getattr(args, name)
        if value is not None and value is not False and value != [] and args.remedy not in remedies:
            raise UsageError(
                f"--{name.replace('_', '-')} is for {' and '.join(remedies)}, not for {args.remedy}",
                meaning="It would have no effect, and whoever gave it expects one. Nothing was planned.",
                next=_again(args, args.remedy, args.stage),
            )
    begins = (args.from_batch, args.from_time, args.from_positions, args.from_output or None)
    if len([one for one in begins if one is not None]) > 1:
        raise UsageError(
            "only one of --from-batch, --from-time, --from-positions and --from-output can be given",
            meaning="Where to begin would not be clear. Nothing was planned.",
            next=_again(args, "replay", args.stage, "--from-batch", 0),
        )


def _again(args: argparse.Namespace, remedy: str, stage: str, *begin: object) -> str:
    place = at(args.env or os.environ.get("SURESTART_ENV") or "local", given_options(args))
    return surestart("plan", remedy, stage, *begin, "-o", "plan.json", place=place)


def typed_options(args: argparse.Namespace) -> str:
    """What was asked for, as it would be typed again. A loss has to be named anew: it may be another one by then."""
    words = []
    for name in _BELONGS:
        value, option = getattr(args, name), f"--{name.replace('_', '-')}"
        if name == "accept_loss" or value is None or value is False or value == []:
            continue
        values = value if isinstance(value, list) else [value]
        words += [option] if value is True else [f"{option} {word(str(one))}" for one in values]
    return " ".join(words)


def make_plan(
    spark: SparkSession, environment: Environment, chain: Chain, args: argparse.Namespace, settings: dict[str, str]
) -> Plan:
    """The remedy that was asked for, with the jobs that it stops."""
    from surestart.remedies.jobs.plan_jobs import AUTO, with_jobs

    return with_jobs(spark, environment, _make_plan(spark, environment, chain, args, settings), args.jobs or AUTO)


def _make_plan(
    spark: SparkSession, environment: Environment, chain: Chain, args: argparse.Namespace, settings: dict[str, str]
) -> Plan:
    from surestart.journal.half_way import refuse_half_way
    from surestart.remedies.planning.plan_replay import From, plan_replay, read_positions, read_time
    from surestart.remedies.planning.plan_reset import plan_reset
    from surestart.remedies.planning.request import Request
    from surestart.sources.kafka import KafkaSource

    check_options(args)
    name = args.stage.removeprefix(f"{environment.pipeline}-")
    for link in chain.below(name):
        refuse_half_way(environment, link.query, spark, given_options(args))
        if isinstance(link.stage.source, KafkaSource):
            # Before the jobs are paused and rows are cleared: the remedy begins a new stream in the end.
            link.stage.source.refuse_shown_secrets(spark)
    request = Request(
        settings=settings,
        pipeline=args.pipeline or "",
        accept_loss=args.accept_loss,
        keep_lost=args.keep_lost,
        run=not args.no_run,
        options=typed_options(args),
    )
    if args.remedy == "resume":
        from surestart.remedies.planning.plan_resume import plan_resume

        diagnosis = judge(spark, environment, chain.link(name).stage, given_options(args))
        return plan_resume(spark, environment, chain, name, diagnosis, request)
    if args.remedy == "retire":
        from surestart.remedies.planning.plan_retire import plan_retire

        return plan_retire(spark, environment, chain, name, args.clear_tables, request)
    if args.remedy == "backfill":
        from surestart.remedies.planning.plan_backfill import Between, plan_backfill, read_ranges

        between = Between(
            read_time(args.arrived_from) if args.arrived_from else None,
            read_time(args.arrived_before) if args.arrived_before else None,
        )
        return plan_backfill(spark, environment, chain, name, read_ranges(args.range), between, request)
    if args.remedy == "replay":
        begin = From(
            batch=args.from_batch,
            time=read_time(args.from_time) if args.from_time else None,
            positions=read_positions(args.from_positions) if args.from_positions else None,
            output=args.from_output,
        )
        return plan_replay(spark, environment, chain, name, begin, request)
    if args.beside:
        from surestart.remedies.planning.plan_beside import plan_reset_beside

        return plan_reset_beside(spark, environment, chain, name, request)
    return plan_reset(spark, environment, chain, name, request)


def judge(spark: SparkSession, environment: Environment, stage: Stage, options: str) -> Diagnosis:
    """As the start gate judges, the run history and tables of a catalog included."""
    from surestart.history.read_runs import read_runs
    from surestart.runs.judge_start import judge_stage
    from surestart.words.next_commands import Commands

    commands = Commands(stage.name, environment.name, options)
    return judge_stage(environment, stage, read_runs(environment, spark), commands, session=spark)


def check_output(path: str | None) -> None:
    """Raises before anything is computed when the plan's file cannot be written."""
    if path and not Path(path).absolute().parent.is_dir():
        raise UsageError(
            f"{path}: its folder does not exist",
            meaning="The plan could not be kept. Nothing was planned.",
            next=typed("mkdir", "-p", Path(path).parent),
        )


def write_plan(plan: Plan, args: argparse.Namespace, environment: Environment) -> None:
    from surestart.report.text.plan import render_plan

    if args.output:
        target = Path(args.output)
        fresh = target.with_name(target.name + ".new")
        fresh.write_text(plan.as_json(), encoding="utf-8")
        fresh.replace(target)
    following = next_command(plan, args, environment)
    if args.html:
        from surestart.report.html.page import write_page
        from surestart.report.html.plan import render_plan_html

        write_page(args.html, render_plan_html(plan, following))
        sys.stderr.write(f"Page: {args.html}\n")
    sys.stdout.write(plan.as_json() if args.json else render_plan(plan, following))


def next_command(plan: Plan, args: argparse.Namespace, environment: Environment) -> str:
    options = f" -e {environment.name} {given_options(args)}".rstrip()
    if plan.remedy == "resume" and plan.verdict != "safe":
        return f"surestart doctor {plan.stage}{options}"
    if not plan.steps:
        return f"surestart run {plan.stage}{options}"
    if args.output:
        return f"surestart apply {word(args.output)}{options}"
    loss = f" --accept-loss {plan.accepted_loss}" if plan.accepted_loss else ""
    given = f" {plan.options}" if plan.options else ""
    return f"surestart plan {plan.remedy} {plan.stage}{given}{loss}{options} -o plan.json  # the same, kept"
