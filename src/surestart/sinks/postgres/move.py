"""From staging into the target, inside the batch's one transaction: append, or upsert with the newest position winning.

    append    every staged row becomes a row of the target; of a backfill: every one whose position is not there
    upsert    one row per key: the staged row with the greatest `order` columns, unless the target's is as new or newer

Newest is decided by values in the rows, never by arrival: a replayed or late batch cannot put an older state back.

Staging tables: one per attempt at a batch, owned by whoever holds its lock.

    surestart_staging_<12 hex of the query id>_<batch id>_<8 hex of the attempt>     UNLOGGED, in the target's schema

The driver's connection holds the session lock hashtextextended(<table name>, 0) from before the table exists until it
is gone. A killed driver loses its connection and thereby the lock; so a table whose lock is free belongs to a dead
attempt: its tasks that still copy are ended and the table is dropped. A table whose lock is held belongs to a live
driver and is left alone.

Unlogged is safe: its content is lost in a server crash only, and a server crash also cuts the driver's connection, so
the attempt fails as a whole."""

from __future__ import annotations

import hashlib

from surestart.errors import Refused, UsageError
from surestart.facts.postgres.connection import driver, name
from surestart.facts.postgres.target import Target, name_list
from surestart.facts.postgres.types import TargetColumn, converted
from surestart.library_types import PostgresConnection
from surestart.sinks.postgres.copy import LoadedRows, StagingTable
from surestart.typed import in_the_code, surestart

# Sorting half a million rows in the default 4 MB goes through temporary files.
SORT_MEMORY_KB = 128 * 1024


def keep_reported_rows(connection: PostgresConnection, staging: StagingTable, loaded: tuple[LoadedRows, ...]) -> int:
    """Staging holds exactly the rows that the tasks answered for; returns how many."""
    expected = sum(task.rows for task in loaded)
    present = _count(connection, staging)
    if present > expected:
        # A task ran twice and both copies committed; the answers name the transactions that count.
        winners = [task.transaction for task in loaded if task.transaction]
        connection.execute(f"DELETE FROM {staging.sql} WHERE NOT (xmin = ANY (%s::text[]::xid[]))", (winners,))
        present = _count(connection, staging)
    if present != expected:
        raise Refused(
            f"staging table {staging.schema}.{staging.table} holds {present} rows, the tasks reported {expected}",
            meaning="Rows were lost or added between loading and committing. Nothing of the batch is in the target.",
            next=surestart("doctor", note="then the same command again: the batch is loaded afresh"),
            code="PostgresStagingMismatch",
        )
    return expected


def append_rows(connection: PostgresConnection, staging: StagingTable, target: Target) -> int:
    sql = f"INSERT INTO {target.sql} ({_names(staging)}) {_select(staging, target)}"
    staged = {column.name for column in staging.columns}
    if target.primary and staged.issuperset(target.primary):
        # In its own order a key's index is filled page by page. Measured, half a million keys in random order: 1.4 s
        # instead of 1.9 s into an empty table, 2.9 s instead of 9 s into one of three million.
        _allow_sorting(connection)
        sql += f" ORDER BY {name_list(target.primary)}"
    return connection.execute(sql).rowcount


def append_missing_rows(
    connection: PostgresConnection, staging: StagingTable, target: Target, position: tuple[str, ...]
) -> int:
    same = " AND ".join(f"t.{name(column)} = s.{name(column)}" for column in position)
    return connection.execute(
        f"INSERT INTO {target.sql} ({_names(staging)}) SELECT * FROM ({_select(staging, target)}) s"
        f" WHERE NOT EXISTS (SELECT 1 FROM {target.sql} t WHERE {same})"
    ).rowcount


def upsert_rows(
    connection: PostgresConnection,
    staging: StagingTable,
    target: Target,
    keys: tuple[str, ...],
    order: tuple[str, ...],
    rows: int,
    *,
    as_new: bool = False,
) -> int:
    """The target holds the newest known row of every staged key; returns the number of rows inserted or updated.
    as_new: a row that is as new is put in its place, because its values may have been changed by somebody."""
    key_list = name_list(keys)
    # In the order of the keys: neighbours share index pages, and two writers lock rows in the same order.
    newest = (
        f"SELECT DISTINCT ON ({key_list}) * FROM ({_select(staging, target)}) s"
        f" ORDER BY {key_list}, {', '.join(f'{name(column)} DESC' for column in order)}"
    )
    changed = [column.name for column in staging.columns if column.name not in keys]
    assignments = ", ".join(f"{name(column)} = EXCLUDED.{name(column)}" for column in changed)
    new = ", ".join(f"EXCLUDED.{name(column)}" for column in order)
    old = ", ".join(f"t.{name(column)}" for column in order)
    # A row without a position was put there by hand or before the sink: any position is newer than none.
    unknown = " OR ".join(f"t.{name(column)} IS NULL" for column in order)
    _allow_sorting(connection)
    changed_rows = connection.execute(
        f"INSERT INTO {target.sql} AS t ({_names(staging)}) {newest} ON CONFLICT ({key_list})"
        f" DO UPDATE SET {assignments} WHERE ({new}) {'>=' if as_new else '>'} ({old}) OR {unknown}"
    ).rowcount
    # Every staged row changed one of the target: no key was there twice, so none of them is tied with another.
    if changed_rows < rows:
        _refuse_ties(connection, staging, target, keys, order)
    return changed_rows


