"""One batch into one PostgreSQL table, exactly once, however often and by however many it is tried.

    1. ledger      the batch is there: a replay, nothing to do
    2. leftovers   staging tables of dead attempts are dropped
    3. load        executors COPY the rows into this attempt's staging table
    4. BEGIN       lock staging, drop rows of tasks that Spark ran twice
         ledger    insert (query id, target, step, batch id); a rival's COMMIT makes this fail, then step 1 decides
         move      staging -> target
         COMMIT
    5. reply lost  wait for the old connection to end, then the ledger says which it was

Nothing of a batch is visible in the target before 4 is committed, and everything is after it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.postgres.connection import driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.ledger import (
    KEPT_BATCHES,
    TABLE,
    LedgerEntry,
    LedgerKey,
    create_ledger,
    find_entry,
    last_batch,
)
from surestart.facts.postgres.target import check_columns, check_upsert, find_target
from surestart.facts.postgres.types import StagedColumn
from surestart.facts.postgres.url import Secret
from surestart.failpoints import fail_point
from surestart.library_types import PostgresConnection
from surestart.sinks.batch_error import BatchShort
from surestart.sinks.postgres.copy import LoadedRows, StagingTable
from surestart.sinks.postgres.move import (
    append_rows,
    create_staging,
    drop_leftovers,
    keep_reported_rows,
    refuse_misfit,
    staging_name,
    upsert_rows,
)
from surestart.typed import NextStep, surestart

# How long the commit waits for a rival or for a task that still copies; longer than a checkpointing server stalls.
LOCK_TIMEOUT = "60s"
_STATUS = surestart("status")

Load = Callable[[StagingTable], tuple[LoadedRows, ...]]


@dataclass(frozen=True)
class BatchWrite:
    """What to write and for whom.

    replayed: true only for the batch that was in flight when the run started.
    doctor: the command that looks into a refusal.
    counted: its rows, where each look computes it anew; else None."""

    url: Secret
    target: str
    mode: str
    columns: tuple[StagedColumn, ...]
    query_id: str
    batch_id: int
    replayed: bool
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    step: str = ""
    gaps: str = "refuse"
    query: str = ""
    stage: str = ""
    checkpoint: str = ""
    doctor: NextStep = _STATUS
    counted: int | None = None


@dataclass(frozen=True)
class BatchWritten:
    """`skipped`: the batch was there already. `leftovers`: staging tables of dead attempts that were removed."""

    rows: int
    rows_changed: int
    skipped: bool = False
    leftovers: tuple[str, ...] = ()


def write_batch(write: BatchWrite, load: Load, still_ours: Callable[[], object] = lambda: None) -> BatchWritten:
    """The batch is in the target once. Raises a four-part error otherwise, and then nothing of it is there.
    still_ours: raises when another run has the query by now; asked when no remedy can clear the target any more."""
    psycopg = driver()
    failure: SurestartError
    connection = open_connection(write.url, f"surestart {write.query} batch {write.batch_id}")
    try:
        return _Attempt(write, connection).run(load, still_ours)
    except psycopg.Error as error:
        failure = error_in_four_parts(error, write.url, f"writing batch {write.batch_id} to {write.target}")
    finally:
        connection.close()
    raise failure


class _Attempt:
    def __init__(self, write: BatchWrite, connection: PostgresConnection) -> None:
        self.write = write
        self.connection = connection
        self.id = uuid.uuid4().hex
        self.started = datetime.now(UTC)
        self.target = find_target(connection, write.target)
        check_columns(self.target, write.columns)
        if write.mode == "upsert":
            columns = tuple(column.name for column in write.columns)
            check_upsert(self.target, write.keys, write.order, columns, write.url)
        create_ledger(connection, self.target.schema)
        self.key = LedgerKey(write.query_id, write.batch_id, self.target.label, write.step)

    def run(self, load: Load, still_ours: Callable[[], object]) -> BatchWritten:
        entry = find_entry(self.connection, self.target.schema, self.key)
        if entry is not None:
            return self._already_there(entry)
        self._refuse_out_of_sequence()
        leftovers = drop_leftovers(self.connection, self.target.schema)
        staging = StagingTable(
            schema=self.target.schema,
            table=staging_name(self.write.query_id, self.write.batch_id, self.id),
            columns=self.write.columns,
            required=(*self.write.keys, *self.write.order),
        )
        create_staging(self.connection, staging)
        try:
            try:
                loaded = load(staging)
            except SurestartError:
                # When the server restarted, staging is gone and the tasks say so; the cause is this connection's end.
                self.connection.execute("SELECT 1")
                raise
            written = self._commit(staging, loaded, still_ours)
        except BaseException:
            self._discard(staging)
            raise
        return BatchWritten(written.rows, written.rows_changed, written.skipped, leftovers)

    def _commit(
        self, staging: StagingTable, loaded: tuple[LoadedRows, ...], still_ours: Callable[[], object]
    ) -> BatchWritten:
        psycopg = driver()
        execute = self.connection.execute
        execute("BEGIN")
        fail_point("postgres.after_begin")
        execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        # Exclusive at once: tasks that Spark gave up on may still be copying, and the table is dropped below.
        execute(f"LOCK TABLE {staging.sql} IN ACCESS EXCLUSIVE MODE")
        rows = keep_reported_rows(self.connection, staging, loaded)
        counted = self.write.counted
        if counted is not None and rows != counted:
            write = self.write
            raise BatchShort(write.query, write.batch_id, rows, counted, self.target.label, write.doctor)
        fail_point("postgres.before_ledger")
        try:
            self._insert_entry(rows)
        except psycopg.errors.UniqueViolation:
            execute("ROLLBACK")
            entry = find_entry(self.connection, self.target.schema, self.key)
            if entry is None:
                raise
            self._discard(staging)
            return self._already_there(entry)
        changed = self._move(staging, rows)
        execute(f"DROP TABLE {staging.sql}")
        self._complete_entry(changed)
        # Rows of ours in the target keep every remedy out of it until this transaction ends.
        still_ours()
        fail_point("postgres.before_commit")
        lost: SurestartError | None = None
        try:
            execute("COMMIT")
        except psycopg.Error as error:
            if not self.connection.closed:
                raise  # the server said no, so it is rolled back
            lost = error_in_four_parts(error, self.write.url, "waiting for the reply to COMMIT")
        if lost is not None:
            self._resolve(staging, lost)
        fail_point("postgres.after_commit")
        return BatchWritten(rows, changed)

    def _move(self, staging: StagingTable, rows: int) -> int:
        psycopg = driver()
        try:
            if self.write.mode == "append":
                return append_rows(self.connection, staging, self.target)
            return upsert_rows(self.connection, staging, self.target, self.write.keys, self.write.order, rows)
        except psycopg.DataError:
            self.connection.execute("ROLLBACK")
            refuse_misfit(self.connection, staging, self.target)
            raise

    def _insert_entry(self, rows: int) -> None:
        self.connection.execute(
            f"INSERT INTO {name(self.target.schema, TABLE)} (query_id, batch_id, target, step, query, stage,"
            " checkpoint, attempt, mode, rows, attempted_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                *(self.key.query_id, self.key.batch_id, self.key.target, self.key.step),
                *(self.write.query, self.write.stage, self.write.checkpoint, self.id),
                *(self.write.mode, rows, self.started),
            ),
        )

    def _complete_entry(self, changed: int) -> None:
        ledger = name(self.target.schema, TABLE)
        mine = "query_id = %s AND target = %s AND step = %s"
        who = (self.key.query_id, self.key.target, self.key.step)
        self.connection.execute(
            f"UPDATE {ledger} SET rows_changed = %s, committed_at = clock_timestamp() WHERE {mine} AND batch_id = %s",
            (changed, *who, self.key.batch_id),
        )
        self.connection.execute(
            f"DELETE FROM {ledger} WHERE {mine} AND batch_id < %s", (*who, self.key.batch_id - KEPT_BATCHES)
        )

    def _refuse_out_of_sequence(self) -> None:
        last = last_batch(self.connection, self.target.schema, self.key)
        if last is None or self.key.batch_id == last + 1:
            return
        who = f"query {self.key.query_id} ({self.write.query})"
        if self.key.batch_id < last:
            raise Refused(
                f"{self.target.label} has batches up to {last} of {who} and is now given batch {self.key.batch_id}",
                meaning="The checkpoint is behind the database: it was restored or rewound, and its batches would be "
                "written a second time with other contents. Nothing was written.",
                next=self.write.doctor,
                do_not="delete rows of surestart_ledger to get past this; they are why nothing is there twice.",
                code="PostgresLedgerAhead",
            )
        if self.write.gaps == "refuse":
            raise Refused(
                f"{self.target.label} ends at batch {last} of {who} and is now given batch {self.key.batch_id}",
                meaning=f"{self.key.batch_id - last - 1} batches never reached the database, or it was restored from "
                "an older backup. Their rows would stay missing without anybody noticing. Nothing was written.",
                next=self.write.doctor,
                do_not="set gaps='allow' before you know where the rows of those batches are.",
                code="PostgresLedgerBehind",
            )

    def _already_there(self, entry: LedgerEntry) -> BatchWritten:
        if self.write.replayed:
            return BatchWritten(entry.rows, entry.rows_changed, skipped=True)
        raise Refused(
            f"batch {self.key.batch_id} of query {self.key.query_id} ({self.write.query}) is in {self.target.label} "
            f"already: {entry.rows} rows, committed {entry.committed_at:%Y-%m-%d %H:%M:%S} UTC from {entry.checkpoint}",
            meaning="This run is not replaying that batch, so another run writes under the same query id: a second "
            "start, or a copied checkpoint. Skipping it could lose rows; writing it would store them twice.",
            next=self.write.doctor,
            do_not="delete the ledger row; end the other run instead.",
            code="PostgresBatchTaken",
        )

    def _resolve(self, staging: StagingTable, lost: SurestartError) -> None:
        """Returns when the batch is committed, raises when it is not or when nobody can say."""
        psycopg = driver()
        failure: SurestartError | None = None
        entry: LedgerEntry | None = None
        try:
            with open_connection(self.write.url, f"surestart {self.write.query} after a lost COMMIT") as connection:
                connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
                # The server may still be at the COMMIT. The lock is free once that connection has ended.
                connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (staging.table,))
                entry = find_entry(connection, self.target.schema, self.key)
        except psycopg.Error as error:
            failure = error_in_four_parts(error, self.write.url, "asking the ledger")
        except SurestartError as error:
            failure = error
        if failure is not None:
            raise CannotTell(
                f"the connection ended at the COMMIT of batch {self.key.batch_id} to {self.target.label}, "
                f"and the ledger cannot be asked: {failure.what}",
                meaning="The batch is wholly in the target or not at all; which of the two, only the ledger knows.",
                next=self.write.doctor.noting("once the database answers; then start it again: the ledger decides"),
                do_not="write the batch by hand.",
                code="PostgresInDoubt",
            )
        if entry is None:
            raise lost
        if entry.attempt != self.id:
            self._already_there(entry)

    def _discard(self, staging: StagingTable) -> None:
        psycopg = driver()
        try:
            if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.connection.execute("ROLLBACK")
            self.connection.execute("SET lock_timeout = '2s'")
            self.connection.execute(f"DROP TABLE IF EXISTS {staging.sql}")
        except psycopg.Error:
            # The first error is the one to report. The table is dropped as a leftover by the next batch of this schema.
            return
