"""The gate in front of every start: one owner, a diagnosis, and the run's entry in the history.

    claim the query ── held by a live owner ──> refused
        └─> history + diagnosis ── unsafe ──> refused     cannot tell, not accepted by its code ──> not started
                └─> the query runs ──> one row in the history ──> the claim is given up

Everything up to the query's start only reads, but for the claim itself; so a refusal leaves the checkpoint and the
tables byte for byte as they were.
"""

from __future__ import annotations

import shlex
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surestart.diagnosis.ask_stages import ask_stage
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.diagnose import Diagnosis
from surestart.diagnosis.finding import Finding, Severity
from surestart.environment import Environment, environment_from_settings
from surestart.errors import CannotTell, Refused, SurestartError
from surestart.gate.find_owner import claim_by_file, claim_or_refuse, refuse_live_owner, seize_or_refuse
from surestart.gate.history_findings import find_history
from surestart.gate.identities import read_sink_ids, read_source_ids, read_topic_id
from surestart.registry.checkpoint_place import checkpoint_place
from surestart.registry.claim_file import ClaimContent, HeldClaim, claims_folder
from surestart.registry.process_facts import read_process_facts
from surestart.registry.read_runs import read_runs
from surestart.registry.run_record import DIED, ENDED, FAILED, FINISHED, STOPPED, RunRecord
from surestart.registry.write_runs import append_runs
from surestart.session import spark_version
from surestart.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Newest batches whose metrics are kept with the run; a row of some 20 kB at most.
METRICS = 100


class GuardedRun:
    """A run that has passed the gate: what it tells of itself goes into the history when it ends."""

    def __init__(
        self,
        spark: SparkSession,
        environment: Environment,
        stage: Stage,
        record: RunRecord,
        claim: HeldClaim | None = None,
        died: Sequence[RunRecord] = (),
    ) -> None:
        self._spark, self._environment, self._stage = spark, environment, stage
        self._claim = claim
        self._died = tuple(died)
        self._metrics: deque[Mapping[str, Any]] = deque(maxlen=METRICS)
        self.record = record
        self._tell()

    def started(self, query_id: str) -> None:
        """The query runs under this id: from here on the run is in the history, however it ends."""
        self.record = replace(self.record, query_id=query_id)
        self._tell()

    def count(self, batch: int, rows: int, seconds: float, report: Mapping[str, Any]) -> None:
        run = self.record
        self.record = replace(
            run,
            first_batch=batch if run.first_batch is None else min(run.first_batch, batch),
            last_batch=batch if run.last_batch is None else max(run.last_batch, batch),
            batches=run.batches + 1,
            rows=run.rows + rows,
        )
        self._metrics.append(_metric(batch, rows, seconds, report))

    def ended(self, outcome: str, error: str = "") -> None:
        """The row is written, unless the run had nothing to do and nothing to say. Never raises: the stream has run."""
        left = self._died
        if self._has_something_to_say(outcome):
            rows = (*self._died, self._finish(outcome, error))
            try:
                append_runs(self._spark, self._environment, rows)
                left = ()
            except Exception as problem:  # noqa: BLE001  The stream's own result stands, whatever the history's fate.
                left = rows
                sys.stderr.write(f"{_not_written(self._stage.name, self._environment, problem)}\n")
        if self._claim is not None:
            if left:
                # The next run of the query writes them.
                self._claim.write(None, left)
            self._claim.release(clear=not left)

    def _has_something_to_say(self, outcome: str) -> bool:
        run = self.record
        if run.epoch is not None:
            return True
        return bool(run.query_id and (run.batches or outcome != FINISHED or run.accepted or self._died))

    def _tell(self) -> None:
        if self._claim is not None:
            self._claim.write(self.record, self._died)

    def _finish(self, outcome: str, error: str) -> RunRecord:
        return replace(
            self.record,
            event=ENDED,
            outcome=outcome,
            error=error,
            ended_at=_now(),
            sources=self.record.sources or read_source_ids(self._stage, self._environment),
            sinks=read_sink_ids(self._spark, self._stage, self._environment),
            metrics=tuple(self._metrics),
        )


