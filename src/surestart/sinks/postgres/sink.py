"""A PostgreSQL table as a stage's sink, exactly once; also as a second sink behind Delta.

    PostgresSink(DatabaseUrl(variable="SURESTART_POSTGRES_URL"), "sensor_gold",
                 mode="upsert", keys=("sensor_id",), order=("topic", "partition", "offset"))

    mode="append"   every row of every batch is a row of the table
    mode="upsert"   one row per key, the newest by the `order` columns; a replayed or late batch puts nothing old back

docs/postgres.md says what is guaranteed, what the database user may do and what is not promised.

What a Postgres sink's ledger says of every writer of its target. Reads only, in a read-only session.

query_id, step ─> last batch, when       who wrote, in the order of their last commits
target         ─> has it any row         an empty one cannot get a row twice"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError, UsageError
from surestart.facts.delta import Commit, CommitMark, Transaction
from surestart.facts.evidence.sink_evidence import LEDGER, SinkEvidence, sink_missing, sink_unreadable
from surestart.facts.postgres.connection import driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.ledger import create_ledger
from surestart.facts.postgres.target import check_upsert, find_target, name_list
from surestart.facts.postgres.types import staged_columns
from surestart.facts.postgres.url import DEFAULT_VARIABLE, DatabaseUrl, Secret
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame, DataStreamWriter, SparkSession, StreamingQuery
from surestart.sinks.delta.same_identity import read_identity, refuse_replaced, same_identity
from surestart.sinks.postgres.batch import BatchWrite, BatchWritten, write_batch
from surestart.sinks.postgres.copy import LoadedRows, StagingTable, load_from_driver, load_from_executors
from surestart.stage import BatchContext
from surestart.typed import NextStep, Words, in_the_code

MODES = ("append", "upsert")
LOADERS = ("executors", "driver")
GAPS = ("refuse", "allow")
DEFAULT_URL = DatabaseUrl(variable=DEFAULT_VARIABLE)


@dataclass(frozen=True)
class PostgresSink:
    """target     "table" or "schema.table"
    keys, order   for upsert: what identifies a row, and what makes one newer; together the order must be total
    columns       (name, SQL type) of the target, to create it when it is missing; empty: it has to be there
    load          executors, or driver where executors may not open connections (serverless): the batch has to fit there
    connections   at most so many tasks load at once; 0: as many as Spark runs
    step          keeps a second sink of the same query into the same table apart
    gaps          refuse a batch when an earlier one of this query is missing in the database, or allow it
    told_by       the words by which a command knows of this sink: "--set", "postgres_url=env:GOLD_URL"
    """

    url: DatabaseUrl = DEFAULT_URL
    target: str = "sensor_gold"
    mode: str = "append"
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    load: str = "executors"
    connections: int = 0
    step: str = ""
    gaps: str = "refuse"
    told_by: Words = ()

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("mode", self.mode, MODES),
            ("load", self.load, LOADERS),
            ("gaps", self.gaps, GAPS),
        ):
            if value not in allowed:
                raise _misused(f"{what}={value!r} is not one of {', '.join(allowed)}")
        if self.mode == "upsert" and not (self.keys and self.order):
            raise _misused("mode='upsert' needs keys and order")
        if self.mode == "append" and (self.keys or self.order):
            raise _misused("mode='append' keeps every row, so keys and order have no meaning")
        parts = self.target.split(".")
        if len(parts) > 2 or not all(parts):
            raise _misused(f"target {self.target!r} is neither 'table' nor 'schema.table'")

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        """Target and ledger exist and fit the mode. Creates the ledger, and the target if `columns` are given."""
        psycopg = driver()
        url = self.url.read()
        failure: SurestartError
        try:
            with open_connection(url, "surestart prepare") as connection:
                if self.columns:
                    primary = f", PRIMARY KEY ({name_list(self.keys)})" if self.keys else ""
                    columns = ", ".join(f"{name(column)} {kind}" for column, kind in self.columns)
                    connection.execute(
                        f"CREATE TABLE IF NOT EXISTS {name(*self.target.split('.'))} ({columns}{primary})"
                    )
                target = find_target(connection, self.target)
                if self.mode == "upsert":
                    check_upsert(target, self.keys, self.order, target.names, url)
                create_ledger(connection, target.schema)
                return
        except psycopg.Error as error:
            failure = error_in_four_parts(error, url, f"preparing {self.target}")
        raise failure

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        return writer.foreachBatch(self.batch_writer(context)).start()

    def batch_writer(self, context: BatchContext) -> PostgresBatch:
        return postgres_batch_writer(self, context)

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        return (SinkDeclaration("postgres", self.target, path=self.url.label, step=self.step, keys=self.keys),)

    def databases(self) -> tuple[PostgresSink, ...]:
        return (self,)

    def read_evidence(self, environment: Environment) -> SinkEvidence:

        return read_ledger_evidence(self.url, self.target)


def postgres_batch_writer(sink: PostgresSink, context: BatchContext) -> PostgresBatch:
    """The function of one batch, for foreachBatch or as one part of another function of a batch. Reads the URL now: on
    Spark Connect the function runs where this process' environment and secrets are not."""
    from surestart.history.describe_run import options_of
    from surestart.words.next_commands import Commands

    options = (*options_of(context.environment), *sink.told_by)
    doctor = Commands(context.stage, context.environment.name, options).doctor()
    return PostgresBatch(sink, context, sink.url.read(), doctor)


