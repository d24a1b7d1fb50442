"""The doctor's question to each stage, with the run history at hand; the start gate asks the same before a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.read_runs import read_runs
from surestart.history.run_record import RunRecord
from surestart.runs.history_findings import find_history
from surestart.runs.identities import read_topic_id
from surestart.stage import Stage
from surestart.verdict.ask_stages import ask_stage
from surestart.verdict.diagnose import Diagnosis
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ask_stages(
    environment: Environment,
    stages: Sequence[Stage],
    *,
    spark: str = "",
    options: str = "",
    session: SparkSession | None = None,
) -> list[Diagnosis]:
    """One diagnosis for each stage. Reads files, and asks the session about what has no path; a history that cannot be
    read is a finding of every stage."""
    runs: tuple[RunRecord, ...] = ()
    unread: list[Finding] = []
    try:
        runs = read_runs(environment, session)
    except CannotTell as error:
        unread = [Finding(error.code, Severity.CANNOT_TELL, error.what, error.meaning, error.next, error.do_not)]
    return [_ask(environment, stage, runs, spark, options, session).with_findings(unread) for stage in stages]


def _ask(
    environment: Environment,
    stage: Stage,
    runs: Sequence[RunRecord],
    spark: str,
    options: str,
    session: SparkSession | None,
) -> Diagnosis:
    from surestart.facts.evidence.session_evidence import read_sinks_by_session, read_source_by_session

    declaration = stage.declare(environment)
    hidden_sinks = [one for one in declaration.sinks if not one.path]
    own = [run for run in runs if (run.query, run.environment) == (declaration.query, environment.name)]
    diagnosis = ask_stage(
        environment,
        stage,
        spark=spark,
        sinks=read_sinks_by_session(session, hidden_sinks) if session is not None else None,
        ask_delta=partial(read_source_by_session, session) if session is not None else None,
        history=[run.as_dict() for run in own if run.last_batch is not None],
        recorded_topic_id=read_topic_id(own, declaration),
        options=options,
    )
    found = find_history(
        declaration,
        environment.name,
        checkpoint_place(declaration.checkpoint),
        diagnosis.evidence.checkpoint,
        diagnosis.evidence.sinks,
        runs,
        Commands(stage.name, environment.name, options),
        in_one_folder=environment.in_one_folder,
    )
    return diagnosis.with_findings(found)