@contextmanager
def pass_gate(
    spark: SparkSession, environment: Environment, stage: Stage, *, accept: Sequence[str] = ()
) -> Iterator[GuardedRun]:
    """The stage may start inside the block; raises before it when it may not. accept: codes of findings that somebody
    has looked at where the evidence does not decide."""
    run = open_gate(spark, environment, stage, accept=accept)
    try:
        yield run
    except SurestartError as error:
        run.ended(FAILED, error.code)
        raise
    except Exception as error:
        run.ended(FAILED, type(error).__name__)
        raise
    except BaseException as stop:
        run.ended(STOPPED, type(stop).__name__)
        raise
    run.ended(FINISHED)


def open_gate(spark: SparkSession, environment: Environment, stage: Stage, *, accept: Sequence[str] = ()) -> GuardedRun:
    """The query is claimed and may start; raises Refused or CannotTell otherwise, and the claim is free again."""
    commands = Commands(stage.name, environment.name, options_of(environment))
    record = describe_run(spark, environment, stage)
    folder = claims_folder(environment)
    if folder is None:
        return _open_by_row(spark, environment, stage, record, accept, commands)
    claim = claim_by_file(folder, record, accept, commands)
    try:
        runs = read_history_or_tell(environment, spark, commands)
        judged = judge_start(spark, environment, stage, record, runs, commands)
        _refuse_foreign_tables(spark, environment, stage, judged[0])
        record = refuse_or_accept(judged, claim.record, accept, commands)
        held = claim.held or seize_or_refuse(claim, commands)
    except BaseException:
        if claim.held is not None:
            claim.held.release(clear=claim.held.read() == ClaimContent())
        raise
    return GuardedRun(spark, environment, stage, record, held, [_died(one, judged[0]) for one in claim.died])


def _open_by_row(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    record: RunRecord,
    accept: Sequence[str],
    commands: Commands,
) -> GuardedRun:
    runs = read_history_or_tell(environment, spark, commands)
    record = refuse_live_owner(record, runs, accept, commands)
    judged = judge_start(spark, environment, stage, record, runs, commands)
    _refuse_foreign_tables(spark, environment, stage, judged[0])
    record = refuse_or_accept(judged, record, accept, commands)
    return GuardedRun(spark, environment, stage, claim_or_refuse(spark, environment, record, runs, commands))


def judge_start(
    spark: SparkSession | None,
    environment: Environment,
    stage: Stage,
    record: RunRecord,
    runs: Sequence[RunRecord],
    commands: Commands,
) -> tuple[Diagnosis, tuple[Finding, ...]]:
    """The doctor's diagnosis with this stage's declaration and history, and what the history alone says."""
    from surestart.diagnosis.session_evidence import read_sinks_by_session, read_sources_by_session

    declaration = stage.declare(environment)
    unnamed_sinks = [sink for sink in declaration.sinks if not sink.path]
    unnamed_sources = [source for source in declaration.sources if not source.path]
    own = [run for run in runs if (run.query, run.environment) == (record.query, record.environment)]
    registered = [run for run in own if run.last_batch is not None]
    diagnosis = ask_stage(
        environment,
        stage,
        spark=spark_version(spark) if spark is not None else "",
        sinks=read_sinks_by_session(spark, unnamed_sinks) if spark is not None else None,
        sources=read_sources_by_session(spark, unnamed_sources) if spark is not None else None,
        history=[run.as_dict() for run in registered],
        recorded_topic_id=read_topic_id(own, declaration),
        options=commands.options,
    )
    found = find_history(
        declaration,
        environment.name,
        record.place,
        diagnosis.evidence.checkpoint,
        diagnosis.evidence.sinks,
        runs,
        commands,
    )
    return diagnosis, found


def refuse_or_accept(
    judged: tuple[Diagnosis, tuple[Finding, ...]],
    record: RunRecord,
    accept: Sequence[str],
    commands: Commands,
) -> RunRecord:
    """The record with the codes that had to be accepted; raises when the start is unsafe or nobody can tell."""
    diagnosis, extra = judged
    findings = (*extra, *diagnosis.findings)
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
            next=f"{commands.run()} {' '.join(f'--accept {code}' for code in codes)}",
            do_not=first.do_not,
            code=first.code,
        )
    used = tuple(dict.fromkeys([*record.accepted, *(finding.code for finding in unclear)]))
    return replace(record, accepted=used)


