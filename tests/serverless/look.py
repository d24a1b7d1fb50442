"""What the gate and the history say of a stage, for the tests of this room."""

from __future__ import annotations

from typing import Any

from surestart.cli.stage_answers import ask_stages
from surestart.environment import Environment
from surestart.history.run_table import read_runs
from surestart.stage import Stage
from surestart.words.finding import Acceptance


def acceptance_of(environment: Environment, stage: Stage) -> list[Acceptance]:
    """Of each sink, as the doctor sees it from the files."""
    (diagnosis,) = ask_stages(environment, [stage])
    return [one.acceptance for one in diagnosis.sinks]


def outcome_of(spark: Any, environment: Environment, stage: str) -> tuple[str, int]:
    """How the newest run of the stage ended, and its rows, as the history has it."""
    newest = [run for run in read_runs(environment, spark) if run.stage == stage and run.outcome][-1]
    return newest.outcome, newest.rows
