"""Reads former runs: from the log of `surestart_runs`, and from the claims of runs that have not ended, without a JVM.

    a root on this machine    the log's summary and what came since (log_runs), claim files
    anywhere else             rows of `surestart_claims`: what decides of each query, and who has it now
    for people                the notes of the newest commits on top

A start asks `read_deciding_runs`, which costs the same after a hundred thousand runs.

Appends runs to `surestart_runs`: one commit, through Spark, the same locally, on Databricks and on Spark Connect.

The commit's note repeats the rows without their metrics, so that the gate and the doctor read the last runs from the
log alone: no JVM, no Parquet. Where claims are rows, those say what decides of these runs, and are written first: a
start goes by them alone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.facts.delta import Commit, read_history
from surestart.facts.delta.listing import NoDeltaLog
from surestart.history.claim_file import OWNER_UNKNOWN, claims_folder, read_claim
from surestart.history.claim_row import read_claim_rows, remember_runs
from surestart.history.describe_run import options_of
from surestart.history.log_runs import read_log_runs, read_recent_runs
from surestart.history.run_record import COLUMNS, NOTE, REMEDY, TABLE, RunRecord, merge_events, read_note, read_record
from surestart.library_types import DataFrame, SparkSession
from surestart.spark.delta_table import create_in_catalog, save_to
from surestart.spark.every_line import select_values
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import spark_sql, surestart, typed
from surestart.words.spark_errors import NO_TABLE, is_condition

# For people: some 50 ms to read.
COMMITS = 300
# Of a query that has no claim yet where claims are rows, of as many runs as a version before that wrote.
_FORMER, _AT_PLACE = 2_000, 50


def read_runs(
    environment: Environment, spark: SparkSession | None = None, *, claims_of: Iterable[str] = ()
) -> tuple[RunRecord, ...]:
    """The newest runs of the environment's table, and of each query those that decide, oldest first. claims_of:
    queries whose claims are looked up by name, whatever their folder's listing says. Raises CannotTell when there is a
    history that cannot be read: a history that is out of reach is not an empty one."""
    table = environment.table(TABLE)
    claimed = _claimed(environment, spark)
    found = [*claimed, *_unwritten(environment, claims_of)]
    if _is_local(table.path):
        with contextlib.suppress(NoDeltaLog):
            there = read_log_runs(table.path)
            found += [*there.runs, *read_recent_runs(table.path, there.newest, COMMITS)]
    else:
        commits = _newest_commits(environment, spark)
        found += [record for commit in commits for record in read_note(commit.user_metadata)]
        if commits and commits[0].version > 0 and not claimed:
            found += read_former_runs(environment, spark)
    return merge_events(found)


def read_deciding_runs(environment: Environment, spark: SparkSession, query: str, place: str) -> tuple[RunRecord, ...]:
    """Those that a start of this query is judged by, and those of other queries at its place, oldest first. Raises
    CannotTell when there is a history that cannot be read."""
    found = [*_claimed(environment, spark), *_unwritten(environment, (query,))]
    if claims_folder(environment) is not None:
        with contextlib.suppress(NoDeltaLog):
            found += read_log_runs(environment.table(TABLE).path).runs
    elif not _knows(found, environment, query):
        found += read_former_runs(environment, spark, query, place)
    return merge_events(found)


def read_batches(environment: Environment) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Query id -> what each batch took and how far behind its sources it was, of every run kept, oldest run first."""
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for run in merge_events(_rows(environment)):
        if run.query_id and run.metrics:
            found[run.query_id] = (*found.get(run.query_id, ()), *run.metrics)
    return found


def _knows(runs: Iterable[RunRecord], environment: Environment, query: str) -> bool:
    return any((run.environment, run.query) == (environment.name, query) for run in runs)


def _claimed(environment: Environment, spark: SparkSession | None) -> list[RunRecord]:
    return [run for row in read_claim_rows(environment, spark) for run in row.runs]


def _unwritten(environment: Environment, queries: Iterable[str]) -> Iterator[RunRecord]:
    folder = claims_folder(environment)
    if folder is None:
        return
    from surestart.facts.storage.open_storage import open_storage

    try:
        sizes = {entry.name: entry.size or 0 for entry in open_storage(str(folder)).list_folder("")}
    except FileNotFoundError:
        return
    except OSError as error:
        raise _claims_unread(folder, error) from error
    names = {name for name in sizes if name.endswith(".lock")} | {f"{query}.lock" for query in queries}
    for path in (folder / name for name in sorted(names)):
        claim = read_claim(path, sizes.get(path.name, 0))
        if claim.torn:
            raise _claim_torn(environment, path)
        yield from (claim.record, *claim.former) if claim.record else claim.former


