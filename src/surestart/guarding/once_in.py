"""The ledger's row of a batch in the user's own database transaction: both are committed, or neither.

    with psycopg.connect(URL) as connection:
        if surestart.once_in(connection, batch, batch_id, "public.orders"):
            ... the rows of the batch, by this connection ...

PostgreSQL by psycopg 3: the ledger that surestart's own sink keeps, made where it is missing; the doctor reads it as
`postgres:public.orders`. Any other connection of the DB-API: a table `surestart_ledger` that has to be there.
"""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import Any

from surestart.errors import Refused, UsageError
from surestart.facts.postgres.connection import name
from surestart.facts.postgres.ledger import TABLE, LedgerKey, create_ledger, last_batch
from surestart.facts.postgres.target import find_target
from surestart.guarding.once_writers import identity_of_batch
from surestart.library_types import DataFrame
from surestart.typed import in_the_code, surestart

LEDGER = (
    f"CREATE TABLE {TABLE} (query_id VARCHAR(64) NOT NULL, batch_id BIGINT NOT NULL, target VARCHAR(200) NOT NULL, "
    "step VARCHAR(64) NOT NULL, written_at VARCHAR(40) NOT NULL, PRIMARY KEY (query_id, target, step, batch_id))"
)
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


def once_in(
    connection: Any, batch: DataFrame, batch_id: int, target: str, *, step: str = "", checkpoint: str = ""
) -> bool:
    """True: the batch is not in the target, and the row that says that it is stands in this connection's transaction.
    False: it is there already, and nothing of it is to be written. The caller commits.

    step: tells two writes of one batch to one target apart. checkpoint: as for `surestart.once`."""
    query_id = identity_of_batch(batch.sparkSession, checkpoint)
    return note_in(connection, LedgerKey(query_id, batch_id, target, step))


def note_in(connection: Any, key: LedgerKey) -> bool:
    """As `once_in`, of a batch whose key is known."""
    if type(connection).__module__.split(".")[0] == "psycopg":
        return _once_in_postgres(_Plain(connection), key)
    return _once_in_any(connection, key)


class _Plain:
    """The connection, giving rows as tuples, whatever row factory its owner has set."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.info, self.transaction = connection.info, connection.transaction

    def execute(self, statement: Any, values: Any = None) -> Any:
        from psycopg.rows import tuple_row

        return self._connection.cursor(row_factory=tuple_row).execute(statement, values)

    @property
    def is_autonomous(self) -> bool:
        """Whether each statement is committed by itself."""
        from psycopg.pq import TransactionStatus

        idle = self._connection.info.transaction_status == TransactionStatus.IDLE
        return bool(self._connection.autocommit and idle)


def _once_in_postgres(connection: Any, key: LedgerKey) -> bool:
    if connection.is_autonomous:
        raise _no_transaction(key)
    target = find_target(connection, key.target)
    key = LedgerKey(key.query_id, key.batch_id, target.label, key.step)
    create_ledger(connection, target.schema)
    newest = last_batch(connection, target.schema, key)
    if newest == key.batch_id:
        return False
    _refuse_behind(key, newest)
    connection.execute(
        f"INSERT INTO {name(target.schema, TABLE)} (query_id, batch_id, target, step, query, stage, checkpoint,"
        " attempt, mode, rows, attempted_at, committed_at)"
        " VALUES (%s, %s, %s, %s, '', '', '', '', 'once', 0, %s, clock_timestamp())",
        (key.query_id, key.batch_id, key.target, key.step, datetime.now(UTC)),
    )
    return True


def _once_in_any(connection: Any, key: LedgerKey) -> bool:
    if getattr(connection, "autocommit", False) is True or getattr(connection, "isolation_level", "") is None:
        raise _no_transaction(key)
    module = importlib.import_module(type(connection).__module__.partition(".")[0])
    mark = _MARKS.get(module.paramstyle)
    where = [":1", ":2", ":3", ":4", ":5"] if mark is None else [mark] * 5
    cursor = connection.cursor()
    try:
        cursor.execute(
            f"SELECT max(batch_id) FROM {TABLE}"
            f" WHERE query_id = {where[0]} AND target = {where[1]} AND step = {where[2]}",
            (key.query_id, key.target, key.step),
        )
    except Exception as problem:
        raise UsageError(
            f"{TABLE} cannot be read through this connection: {str(problem).splitlines()[0][:200]}",
            meaning="Which batches the target holds is written there. Nothing was written; the batch comes again.",
            next=in_the_code(f"once, before the stream is started: {LEDGER}"),
            code="OnceWithoutLedger",
        ) from problem
    (newest,) = cursor.fetchone()
    if newest == key.batch_id:
        return False
    _refuse_behind(key, newest)
    cursor.execute(
        f"INSERT INTO {TABLE} (batch_id, query_id, target, step, written_at) VALUES ({', '.join(where)})",
        (key.batch_id, key.query_id, key.target, key.step, datetime.now(UTC).isoformat(timespec="seconds")),
    )
    return True


def _refuse_behind(key: LedgerKey, newest: int | None) -> None:
    if newest is not None and newest > key.batch_id:
        raise Refused(
            f"{key.target} has batches up to {newest} of query {key.query_id} and is now given batch {key.batch_id}",
            meaning="The checkpoint is behind its database: rewound, or put back to an older copy. Its batches "
            "have the numbers of former ones, and may have other rows. Nothing was written.",
            next=surestart("doctor"),
            do_not="delete rows of the ledger.",
            code="PostgresLedgerAhead",
        )


def _no_transaction(key: LedgerKey) -> UsageError:
    return UsageError(
        f"surestart.once_in was given a connection in autocommit, for batch {key.batch_id} of {key.target}",
        meaning="The ledger's row would be committed before the rows are written, and a kill between the two would "
        "lose them. Nothing was written.",
        next=in_the_code("with connection.transaction(): around once_in and the rows, or autocommit=False"),
        code="OnceWithoutTransaction",
    )