@dataclass(frozen=True)
class PostgresBatch:
    sink: PostgresSink
    context: BatchContext
    url: Secret
    doctor: NextStep

    def __call__(self, batch_df: DataFrame, batch_id: int) -> None:
        self.write(batch_df, batch_id)
        fail_point("postgres.before_spark_commit")

    def write_counted(self, batch_df: DataFrame, batch_id: int, counted: int) -> None:
        """As the call. Raises, with none of the batch written, where another number of rows came."""
        self.write(batch_df, batch_id, counted)
        fail_point("postgres.before_spark_commit")

    def write(self, batch_df: DataFrame, batch_id: int, counted: int | None = None) -> BatchWritten:
        sink, context, spark = self.sink, self.context, batch_df.sparkSession
        query_id = read_identity(context, spark)
        plan = BatchWrite(
            url=self.url,
            target=sink.target,
            mode=sink.mode,
            columns=staged_columns(batch_df),
            query_id=query_id,
            batch_id=batch_id,
            replayed=batch_id == context.replayed_batch,
            keys=sink.keys,
            order=sink.order,
            step=sink.step,
            gaps=sink.gaps,
            query=context.query,
            stage=context.stage,
            checkpoint=context.checkpoint,
            doctor=self.doctor,
            counted=counted,
        )

        def load(staging: StagingTable) -> tuple[LoadedRows, ...]:
            if sink.load == "driver":
                return load_from_driver(batch_df, self.url, staging)
            rows = batch_df.coalesce(sink.connections) if sink.connections else batch_df
            return load_from_executors(rows, self.url, staging)

        with same_identity(context, spark, query_id, batch_id):
            return write_batch(plan, load, lambda: refuse_replaced(context, query_id, query_id, batch_id))


def _misused(what: str) -> UsageError:
    return UsageError(
        what,
        meaning="The sink would not do what its author meant, so it is refused before anything runs.",
        next=in_the_code("correct the PostgresSink; docs/postgres.md lists its fields"),
        code="PostgresSinkMisused",
    )


# A remedy's own rows in the ledger, (remedy-<digest>, 0) and of its undo (…, 1): surestart.sinks.postgres.once.
REMEDY, RESTORED = "remedy-", 1
_NO_ROW = "the database answered without the row that was asked for"