def _refuse_foreign_tables(spark: SparkSession, environment: Environment, stage: Stage, diagnosis: Diagnosis) -> None:
    """A table that is not the stage's at all is named as that, and not as rows of unknown origin."""
    unclear = any(finding.code == "SINK_FRESH_START_UNCLEAR" for finding in diagnosis.findings)
    delta = all(answer.sink.kind.startswith("delta") for answer in diagnosis.sinks)
    if unclear and delta and all(held.exists and held.known for held in diagnosis.evidence.sinks.values()):
        # Where every table exists, this compares and creates nothing.
        stage.sink.prepare(spark, environment)


def describe_run(spark: SparkSession, environment: Environment, stage: Stage) -> RunRecord:
    facts = read_process_facts()
    declaration = stage.declare(environment)
    return RunRecord(
        run_id=str(uuid.uuid4()),
        pipeline=environment.pipeline,
        environment=environment.name,
        stage=stage.name,
        query=declaration.query,
        checkpoint=declaration.checkpoint,
        place=checkpoint_place(declaration.checkpoint),
        fingerprint=declaration.fingerprint,
        declaration=declaration.as_dict(),
        version=facts.version,
        git_commit=facts.git_commit,
        spark=spark_version(spark),
        runtime=facts.runtime,
        host=facts.host,
        pid=facts.pid,
        process_started=facts.process_started,
        job_run=facts.job_run,
        job_url=facts.job_url,
        started_at=_now(),
    )


def read_history_or_tell(environment: Environment, spark: SparkSession, commands: Commands) -> tuple[RunRecord, ...]:
    try:
        return read_runs(environment, spark)
    except CannotTell as problem:
        raise CannotTell(
            f"{commands.stage} is not started: {problem.what}",
            meaning=f"{problem.meaning} Without the history a deleted or swapped checkpoint looks like a first start.",
            next=problem.next,
            do_not="delete the history to get past this.",
            code=problem.code,
        ) from problem


def options_of(environment: Environment) -> str:
    """What a command needs beside --env to speak of the same place."""
    if not environment.root:
        return f"--set catalog={shlex.quote(environment.catalog)} --set schema={shlex.quote(environment.schema)}"
    usual = environment_from_settings(environment.name, environment.pipeline, {}, environ={"SURESTART_ROOT": "/-"})
    own = str(Path.cwd() / ".surestart" / environment.name)
    parts = [] if environment.root == own else [f"--root {shlex.quote(environment.root)}"]
    if environment.checkpoint_root != usual.checkpoint_root.replace("/-", environment.root, 1):
        parts.append(f"--set checkpoint_root={shlex.quote(environment.checkpoint_root)}")
    return " ".join(parts)


def _died(run: RunRecord, diagnosis: Diagnosis) -> RunRecord:
    """The row of a run that could not write its own: how far it came, its checkpoint says."""
    if run.outcome:
        return run
    checkpoint = diagnosis.evidence.checkpoint
    same = run.query_id and run.query_id == checkpoint.query_id
    return replace(run, event=ENDED, outcome=DIED, last_batch=checkpoint.latest_committed if same else None)


def _metric(batch: int, rows: int, seconds: float, report: Mapping[str, Any]) -> dict[str, Any]:
    sources = [source for source in report.get("sources") or () if isinstance(source, Mapping)]
    lag = {
        name: value
        for source in sources
        for name, value in (source.get("metrics") or {}).items()
        if "ehind" in name or "utstanding" in name
    }
    phases = {name: ms for name, ms in (report.get("durationMs") or {}).items() if isinstance(ms, int)}
    return {
        "batch": batch,
        "rows": rows,
        "ms": round(seconds * 1000),
        "at": report.get("timestamp"),
        "phases": phases,
        "lag": lag,
    }


def _more(findings: Sequence[Finding]) -> str:
    return f" (and {len(findings) - 1} more: {', '.join(one.code for one in findings[1:])})" if findings[1:] else ""


def _not_written(stage: str, environment: Environment, problem: Exception) -> SurestartError:
    return SurestartError(
        f"the run of {stage} is not in the history: {_first_line(problem)}",
        meaning="The stream itself ran as reported; its rows and its checkpoint are in order. The next start knows "
        "less of this one.",
        next=f"surestart history {stage} -e {environment.name}",
        do_not="run the stage again for the sake of the history.",
        code="HistoryNotWritten",
    )


def _first_line(problem: Exception) -> str:
    lines = [line.strip(" :") for line in str(problem).splitlines() if line.strip()]
    # Py4J names its own object first, and the error on the next line.
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return told[0][:300] if told else type(problem).__name__


def _now() -> int:
    return int(time.time() * 1000)
