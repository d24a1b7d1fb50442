"""What doctor and notebook ask about each stage, with the run history at hand. The start gate asks the same."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_runs
from surestart.library_types import SparkSession
from surestart.runs.judge_start import judge_stage
from surestart.stage import Stage
from surestart.typed import Words
from surestart.verdict.diagnose import Diagnosis
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import commands_for


def ask_stages(
    environment: Environment,
    stages: Sequence[Stage],
    *,
    spark: str = "",
    options: Words = (),
    session: SparkSession | None = None,
) -> list[Diagnosis]:
    """One diagnosis for each stage. Reads files, and asks the session about what has no path; a history that cannot be
    read is a finding of every stage."""
    runs, unread = read_run_history(environment, stages, session)
    return [
        ask_one(environment, stage, runs, unread, spark=spark, options=options, session=session) for stage in stages
    ]


def read_run_history(
    environment: Environment, stages: Sequence[Stage], session: SparkSession | None = None
) -> tuple[tuple[RunRecord, ...], list[Finding]]:
    """The runs, or what is to be said of every stage because they cannot be read."""
    try:
        queries = [environment.query_name(stage.name) for stage in stages]
        return read_runs(environment, session, claims_of=queries), []
    except CannotTell as error:
        return (), [Finding(error.code, Severity.CANNOT_TELL, error.what, error.meaning, error.next, error.do_not)]


def ask_one(
    environment: Environment,
    stage: Stage,
    runs: tuple[RunRecord, ...],
    unread: list[Finding],
    *,
    spark: str = "",
    options: Words = (),
    session: SparkSession | None = None,
) -> Diagnosis:
    commands = commands_for(stage, environment, options)
    found = judge_stage(environment, stage, runs, commands, session=session, spark=spark)
    return found.with_findings(unread)
