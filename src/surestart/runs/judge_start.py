"""Whether a stage may start: the doctor's diagnosis with the stage's own declaration, and what the history adds to it.

unsafe                          Refused
cannot tell, not accepted       CannotTell, with the code to accept
otherwise                       the record, with the codes that had to be accepted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused
from surestart.facts.storage.storage import Storage
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.run_record import REMEDY, RunRecord
from surestart.history.run_table import read_deciding_runs
from surestart.library_types import SparkSession
from surestart.runs.history_findings import find_history, read_topic_id
from surestart.spark.session import spark_version
from surestart.stage import Stage
from surestart.verdict.ask_stages import ask_stage
from surestart.verdict.diagnose import Diagnosis
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def read_history_or_tell(environment: Environment, spark: SparkSession, commands: Commands) -> tuple[RunRecord, ...]:
    place = checkpoint_place(environment.checkpoint(commands.stage))
    try:
        return read_deciding_runs(environment, spark, environment.query_name(commands.stage), place)
    except CannotTell as problem:
        raise CannotTell(
            f"{commands.stage} is not started: {problem.what}",
            meaning=f"{problem.meaning} Without the history a deleted or swapped checkpoint looks like a first start.",
            next=problem.next,
            do_not="delete the history to get past this.",
            code=problem.code,
        ) from problem


def judge_stage(
    environment: Environment,
    stage: Stage,
    runs: Sequence[RunRecord],
    commands: Commands,
    *,
    session: SparkSession | None = None,
    spark: str = "",
    storage: Storage | None = None,
) -> Diagnosis:
    """What doctor, gate, notebook and plan say of a stage: checkpoint, sources, sinks, remedies and the run history.
    Reads files, and asks the session about what has no path. spark: the version to judge for, where it is not the
    session's. storage: where the checkpoint is read from, if it is not the one that is there."""
    from surestart.facts.evidence.session_evidence import read_sinks_by_session, read_source_by_session

    declaration = stage.declare(environment)
    unnamed_sinks = [sink for sink in declaration.sinks if not sink.path]
    own = [run for run in runs if (run.query, run.environment) == (declaration.query, environment.name)]
    diagnosis = ask_stage(
        environment,
        stage,
        spark=spark or (spark_version(session) if session is not None else ""),
        sinks=read_sinks_by_session(session, unnamed_sinks) if session is not None else None,
        ask_delta=partial(read_source_by_session, session) if session is not None else None,
        history=as_moved(own),
        recorded_topic_id=read_topic_id(own, declaration),
        session=session,
        storage=storage,
        commands=commands,
    )
    found = find_history(
        declaration,
        environment.name,
        checkpoint_place(declaration.checkpoint),
        diagnosis.evidence.checkpoint,
        diagnosis.evidence.sinks,
        runs,
        commands,
        in_one_folder=environment.in_one_folder,
    )
    return diagnosis.with_findings(found)


def as_moved(own: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The runs that wrote batches, oldest first. Of one before a remedy, the place of its checkpoint is the one where
    the remedy has left it: a checkpoint that was moved by a plan is no other one."""
    found: list[dict[str, Any]] = []
    for run in own:
        if run.event == REMEDY and run.checkpoint:
            found = [{**one, "declaration": {**one["declaration"], "checkpoint": run.checkpoint}} for one in found]
        elif run.last_batch is not None:
            found.append(run.as_dict())
    return found


def refuse_or_accept(
    diagnosis: Diagnosis,
    record: RunRecord,
    accept: Sequence[str],
    commands: Commands,
) -> RunRecord:
    """The record with the codes that had to be accepted; raises when the start is unsafe or nobody can tell."""
    findings = diagnosis.findings
    unsafe = [finding for finding in findings if finding.severity is Severity.UNSAFE]
    if unsafe:
        first = unsafe[0]
        raise Refused(
            f"{record.query} is not started: {first.evidence}{_more(unsafe)}",
            meaning=f"{first.meaning} Nothing was changed.",
            next=first.next,
            do_not=first.do_not,
            code=first.code,
        )
    unclear = [finding for finding in findings if finding.severity is Severity.CANNOT_TELL]
    open_questions = [finding for finding in unclear if finding.code not in accept]
    if open_questions:
        first = open_questions[0]
        codes = dict.fromkeys(finding.code for finding in unclear)
        raise CannotTell(
            f"{record.query} is not started: {first.evidence}{_more(open_questions)}",
            meaning=f"{first.meaning} Nothing was changed. If you have looked and know, accept it by its code; the "
            "history keeps that.",
            next=commands.accept(*codes),
            do_not=first.do_not,
            code=first.code,
        )
    used = tuple(dict.fromkeys([*record.accepted, *(finding.code for finding in unclear)]))
    return replace(record, accepted=used)


def refuse_foreign_tables(spark: SparkSession, environment: Environment, stage: Stage, diagnosis: Diagnosis) -> None:
    """Raises for a table that is not the stage's at all. It is named as such, and not as rows of unknown origin."""
    unclear = any(finding.code == "SINK_FRESH_START_UNCLEAR" for finding in diagnosis.findings)
    delta = all(answer.sink.is_delta for answer in diagnosis.sinks)
    if unclear and delta and all(held.exists and held.known for held in diagnosis.evidence.sinks.values()):
        # Where every table exists, this compares and creates nothing.
        stage.sink.prepare(spark, environment)


def _more(findings: Sequence[Finding]) -> str:
    return f" (and {len(findings) - 1} more: {', '.join(one.code for one in findings[1:])})" if findings[1:] else ""
