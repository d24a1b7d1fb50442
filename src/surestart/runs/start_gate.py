"""The gate in front of every start: one owner, a diagnosis, and the run's entry in the history.

    claim the query ── held by a live owner ──> refused
        └─> history + diagnosis ── unsafe ──> refused     cannot tell, not accepted by its code ──> not started
                └─> the query runs ──> one row in the history ──> the claim is given up

Everything up to the query's start only reads, but for the claim itself and the history's own summary; so a refusal
leaves the checkpoint and the tables byte for byte as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.history.claim_file import ClaimContent, claims_folder
from surestart.history.describe_run import describe_run, options_of
from surestart.history.log_runs import fold_log_runs
from surestart.history.run_record import TABLE, RunRecord
from surestart.journal.unfinished import refuse_unfinished
from surestart.library_types import SparkSession
from surestart.runs.find_owner import claim_by_file, claim_or_refuse, refuse_live_owner, seize_or_refuse
from surestart.runs.guarded_run import GuardedRun, died_run, write_warning
from surestart.runs.history_findings import read_source_ids
from surestart.runs.judge_start import judge_stage, read_history_or_tell, refuse_foreign_tables, refuse_or_accept
from surestart.spark.session import spark_version
from surestart.spark.spark_lines import refuse_too_old
from surestart.stage import Stage
from surestart.words.next_commands import Commands, commands_for

__all__ = [
    "GuardedRun",
    "describe_run",
    "judge_stage",
    "open_gate",
    "options_of",
    "pass_gate",
    "read_history_or_tell",
    "refuse_or_accept",
]


@contextmanager
def pass_gate(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    accept: Sequence[str] = (),
    warn: Callable[[SurestartError], object] = write_warning,
) -> Iterator[GuardedRun]:
    """The stage may start inside the block; raises before it when it may not. accept: codes of findings that somebody
    has looked at where the evidence does not decide. warn: gets what does not fail the run."""
    run = open_gate(spark, environment, stage, accept=accept, warn=warn)
    try:
        yield run
    except BaseException as reason:
        run.end_with(reason)
        raise
    run.end_with(None)


def open_gate(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    accept: Sequence[str] = (),
    commands: Commands | None = None,
    warn: Callable[[SurestartError], object] = write_warning,
) -> GuardedRun:
    """The query is claimed and may start; raises Refused or CannotTell otherwise, and the claim is free again.
    commands: what is said to come next, where that is not a command about a stage."""
    # A notebook, or a program of your own, brings its own session.
    refuse_too_old(spark_version(spark))
    commands = commands or commands_for(stage, environment, options_of(environment))
    # Read now, and not later: a source that took the name meanwhile would be recorded as what the run has read. And
    # read before the judgement: a source that takes the name in between then has another id at the next start.
    record = replace(describe_run(spark, environment, stage), sources=read_source_ids(stage, environment))
    folder = claims_folder(environment)
    if folder is None:
        return _open_by_row(spark, environment, stage, record, accept, commands, warn)
    claim = claim_by_file(folder, record, accept, commands)
    try:
        refuse_unfinished(environment, record.query, spark, commands.options)
        fold_log_runs(environment.table(TABLE).path)
        runs = read_history_or_tell(environment, spark, commands)
        judged = judge_stage(environment, stage, runs, commands, session=spark)
        refuse_foreign_tables(spark, environment, stage, judged)
        record = refuse_or_accept(judged, claim.record, accept, commands)
        held = claim.held or seize_or_refuse(claim, commands)
    except BaseException:
        if claim.held is not None:
            claim.held.release(clear=claim.held.read() == ClaimContent())
        raise
    return GuardedRun(spark, environment, stage, record, held, [died_run(one, judged) for one in claim.died], warn)


def _open_by_row(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    record: RunRecord,
    accept: Sequence[str],
    commands: Commands,
    warn: Callable[[SurestartError], object],
) -> GuardedRun:
    refuse_unfinished(environment, record.query, spark, commands.options)
    runs = read_history_or_tell(environment, spark, commands)
    record = refuse_live_owner(record, runs, accept, commands)
    judged = judge_stage(environment, stage, runs, commands, session=spark)
    refuse_foreign_tables(spark, environment, stage, judged)
    record = refuse_or_accept(judged, record, accept, commands)
    claimed = claim_or_refuse(spark, environment, record, runs, commands)
    run = GuardedRun(spark, environment, stage, claimed, warn=warn)
    try:
        # A remedy may have begun since the first look. It writes `begun` and then looks for claims; this start has
        # written its claim and now looks for `begun`: one of the two sees the other.
        refuse_unfinished(environment, record.query, spark, commands.options)
    except BaseException as reason:
        run.end_with(reason)
        raise
    return run
