"""`surestart undo DIGEST`: checkpoints and tables as they were before that remedy."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from surestart.cli.apply import confirming, find_begun, say, stages_of_plan, stopping
from surestart.cli.arguments import add_environment_arguments, add_job_wait, read_given_environment
from surestart.cli.doctor import given_place
from surestart.errors import EXIT_FINE
from surestart.remedies.basis.plan import FORK
from surestart.typed import surestart


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="the digest that apply printed, or the plan's file")
    add_environment_arguments(parser)
    parser.add_argument("--confirm", metavar="TARGET", help="the name of what is changed, for scripts")
    parser.add_argument("--accept-loss", type=int, metavar="N", help="accept that exactly so many rows are lost")
    add_job_wait(parser)


def run(args: argparse.Namespace) -> int:
    from surestart.remedies.apply.undo import undo_remedy
    from surestart.remedies.basis.chain import read_chain
    from surestart.remedies.basis.plan import read_plan
    from surestart.spark.session import obtain_session

    environment, pipeline, settings = read_given_environment(args)
    plan = read_plan(args.plan) if Path(args.plan).exists() else None
    sys.stderr.write("starting Spark\n")
    spark = obtain_session("surestart undo")
    plan = plan or find_begun(spark, environment, args.plan)
    place = given_place(args, environment)
    command = surestart("undo", args.plan, place=place)
    chain = read_chain(environment, stages_of_plan(pipeline, settings, plan, command))
    confirm = confirming(args.confirm, command)
    undo_remedy(spark, environment, chain, plan, confirm, say, args.accept_loss, stopping(args))
    if plan.kind.adds_only:
        sys.stdout.write(
            f"\nbackfill of {plan.target} is withdrawn (digest {plan.digest[:12]}): it writes no more rows; those "
            f"that it had written were missing, and stay.\nNext: {surestart('verify', place=place)}\n"
        )
        return EXIT_FINE
    if plan.method == FORK:
        folder = plan.steps[-1].arguments["folder"]
        sys.stdout.write(
            f"\nthe fork {folder} is dropped (digest {plan.digest[:12]}).\n"
            f"Next: {surestart('doctor', plan.stage, place=place)}\n"
        )
        return EXIT_FINE
    sys.stdout.write(
        f"\n{plan.remedy} of {plan.target} is undone (digest {plan.digest[:12]}).\n"
        "Checkpoints are as they were, byte for byte; tables have their former content.\n"
        f"Next: {environment.begin_command(place.options)}\n"
    )
    return EXIT_FINE