def _claim_torn(environment: Environment, path: Path) -> CannotTell:
    query = path.name.removesuffix(".lock")
    return CannotTell(
        f"{path} is not whole: who has run {query} last is not known",
        meaning="A crash or a full disk leaves such a claim. Whether a driver on another machine has it still, and "
        "what became of the run that it named, only somebody who has looked can say.",
        next=environment.accept_command(query, OWNER_UNKNOWN, options_of(environment)),
        do_not=f"accept it before you have looked whether {query} runs elsewhere.",
        code=OWNER_UNKNOWN,
    )


def _claims_unread(path: Path, error: OSError) -> CannotTell:
    return CannotTell(
        f"{path} cannot be read: {type(error).__name__}: {error.strerror or error}",
        meaning="Whether a run of this query is live, or died and is in no history yet, is not known.",
        next=typed("ls", "-ld", path),
        code="HistoryOutOfReach",
    )


def _rows(environment: Environment) -> list[RunRecord]:
    from surestart.facts.delta.pinned import read_table_rows

    table = environment.table(TABLE)
    try:
        rows = list(read_table_rows(table.path)) if table.path else []
    except NoDeltaLog:
        return []
    return [record for row in rows if (record := read_record(row)) is not None]


def _newest_commits(environment: Environment, spark: SparkSession | None) -> tuple[Commit, ...]:
    from surestart.facts.delta import history_evidence

    table = environment.table(TABLE)
    if table.path:
        try:
            return read_history(table.path, limit=COMMITS)
        except NoDeltaLog:
            return ()
    if spark is None:
        raise CannotTell(
            f"the run history {table.sql} is in a catalog and no session was given",
            meaning="Its files cannot be opened by name from here.",
            next=surestart("history", note="on the cluster, or through Databricks Connect"),
            code="HistoryOutOfReach",
        )
    from pyspark.errors import AnalysisException

    try:
        return history_evidence(spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT {COMMITS}").collect()).commits
    except AnalysisException as problem:
        if is_condition(problem, NO_TABLE):
            return ()
        raise _out_of_reach(table.sql, f"cannot be read: {str(problem).splitlines()[0][:200]}") from problem


def read_former_runs(
    environment: Environment, spark: SparkSession | None, query: str = "", place: str = ""
) -> Iterable[RunRecord]:
    """By the history alone: the newest runs of this query, or of all, and of whoever ran at the place."""
    from pyspark.errors import AnalysisException

    from surestart.spark.delta_table import read_columns, read_table

    table = environment.table(TABLE)
    if _is_local(table.path) or spark is None:
        try:
            return read_log_runs(table.path).runs if _is_local(table.path) else _rows(environment)
        except NoDeltaLog:
            return ()
    try:
        there = read_columns(spark, table)
        if there is None:
            return ()
        rows = read_table(spark, table).select(*(name for name in COLUMNS if name in there and name != "metrics"))
        own = rows.where(rows["query"] == query) if query else rows
        asked = _newest(own, _FORMER).unionByName(own.where(own["event"] == REMEDY))
        if place:
            asked = asked.unionByName(_newest(rows.where(rows["place"] == place), _AT_PLACE))
        return [record for row in asked.collect() if (record := read_record(row.asDict())) is not None]
    except AnalysisException as problem:
        raise _out_of_reach(table.sql, f"cannot be read: {str(problem).splitlines()[0][:200]}") from problem


def _newest(rows: DataFrame, limit: int) -> DataFrame:
    return rows.orderBy(rows["started_at"].desc()).limit(limit)


def _is_local(path: str) -> bool:
    return bool(path) and "://" not in path


def _out_of_reach(table: str, what: str) -> CannotTell:
    return CannotTell(
        f"the run history {table} {what}",
        meaning="Which query id and which path this stage ran with last is not known.",
        next=spark_sql(f"DESCRIBE HISTORY {table}"),
        code="HistoryOutOfReach",
    )


# Given when the first append makes the table: its log is the history, so it is kept.
_PROPERTIES = {"delta.logRetentionDuration": "interval 3650 days", "delta.checkpointInterval": "100"}


def append_runs(spark: SparkSession, environment: Environment, records: Sequence[RunRecord]) -> None:
    """The rows are in the table."""
    if claims_folder(environment) is None:
        remember_runs(spark, environment, records, lambda query: read_former_runs(environment, spark, query))
    table = environment.table(TABLE)
    options: Mapping[str, str] = {
        **_PROPERTIES,
        "mergeSchema": "true",
        "userMetadata": json.dumps({NOTE: [record.as_note() for record in records]}),
    }
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, COLUMNS, _PROPERTIES)
        rows = spark.sql(select_values([dict(record.as_columns()) for record in records], dict(COLUMNS)))
        writer = rows.coalesce(1).write.format("delta").mode("append").options(**options)
        save_to(table, writer)
