"""Reads former runs: from the log of `surestart_runs`, from the claims of runs that have not ended, without a JVM.

notes of the newest commits ──┐
rows (pyarrow), when the      ├──> one record per run, oldest first
notes do not reach back       │
claim files of local roots ───┘    runs that are live, or that died and whose row nobody has written yet
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from surestart.deltalog import Commit, read_history
from surestart.deltalog.listing import NoDeltaLog
from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.registry.claim_file import claims_folder, read_claim
from surestart.registry.run_record import RunRecord, merge_events, read_record
from surestart.registry.write_runs import NOTE, TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Some 50 ms to read. A stage that has not run within the last 300 runs of its environment is looked up by rows.
COMMITS = 300


def read_runs(environment: Environment, spark: SparkSession | None = None, query: str = "") -> tuple[RunRecord, ...]:
    """Runs of the environment's table, oldest first; of one query when it is named, then going back to its last run.

    Raises CannotTell when there is a history that cannot be read: a history that is out of reach is not an empty one.
    """
    table = environment.table(TABLE)
    if table.path:
        try:
            commits = read_history(table.path, limit=COMMITS)
        except NoDeltaLog:
            commits = ()
    else:
        commits = _by_session(spark, table.sql)
    records = [record for commit in commits for record in read_note(commit.user_metadata)]
    found = [*records, *_unwritten(environment)]
    reaches_back = not commits or commits[0].version == 0
    if query and not reaches_back and not any(record.query == query for record in found):
        found += _rows(environment, spark)
    runs = merge_events(found)
    return tuple(run for run in runs if not query or run.query == query)


def read_metrics(environment: Environment, run_id: str) -> tuple[dict[str, Any], ...]:
    """What each of a run's newest batches took: batch, rows, milliseconds by phase, the sources' own lag."""
    for record in _rows(environment, None):
        if record.run_id == run_id and record.metrics:
            return tuple(dict(metric) for metric in record.metrics)
    return ()


def read_batches(environment: Environment) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Query id -> what each batch took and how far behind its sources it was, of every run kept, oldest run first."""
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for run in merge_events(_rows(environment, None)):
        if run.query_id and run.metrics:
            found[run.query_id] = (*found.get(run.query_id, ()), *run.metrics)
    return found


def read_note(text: str) -> Iterator[RunRecord]:
    """The runs that a commit's note names; none for anybody else's note."""
    if f'"{NOTE}"' not in text:
        return
    try:
        rows = json.loads(text).get(NOTE)
    except (ValueError, AttributeError, RecursionError):
        return
    for row in rows if isinstance(rows, list) else ():
        record = read_record(row) if isinstance(row, dict) else None
        if record is not None:
            yield record


def _unwritten(environment: Environment) -> Iterator[RunRecord]:
    folder = claims_folder(environment)
    if folder is None or not folder.is_dir():
        return
    for path in sorted(folder.glob("*.lock")):
        claim = read_claim(path)
        yield from (claim.record, *claim.former) if claim.record else claim.former


def _rows(environment: Environment, spark: SparkSession | None) -> list[RunRecord]:
    from surestart.deltalog.rows import read_rows

    table = environment.table(TABLE)
    rows: Iterable[Any]
    if table.path:
        try:
            rows = list(read_rows(table.path))
        except NoDeltaLog:
            return []
    elif spark is not None:
        rows = [row.asDict() for row in spark.read.table(table.sql).collect()]
    else:
        return []
    return [record for row in rows if (record := read_record(row)) is not None]


def _by_session(spark: SparkSession | None, sql: str) -> tuple[Commit, ...]:
    from surestart.deltalog import history_evidence

    if spark is None:
        raise CannotTell(
            f"the run history {sql} is in a catalog and no session was given",
            meaning="Its files cannot be opened by name from here.",
            next="surestart history  # on the cluster, or through Databricks Connect",
            code="HistoryOutOfReach",
        )
    from pyspark.errors import AnalysisException

    try:
        return history_evidence(spark.sql(f"DESCRIBE HISTORY {sql} LIMIT {COMMITS}").collect()).commits
    except AnalysisException as problem:
        if problem.getCondition() in ("TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "SCHEMA_NOT_FOUND"):
            return ()
        raise CannotTell(
            f"the run history {sql} cannot be read: {str(problem).splitlines()[0][:200]}",
            meaning="Which query id and which path this stage ran with last is not known.",
            next=f"spark-sql -e 'DESCRIBE HISTORY {sql}'",
            code="HistoryOutOfReach",
        ) from problem
