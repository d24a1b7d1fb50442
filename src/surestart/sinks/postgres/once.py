"""A remedy's work on one PostgreSQL table: what it does is committed together with the ledger row that says so.

advisory lock of the kept table's name     whoever comes second waits until the first has ended
BEGIN · ledger row (remedy-<digest>, 0 or 1) · the work · COMMIT
reply lost: a new connection waits for the lock, then the ledger says which it was
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from surestart.errors import CannotTell, SurestartError
from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.ledger import TABLE, LedgerEntry, LedgerKey, create_ledger, find_entry
from surestart.facts.postgres.target import Target, check_columns, find_target
from surestart.facts.postgres.types import StagedColumn
from surestart.facts.postgres.url import Secret
from surestart.failpoints import fail_point
from surestart.library_types import PostgresConnection
from surestart.sinks.postgres.batch import LOCK_TIMEOUT
from surestart.sinks.postgres.copy import LoadedRows, StagingTable
from surestart.sinks.postgres.move import create_staging, staging_name

T = TypeVar("T")

REMOVED, RESTORED = 0, 1
# In the column mode.
REMEDY, WITHDRAWN = "remedy", "withdrawn"
PREFIX = "surestart_kept_"
Marks = tuple[tuple[str, int, int], ...]
Load = Callable[[StagingTable], tuple[LoadedRows, ...]]


@dataclass(frozen=True)
class Removal:
    """marks: (source, partition, below): rows with an offset below it stay; None: no row stays.
    keys, order: of an upsert.
    columns: of the former readings that are put in the place of rows that go."""

    url: Secret
    target: str
    digest: str
    query: str
    stage: str
    marks: Marks | None = None
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    columns: tuple[StagedColumn, ...] = ()
    step: str = ""

    @property
    def identity(self) -> str:
        """In the ledger's column query_id. No UUID: it is no stream's."""
        return f"remedy-{self.digest[:16]}"


def at_work(removal: Removal, doing: str, act: Callable[[RemedyWork], T]) -> T:
    psycopg = driver()
    doing = f"{doing} {removal.target}"
    failure: SurestartError
    work = RemedyWork(removal, doing, open_connection(removal.url, f"surestart remedy {removal.digest[:12]}"))
    try:
        work.open()
        return act(work)
    except psycopg.Error as error:
        failure = error_in_four_parts(error, removal.url, doing, UNCHANGED)
    finally:
        work.close()
    raise failure


class RemedyWork:
    """A connection that alone works for this remedy on this table; whoever comes second waits for it to end."""

    def __init__(self, removal: Removal, doing: str, connection: PostgresConnection) -> None:
        self.removal, self.doing, self.connection = removal, doing, connection
        self.target: Target | None = None
        self.staging: StagingTable | None = None

    def open(self) -> None:
        quoted = name(*self.removal.target.split("."))
        found = self.connection.execute("SELECT to_regclass(%s)", (quoted,)).fetchone()
        if not found or not found[0]:
            return
        self.target = find_target(self.connection, self.removal.target)
        create_ledger(self.connection, self.target.schema)
        self.connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        self.connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (self.kept_label,))

    def close(self) -> None:
        """What was not committed is rolled back."""
        if self.staging is not None and not self.connection.closed:
            self._discard(self.staging)
        self.connection.close()

    def _discard(self, staging: StagingTable) -> None:
        psycopg = driver()
        try:
            if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.connection.execute("ROLLBACK")
            self.connection.execute(f"DROP TABLE IF EXISTS {staging.sql}")
        except psycopg.Error:
            # The first error is the one to tell; the next batch drops it as a leftover.
            return

    @property
    def kept_table(self) -> tuple[str, str]:
        assert self.target is not None
        place = hashlib.sha256(f"{self.target.label}\0{self.removal.step}".encode()).hexdigest()[:8]
        return self.target.schema, f"{PREFIX}{self.removal.digest[:16]}_{place}"

    @property
    def kept_label(self) -> str:
        return ".".join(self.kept_table)

    def is_kept(self) -> bool:
        found = self.connection.execute("SELECT to_regclass(%s)", (name(*self.kept_table),)).fetchone()
        return bool(found and found[0])

    def key(self, number: int) -> LedgerKey:
        assert self.target is not None
        return LedgerKey(self.removal.identity, number, self.target.label, self.removal.step)

    def find(self, number: int) -> LedgerEntry | None:
        assert self.target is not None
        return find_entry(self.connection, self.target.schema, self.key(number))

    def stage(self, load: Load) -> tuple[StagingTable, tuple[LoadedRows, ...]]:
        assert self.target is not None
        removal = self.removal
        check_columns(self.target, removal.columns)
        self.staging = StagingTable(
            schema=self.target.schema,
            table=staging_name(removal.identity, REMOVED, uuid.uuid4().hex),
            columns=removal.columns,
            required=(*removal.keys, *removal.order),
        )
        create_staging(self.connection, self.staging)
        return self.staging, load(self.staging)

    def once(self, number: int, act: Callable[[], tuple[int, int]], mode: str = REMEDY) -> LedgerEntry:
        """What `act` does is committed with its ledger row, and that row is returned."""
        assert self.target is not None
        psycopg = driver()
        execute, key, ledger = self.connection.execute, self.key(number), name(self.target.schema, TABLE)
        execute("BEGIN")
        # Other writers wait, readers do not.
        execute(f"LOCK TABLE {self.target.sql} IN SHARE ROW EXCLUSIVE MODE")
        execute(
            f"INSERT INTO {ledger} (query_id, batch_id, target, step, query, stage, checkpoint, attempt, mode, rows,"
            " attempted_at) VALUES (%s, %s, %s, %s, %s, %s, '', %s, %s, 0, %s)",
            (
                *(key.query_id, key.batch_id, key.target, key.step, self.removal.query, self.removal.stage),
                *(self.removal.digest, mode, datetime.now(UTC)),
            ),
        )
        rows, put = act()
        execute(
            f"UPDATE {ledger} SET rows = %s, rows_changed = %s, committed_at = clock_timestamp()"
            " WHERE query_id = %s AND batch_id = %s AND target = %s AND step = %s",
            (rows, put, key.query_id, key.batch_id, key.target, key.step),
        )
        fail_point("remedy.database.before_commit")
        lost: SurestartError | None = None
        try:
            execute("COMMIT")
        except psycopg.Error as error:
            if not self.connection.closed:
                raise
            lost = error_in_four_parts(error, self.removal.url, "waiting for the reply to COMMIT", UNCHANGED)
        fail_point("remedy.database.after_commit")
        entry = self.find(number) if lost is None else self._ask_again(number)
        if entry is None:
            raise lost or AssertionError("committed, and not in the ledger")
        return entry

    def _ask_again(self, number: int) -> LedgerEntry | None:
        """Whether the COMMIT was made whose reply was lost; None: it was not, and nothing was changed."""
        assert self.target is not None
        psycopg = driver()
        failure: SurestartError
        try:
            with open_connection(self.removal.url, "surestart remedy after a lost COMMIT") as connection:
                connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
                # The server may still be at the COMMIT. The lock is free once that connection has ended.
                connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (self.kept_label,))
                return find_entry(connection, self.target.schema, self.key(number))
        except psycopg.Error as error:
            failure = error_in_four_parts(error, self.removal.url, "asking the ledger", UNCHANGED)
        except SurestartError as error:
            failure = error
        raise CannotTell(
            f"the connection ended at the COMMIT while {self.doing}, and the ledger cannot be asked: {failure.what}",
            meaning="It was wholly done or not at all; which of the two, only the ledger knows.",
            next=self.removal.url.place.psql(
                "select 1", note="once it answers, the same command again: the ledger decides"
            ),
            do_not="remove or restore the rows by hand.",
            code="PostgresInDoubt",
        )


def milliseconds(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0
