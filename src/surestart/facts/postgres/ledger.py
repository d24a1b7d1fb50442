"""The ledger: one row per batch that is in the target, written in the transaction that put it there.

    <target's schema>.surestart_ledger
        query_id, batch_id, target, step    primary key; the query id is the one in the checkpoint's `metadata`
        query, stage, checkpoint            who wrote it, for people
        attempt                             tells a lost COMMIT reply (our attempt) from another writer's batch
        mode, rows, rows_changed            rows of the batch; rows inserted or updated in the target
        attempted_at, committed_at          start of the attempt; just before COMMIT

Seen from the ledger a batch is present (committed), absent (not yet) or behind (absent, and a later one is there). Rows
older than the last 10,000 batches of a query are removed: what is behind is refused, so nothing depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from surestart.facts.postgres.connection import name
from surestart.library_types import PostgresConnection

TABLE = "surestart_ledger"
KEPT_BATCHES = 10_000


@dataclass(frozen=True)
class LedgerKey:
    """Which batch, in which target. Two sinks of one query that write to the same table differ by step."""

    query_id: str
    batch_id: int
    target: str
    step: str = ""


@dataclass(frozen=True)
class LedgerEntry:
    batch_id: int
    attempt: str
    rows: int
    rows_changed: int
    attempted_at: datetime
    committed_at: datetime
    query: str
    stage: str
    checkpoint: str
    mode: str


def create_ledger(connection: PostgresConnection, schema: str) -> None:
    """The ledger exists. Without the right to create tables, an existing one is enough."""
    found = connection.execute("SELECT to_regclass(%s)", (name(schema, TABLE),)).fetchone()
    if found and found[0]:
        return
    # Two first starts at once: IF NOT EXISTS alone still collides in the catalogue, so the second one waits.
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{schema}.{TABLE}",))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {name(schema, TABLE)} ("
            " query_id text NOT NULL, batch_id bigint NOT NULL, target text NOT NULL, step text NOT NULL DEFAULT '',"
            " query text NOT NULL, stage text NOT NULL, checkpoint text NOT NULL, attempt text NOT NULL,"
            " mode text NOT NULL, rows bigint NOT NULL, rows_changed bigint,"
            " attempted_at timestamptz NOT NULL, committed_at timestamptz,"
            " PRIMARY KEY (query_id, target, step, batch_id))"
        )


def find_entry(connection: PostgresConnection, schema: str, key: LedgerKey) -> LedgerEntry | None:
    row = connection.execute(
        f"SELECT {_ENTRY} FROM {name(schema, TABLE)}"
        " WHERE query_id = %s AND target = %s AND step = %s AND batch_id = %s",
        (key.query_id, key.target, key.step, key.batch_id),
    ).fetchone()
    return LedgerEntry(*row) if row else None


def last_batch(connection: PostgresConnection, schema: str, key: LedgerKey) -> int | None:
    row = connection.execute(
        f"SELECT max(batch_id) FROM {name(schema, TABLE)} WHERE query_id = %s AND target = %s AND step = %s",
        (key.query_id, key.target, key.step),
    ).fetchone()
    return row[0] if row else None


_ENTRY = "batch_id, attempt, rows, rows_changed, attempted_at, committed_at, query, stage, checkpoint, mode"
