"""Staging tables: one per attempt at a batch, owned by whoever holds its lock.

    surestart_staging_<12 hex of the query id>_<batch id>_<8 hex of the attempt>     UNLOGGED, in the target's schema

The driver's connection holds the session lock hashtextextended(<table name>, 0) from before the table exists until it
is gone. A killed driver loses its connection and thereby the lock; so a table whose lock is free belongs to a dead
attempt: its tasks that still copy are ended and the table is dropped. A table whose lock is held belongs to a live
driver and is left alone.

Unlogged is safe: its content is lost in a server crash only, and a server crash also cuts the driver's connection, so
the attempt fails as a whole.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from surestart.facts.postgres.connection import name
from surestart.sinks.postgres.copy import StagingTable

if TYPE_CHECKING:
    import psycopg

PREFIX = "surestart_staging_"


def staging_name(query_id: str, batch_id: int, attempt: str) -> str:
    digest = hashlib.sha256(query_id.encode()).hexdigest()[:12]
    return f"{PREFIX}{digest}_{batch_id}_{attempt[:8]}"


def create_staging(connection: psycopg.Connection[Any], staging: StagingTable) -> None:
    """The table exists, empty, without any of the target's constraints, locked by this connection."""
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (staging.table,))
    columns = ", ".join(f"{name(column.name)} {column.kind}" for column in staging.columns)
    with connection.transaction():
        # Nothing waits for the disk before the batch's own COMMIT: what a crash takes from staging, it takes from an
        # attempt that fails with it.
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute(f"CREATE UNLOGGED TABLE {staging.sql} ({columns}) WITH (autovacuum_enabled = false)")


def drop_leftovers(connection: psycopg.Connection[Any], schema: str) -> tuple[str, ...]:
    """Staging tables of dead attempts in this schema are gone, with their tasks; returns their names."""
    found = connection.execute(
        "SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(c.relname, %s)"
        " AND pg_has_role(current_user, c.relowner, 'USAGE') ORDER BY c.relname",
        (schema, PREFIX),
    ).fetchall()
    dropped = []
    for oid, table in found:
        if not _one(connection, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", table):
            continue
        try:
            # A task of a dead driver keeps its COPY open until Spark notices; DROP would wait for it.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks"
                " WHERE relation = %s AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                " AND pid <> pg_backend_pid()",
                (oid,),
            )
            connection.execute(f"DROP TABLE IF EXISTS {name(schema, table)}")
            dropped.append(str(table))
        finally:
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (table,))
    return tuple(dropped)


def _one(connection: psycopg.Connection[Any], sql: str, value: str) -> bool:
    row = connection.execute(sql, (value,)).fetchone()
    return bool(row and row[0])
