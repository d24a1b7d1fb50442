"""The claim on a query where drivers share nothing but tables: a row of `surestart_claims` that only one can commit.

    id  environment  query  epoch  at  runs        runs: what decides of the query's runs, the claiming one included

    epoch = the query's newest epoch + 1
    append one row under the transaction (claim:<environment>/<query>, epoch)
        committed by another in between   Delta refuses the commit (ConcurrentTransactionException)
        committed by another before       Delta passes over the write without a word
    read back: the row of that epoch names the owner

Each row says all that decides of its query, so few rows are enough however long the history is; those that a later one
repeats are deleted now and then. The history itself, `surestart_runs`, is not read by a start. docs/gate.md says what a
paused owner can still do: plan no batch and write none twice.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surestart.environment import Environment, Table
from surestart.errors import CannotTell
from surestart.facts.delta.listing import NoDeltaLog
from surestart.history.log_runs import deciding_runs
from surestart.history.run_record import RunRecord, read_record
from surestart.library_types import SparkSession
from surestart.spark.delta_table import create_in_catalog, read_columns, read_table, save_to
from surestart.spark.every_line import select_values
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import spark_sql

TABLE = "surestart_claims"
COLUMNS = {
    "id": "STRING",
    "environment": "STRING",
    "query": "STRING",
    "epoch": "BIGINT",
    "at": "BIGINT",
    "runs": "STRING",
}
# The rows say all. Only the newest part of the log is ever read; Delta removes the rest.
_PROPERTIES = {
    "delta.logRetentionDuration": "interval 1 days",
    # Delta wants it to be no longer than that.
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "10",
}
# Rows of one query: two a run.
_ROWS = 12


@dataclass(frozen=True)
class ClaimRow:
    id: str
    environment: str
    query: str
    epoch: int | None
    runs: tuple[RunRecord, ...]


def claim_by_row(
    spark: SparkSession, environment: Environment, record: RunRecord, runs: Sequence[RunRecord]
) -> tuple[RunRecord, RunRecord]:
    """(our record with its epoch, the record that owns the query now): the same run when the claim is ours.

    runs: what was read before the decision to start; a claim made since then has their newest epoch + 1 as well.
    """
    own = [run for run in runs if (run.environment, run.query) == (record.environment, record.query)]
    epoch = 1 + max((run.epoch or 0 for run in own), default=0)
    ours = replace(record, epoch=epoch)
    failure: Exception | None = None
    try:
        _append(spark, environment, deciding_runs([*own, ours]), epoch, only_one=True)
    except Exception as problem:  # noqa: BLE001  Delta's conflict reaches Python under different types.
        # Whether it was the other driver's commit, the read below tells; if nobody won, it was something else.
        failure = problem
    there = [run for row in read_claim_rows(environment, spark) for run in row.runs]
    owner = next((run for run in there if _is_claim(run, ours)), None)
    if owner is None:
        if failure is not None:
            raise failure
        raise RuntimeError(f"the claim of epoch {epoch} was neither written nor refused")
    return ours, owner


def remember_runs(
    spark: SparkSession,
    environment: Environment,
    records: Iterable[RunRecord],
    read_former: Callable[[str], Iterable[RunRecord]],
) -> None:
    """What decides of these runs stands in rows of their queries. read_former: the runs of a query without a row."""
    rows = read_claim_rows(environment, spark)
    queries: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        queries.setdefault((record.environment, record.query), []).append(record)
    for (name, query), new in queries.items():
        own = [row for row in rows if (row.environment, row.query) == (name, query)]
        known = [run for row in own for run in row.runs] if own else list(read_former(query))
        known = [run for run in known if (run.environment, run.query) == (name, query)]
        epoch = max((row.epoch or 0 for row in own), default=0)
        _append(spark, environment, deciding_runs([*known, *new]), epoch)
        if len(own) >= _ROWS:
            _forget(spark, environment, own)


def read_claim_rows(environment: Environment, spark: SparkSession | None) -> tuple[ClaimRow, ...]:
    """Every row; none where there is no such table, as on a local root. Of a catalog only with a session. Raises
    CannotTell where there is one and it cannot be read."""
    table = environment.table(TABLE)
    found: Iterable[Mapping[str, Any]]
    if table.path and ("://" not in table.path or spark is None):
        from surestart.facts.delta.pinned import read_table_rows

        try:
            found = list(read_table_rows(table.path))
        except NoDeltaLog:
            return ()
    elif spark is None:
        return ()
    else:
        found = _ask(spark, table)
    try:
        return tuple(_read_row(row) for row in found)
    except (ValueError, KeyError, TypeError) as problem:
        raise _out_of_reach(table, f"holds a row that this version cannot read ({problem})") from problem


def _ask(spark: SparkSession, table: Table) -> list[Mapping[str, Any]]:
    from pyspark.errors import PySparkException

    try:
        there = read_columns(spark, table) is not None
        return [row.asDict() for row in read_table(spark, table).collect()] if there else []
    except PySparkException as problem:
        raise _out_of_reach(table, f"cannot be read: {str(problem).splitlines()[0][:200]}") from problem


def _append(
    spark: SparkSession, environment: Environment, runs: Sequence[RunRecord], epoch: int, *, only_one: bool = False
) -> None:
    """The row is in the table. only_one: Delta lets only one writer through for this query and epoch."""
    table, newest = environment.table(TABLE), runs[-1]
    values: dict[str, object] = {
        "id": str(uuid.uuid4()),
        "environment": newest.environment,
        "query": newest.query,
        "epoch": epoch,
        "at": int(time.time() * 1000),
        "runs": json.dumps([run.as_note() for run in runs]),
    }
    options = dict(_PROPERTIES)
    if only_one:
        options |= {"txnAppId": f"claim:{newest.environment}/{newest.query}", "txnVersion": str(epoch)}
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, COLUMNS, _PROPERTIES)
        row = spark.sql(select_values([values], COLUMNS)).coalesce(1)
        writer = row.write.format("delta").mode("append").options(**options)
        save_to(table, writer)


def _forget(spark: SparkSession, environment: Environment, rows: Sequence[ClaimRow]) -> None:
    """These rows, which a later one repeats, are gone, unless somebody else is at it: then the next run does it."""
    ids = ", ".join(f"'{row.id}'" for row in rows)
    try:
        spark.sql(f"DELETE FROM {environment.table(TABLE).sql} WHERE id IN ({ids})").collect()
    except Exception as problem:
        if "DELTA_CONCURRENT" not in str(problem):
            raise


def _out_of_reach(table: Table, what: str) -> CannotTell:
    return CannotTell(
        f"the claims {table.label} {what}",
        meaning="Whether another driver runs a query, and with which query id it ran last, is not known.",
        next=spark_sql(f"SELECT * FROM {table.sql}"),
        do_not="drop the table.",
        code="HistoryOutOfReach",
    )


def _is_claim(run: RunRecord, ours: RunRecord) -> bool:
    return (run.environment, run.query, run.epoch) == (ours.environment, ours.query, ours.epoch)


def _read_row(row: Mapping[str, Any]) -> ClaimRow:
    """A row that cannot be read is an error: it may be the claim of a live run."""
    runs = tuple(record for values in json.loads(row["runs"]) if (record := read_record(values)) is not None)
    return ClaimRow(str(row["id"]), str(row["environment"]), str(row["query"]), row["epoch"], runs)
