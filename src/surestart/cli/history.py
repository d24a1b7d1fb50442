"""`surestart history [STAGE]`: the last runs of an environment's stages, without Spark; live ones first of all."""

from __future__ import annotations

import argparse
import json
import sys
import time

from surestart.cli.arguments import add_environment_arguments, choose_stages, read_given_environment
from surestart.cli.doctor import given_options
from surestart.errors import EXIT_FINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", nargs="?", default="all", help="a stage's name (default: all of them)")
    add_environment_arguments(parser)
    parser.add_argument("--limit", type=int, default=20, help="how many runs, the newest (default 20)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/gate.md)")


def run(args: argparse.Namespace) -> int:
    from surestart.history.run_table import read_runs
    from surestart.report.text.history_table import history_object, render_history
    from surestart.runs.find_owner import judge_run

    environment, pipeline, settings = read_given_environment(args)
    queries = {environment.query_name(stage.name) for stage in choose_stages(pipeline, settings, args.stage)}
    session = None
    if not environment.root:
        # The table is in a catalog: only a session may read it.
        from surestart.spark.session import obtain_session as open_session

        session = open_session("surestart history")
    runs = [run for run in read_runs(environment, session) if run.query in queries][-max(args.limit, 1) :]
    states = {run.run_id: judge_run(run) for run in runs if not run.outcome}
    if args.json:
        sys.stdout.write(json.dumps(history_object(environment, runs, states), indent=2) + "\n")
    else:
        sys.stdout.write(render_history(environment, runs, states, int(time.time() * 1000), given_options(args)))
    return EXIT_FINE
