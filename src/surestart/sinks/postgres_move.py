"""From staging into the target, inside the batch's one transaction: append, or upsert with the newest position winning.

    append    every staged row becomes a row of the target
    upsert    one row per key: the staged row with the greatest `order` columns, unless the target's is as new or newer

Newest is decided by values in the rows, never by arrival: a replayed or late batch cannot put an older state back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surestart.errors import Refused, UsageError
from surestart.sinks.postgres_connection import name
from surestart.sinks.postgres_copy import Loaded, Staging
from surestart.sinks.postgres_target import Target, name_list

if TYPE_CHECKING:
    import psycopg


def keep_reported_rows(connection: psycopg.Connection[Any], staging: Staging, loaded: tuple[Loaded, ...]) -> int:
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
            next="run the same command again; the batch is loaded afresh",
            code="PostgresStagingMismatch",
        )
    return expected


def append_rows(connection: psycopg.Connection[Any], staging: Staging, target: Target) -> int:
    columns = name_list(staging.columns)
    return connection.execute(f"INSERT INTO {target.sql} ({columns}) SELECT {columns} FROM {staging.sql}").rowcount


def upsert_rows(
    connection: psycopg.Connection[Any],
    staging: Staging,
    target: Target,
    keys: tuple[str, ...],
    order: tuple[str, ...],
) -> int:
    """The target holds the newest known row of every staged key; returns the number of rows inserted or updated."""
    _refuse_nulls(connection, staging, target, (*keys, *order))
    columns, key_list = name_list(staging.columns), name_list(keys)
    newest_first = ", ".join(f"{name(column)} DESC" for column in order)
    rows = f"SELECT {columns} FROM {staging.sql} ORDER BY {key_list}"
    if _has_repeated_keys(connection, staging, keys):
        _refuse_ties(connection, staging, target, keys, order)
        rows = f"SELECT DISTINCT ON ({key_list}) {columns} FROM {staging.sql} ORDER BY {key_list}, {newest_first}"
    changed = [column for column in staging.columns if column not in keys]
    assignments = ", ".join(f"{name(column)} = EXCLUDED.{name(column)}" for column in changed)
    new = ", ".join(f"EXCLUDED.{name(column)}" for column in order)
    old = ", ".join(f"t.{name(column)}" for column in order)
    # A row without a position was put there by hand or before the sink: any position is newer than none.
    unknown = " OR ".join(f"t.{name(column)} IS NULL" for column in order)
    return connection.execute(
        f"INSERT INTO {target.sql} AS t ({columns}) {rows}"
        f" ON CONFLICT ({key_list}) DO UPDATE SET {assignments} WHERE ({new}) > ({old}) OR {unknown}"
    ).rowcount


def _count(connection: psycopg.Connection[Any], staging: Staging) -> int:
    row = connection.execute(f"SELECT count(*) FROM {staging.sql}").fetchone()
    assert row is not None
    return int(row[0])


def _has_repeated_keys(connection: psycopg.Connection[Any], staging: Staging, keys: tuple[str, ...]) -> bool:
    sql = f"SELECT 1 FROM {staging.sql} GROUP BY {name_list(keys)} HAVING count(*) > 1 LIMIT 1"
    return connection.execute(sql).fetchone() is not None


def _refuse_nulls(
    connection: psycopg.Connection[Any], staging: Staging, target: Target, columns: tuple[str, ...]
) -> None:
    # A null key matches nothing and would be inserted again at every batch; a null position is neither newer nor older.
    condition = " OR ".join(f"{name(column)} IS NULL" for column in columns)
    row = connection.execute(f"SELECT count(*) FROM {staging.sql} WHERE {condition}").fetchone()
    if row and row[0]:
        raise UsageError(
            f"{row[0]} rows for {target.label} have no value in one of {', '.join(columns)}",
            meaning="Without key or position a row can be neither found again nor called newer. "
            "Nothing of the batch is in the target; the next start replays it.",
            next="send such rows to quarantine in the stage's transform, then run the same command again",
            code="PostgresNullKey",
        )


def _refuse_ties(
    connection: psycopg.Connection[Any],
    staging: Staging,
    target: Target,
    keys: tuple[str, ...],
    order: tuple[str, ...],
) -> None:
    newest_first = ", ".join(f"{name(column)} DESC" for column in order)
    by_key = name_list(keys)
    ranked = (
        f"SELECT s::text AS line, {by_key}, rank() OVER (PARTITION BY {by_key} ORDER BY {newest_first}) AS place"
        f" FROM {staging.sql} s"
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
            next="add columns to the sink's `order` until it is total, such as topic, partition and offset",
            code="PostgresOrderNotTotal",
        )