def read_ledgers(sinks: Iterable[SinkDeclaration]) -> dict[str, SinkEvidence]:
    """Of each PostgreSQL sink that is only declared, by target: what the database behind $SURESTART_POSTGRES_URL
    says."""
    url = DatabaseUrl(variable=DEFAULT_VARIABLE)
    return {sink.target: read_ledger_evidence(url, sink.target) for sink in sinks if sink.kind == "postgres"}


def read_ledger_evidence(url: DatabaseUrl, target: str) -> SinkEvidence:
    """What the database says; its own reason when it does not answer."""
    from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, open_connection

    try:
        psycopg = driver()
        secret = url.read()
        try:
            with open_connection(secret, "surestart doctor") as connection:
                connection.execute("SET default_transaction_read_only = on")
                return _read(connection, target)
        except psycopg.Error as error:
            problem = error_in_four_parts(error, secret, f"reading the ledger of {target}", UNCHANGED)
            return sink_unreadable(problem, LEDGER)
        except OSError as error:
            # The server could not be reached. What the system says of that holds no part of the URL.
            return sink_unreadable(f"{type(error).__name__}: {error.strerror or 'no answer'}", LEDGER)
    except SurestartError as error:
        return sink_unreadable(error, LEDGER)


def _read(connection: Any, target: str) -> SinkEvidence:
    from surestart.facts.postgres.connection import name
    from surestart.facts.postgres.ledger import TABLE
    from surestart.facts.postgres.target import find_target

    found = connection.execute("SELECT to_regclass(%s)", (name(*target.split(".")),)).fetchone()
    if found is None:
        return sink_unreadable(_NO_ROW, LEDGER)
    if not found[0]:
        return sink_missing(LEDGER)
    place = find_target(connection, target)
    filled = connection.execute(f"SELECT EXISTS (SELECT 1 FROM {place.sql})").fetchone()
    ledger = name(place.schema, TABLE)
    there = connection.execute("SELECT to_regclass(%s)", (ledger,)).fetchone()
    if filled is None or there is None:
        return sink_unreadable(_NO_ROW, LEDGER)
    has_rows = bool(filled[0])
    if not there[0]:
        return SinkEvidence(source=LEDGER, has_rows=has_rows)
    rows = connection.execute(
        "SELECT query_id, step, max(batch_id), max(query), max(stage), max(committed_at), min(committed_at),"
        " count(*) OVER ()"
        f" FROM {ledger} WHERE target = %s GROUP BY query_id, step ORDER BY max(committed_at) NULLS FIRST",
        (place.label,),
    ).fetchall()
    if rows and rows[0][7] != len(rows):
        return sink_unreadable(f"its ledger gave {len(rows)} of {rows[0][7]} rows", LEDGER)
    commits = tuple(_commit(number, row) for number, row in enumerate(rows))
    transactions = {
        commit.mark.app_id: Transaction(commit.mark.batch_id, commit.timestamp) for commit in commits if commit.mark
    }
    commits = _without_undone(commits, rows)
    evidence = SinkEvidence(source=LEDGER, transactions=transactions, commits=commits, has_rows=has_rows)
    return replace(evidence, table_id=place.label)


def _without_undone(commits: tuple[Commit, ...], rows: list[tuple[Any, ...]]) -> tuple[Commit, ...]:
    """Without what was written between a remedy and its undo: the undo has taken it out again."""
    undone = [
        (row[6], row[5]) for row in rows if row[0].startswith(REMEDY) and row[2] == RESTORED and row[6] and row[5]
    ]
    kept = []
    for commit, row in zip(commits, rows, strict=True):
        stream, written = not row[0].startswith(REMEDY), row[5]
        if not (stream and written and any(first < written < last for first, last in undone)):
            kept.append(commit)
    return tuple(kept)


def _commit(number: int, row: tuple[Any, ...]) -> Commit:
    query_id, step, batch, query, stage, committed, _, _ = row
    return Commit(
        version=number,
        timestamp=int(committed.timestamp() * 1000) if committed else None,
        operation=LEDGER,
        mark=CommitMark(query=query, query_id=query_id, batch_id=int(batch), stage=stage, step=step),
    )