def _allow_sorting(connection: PostgresConnection) -> None:
    """Until the end of the transaction."""
    connection.execute(
        "SELECT set_config(name, greatest(%s, setting::int)::text, true) FROM pg_settings WHERE name = 'work_mem'",
        (SORT_MEMORY_KB,),
    )
    connection.execute("SET LOCAL jit = off")


def refuse_misfit(connection: PostgresConnection, staging: StagingTable, target: Target) -> None:
    """Raises for the first column with a value that its target cannot hold: the server's own error names no column."""
    for column in staging.columns:
        goal = target.column(column.name)
        said = _misfit(connection, staging, name(column.name), goal)
        if said:
            raise UsageError(
                f"column {column.name} of {target.label} is {goal.declared}, and the batch has {said}",
                meaning="The value does not fit the column. Nothing of the "
                "batch is in the target; the next start replays it.",
                next=in_the_code("change the column's type or the stage's transform, then run the same command again"),
                do_not="skip the batch: its other rows are good and would be lost.",
                code="PostgresTypeMismatch",
            )


def _misfit(connection: PostgresConnection, staging: StagingTable, column: str, goal: TargetColumn) -> str:
    if connection.info.server_version >= 160000:
        row = connection.execute(
            f"SELECT left({column}::text, 100) FROM {staging.sql}"
            f" WHERE NOT pg_input_is_valid({column}::text, %s) LIMIT 1",
            (goal.declared,),
        ).fetchone()
        return repr(row[0]) if row else ""
    psycopg = driver()
    try:
        connection.execute(f"SELECT count(x) FROM (SELECT {column}::{goal.type} x FROM {staging.sql}) s")
    except psycopg.DataError as error:
        return str(error.diag.message_primary)
    return ""


def _select(staging: StagingTable, target: Target) -> str:
    columns = ", ".join(
        f"{converted(column, target.column(column.name))} AS {name(column.name)}" for column in staging.columns
    )
    return f"SELECT {columns} FROM {staging.sql}"


def _names(staging: StagingTable) -> str:
    return name_list(tuple(column.name for column in staging.columns))


def _count(connection: PostgresConnection, staging: StagingTable) -> int:
    row = connection.execute(f"SELECT count(*) FROM {staging.sql}").fetchone()
    assert row is not None
    return int(row[0])


def _refuse_ties(
    connection: PostgresConnection,
    staging: StagingTable,
    target: Target,
    keys: tuple[str, ...],
    order: tuple[str, ...],
) -> None:
    by_key = name_list(keys)
    rows = f"({_select(staging, target)}) s"
    repeated = connection.execute(
        f"SELECT 1 FROM {rows} GROUP BY {name_list((*keys, *order))} HAVING count(*) > 1 LIMIT 1"
    ).fetchone()
    if not repeated:
        return
    newest_first = ", ".join(f"{name(column)} DESC" for column in order)
    ranked = (
        f"SELECT s::text AS line, {by_key}, rank() OVER (PARTITION "
        f"BY {by_key} ORDER BY {newest_first}) AS place FROM {rows}"
    )
    row = connection.execute(
        "SELECT count(*), min(sample) FROM (SELECT min(line) AS sample"
        f" FROM ({ranked}) ranked WHERE place = 1 GROUP BY {by_key} HAVING count(DISTINCT line) > 1) ties"
    ).fetchone()
    if row and row[0]:
        raise UsageError(
            f"{row[0]} keys for {target.label} have different rows with the same {', '.join(order)}, such as {row[1]}",
            meaning="Which of them is newer cannot be told, and a guess would differ between two replays. "
            "Nothing of the batch is in the target; the next start replays it.",
            next=in_the_code(
                "add columns to the sink's `order` until it is total, such as topic, partition and offset"
            ),
            code="PostgresOrderNotTotal",
        )


PREFIX = "surestart_staging_"


def staging_name(query_id: str, batch_id: int, attempt: str) -> str:
    digest = hashlib.sha256(query_id.encode()).hexdigest()[:12]
    return f"{PREFIX}{digest}_{batch_id}_{attempt[:8]}"


def create_staging(connection: PostgresConnection, staging: StagingTable) -> None:
    """The table exists, empty, without any of the target's constraints, locked by this connection."""
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (staging.table,))
    columns = ", ".join(f"{name(column.name)} {column.kind}" for column in staging.columns)
    with connection.transaction():
        # Nothing waits for the disk before the batch's own COMMIT: what a crash takes from staging, it takes from an
        # attempt that fails with it.
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute(f"CREATE UNLOGGED TABLE {staging.sql} ({columns}) WITH (autovacuum_enabled = false)")


def drop_leftovers(connection: PostgresConnection, schema: str) -> tuple[str, ...]:
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


def _one(connection: PostgresConnection, sql: str, value: str) -> bool:
    row = connection.execute(sql, (value,)).fetchone()
    return bool(row and row[0])
