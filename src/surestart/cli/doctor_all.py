"""`surestart doctor` over the streams of surestart.toml: all of them in one table, the worst first."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from surestart.cli.inspect_all import Progress, show_fleet
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.spark_types import SparkSession
from surestart.typed import Place, Words, surestart
from surestart.verdict.fleet_row import Fleet, FleetRow, row_not_looked_at, row_of
from surestart.words.finding import EXIT_CODES

if TYPE_CHECKING:
    from surestart.history.run_record import RunRecord
    from surestart.stage import Stage
    from surestart.words.finding import Finding

# So many streams are asked at once: while one broker, table or store does not answer, the others are asked.
AT_ONCE = 8


def run(
    args: argparse.Namespace,
    environment: Environment,
    stages: Sequence[Stage],
    options: Words,
    session: SparkSession | None,
) -> int:
    from surestart.cli.stage_answers import read_run_history
    from surestart.verdict.inspection import read_line

    spark = args.spark and read_line(args.spark).name
    history = read_run_history(environment, stages, session)
    say = Progress()
    rows: list[FleetRow] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for row in pool.map(partial(row_of_stream, environment, spark, options, session, history), stages):
            rows.append(row)
            say(len(rows), len(stages))
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
        return row_not_looked_at(stage.name, environment.checkpoint(stage.name), error.what)
