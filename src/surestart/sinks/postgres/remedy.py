"""What a remedy does to a PostgreSQL table, and what its undo does: each in one transaction.

    remove    ledger (remedy-<digest>, 0) · what goes into surestart_kept_… · DELETE · former readings of its keys
    restore   ledger (remedy-<digest>, 1) · DELETE · back from surestart_kept_…, which is dropped

    surestart_kept_<16 hex of the digest>_<8 hex of the target>    in the target's schema

A table with one row per key is kept whole: rows that stay may be replaced before the undo. Of one that only ever gets
rows, those that go are kept. Rows of batches stay in the ledger: the query ids that wrote them are not used again.

What a backfill puts into a PostgreSQL table: rows that are missing there, committed together with the ledger row.

fill        ledger (remedy-<digest>, 0) · upsert: the given row wherever it is newer, or as new
                                        · append: rows whose position is not in the table
give up     ledger (remedy-<digest>, 0), withdrawn: whoever wakes up later finds it and adds nothing"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surestart.errors import Refused
from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.target import Target, check_upsert, find_target, name_list
from surestart.facts.postgres.url import DatabaseUrl, Secret
from surestart.library_types import PostgresConnection
from surestart.sinks.postgres.batch import LOCK_TIMEOUT
from surestart.sinks.postgres.copy import LoadedRows, StagingTable
from surestart.sinks.postgres.move import append_missing_rows, append_rows, keep_reported_rows, upsert_rows
from surestart.sinks.postgres.once import (
    PREFIX,
    REMOVED,
    RESTORED,
    WITHDRAWN,
    Load,
    Marks,
    RemedyWork,
    Removal,
    at_work,
    milliseconds,
)
from surestart.stage import POSITION
from surestart.typed import surestart


@dataclass(frozen=True)
class Removed:
    """target: with its schema.
    kept_table: where what was removed is, "" if the target does not exist.
    at: milliseconds."""

    target: str
    rows: int = 0
    restored: int = 0
    kept_table: str = ""
    at: int = 0


def remove_rows(removal: Removal, load: Load | None = None) -> Removed:
    """Only rows that stay are in the table, once, and what was removed is kept. load: fills the staging table with what
    comes in the place of rows that go."""

    def act(work: RemedyWork) -> Removed:
        if work.target is None:
            return Removed(removal.target)
        target = work.target
        done = work.find(REMOVED)
        if done is None:
            refuse_references(work.connection, target, work.removal.url.place)
            staging = work.stage(load) if load is not None else None
            done = work.once(REMOVED, lambda: _remove(work, target, staging))
        return Removed(target.label, done.rows, done.rows_changed, work.kept_label, milliseconds(done.committed_at))

    return at_work(removal, "removing rows from", act)


def restore_rows(removal: Removal, existed: bool = True) -> Removed:
    """The table holds what it held before the removal. existed False: there was no table then, and it is emptied."""

    def act(work: RemedyWork) -> Removed:
        if work.target is None:
            return Removed(removal.target)
        target = work.target
        done = work.find(RESTORED)
        if done is None and (work.find(REMOVED) is not None or not existed):
            done = work.once(RESTORED, lambda: _restore(work, target, existed))
        if done is None:
            return Removed(target.label)
        return Removed(target.label, done.rows, done.rows_changed, "", milliseconds(done.committed_at))

    return at_work(removal, "putting rows back into", act)


def is_kept(removal: Removal) -> bool:
    """What was removed is still there, or was put back."""

    def act(work: RemedyWork) -> bool:
        return work.target is None or work.find(RESTORED) is not None or work.is_kept()

    return at_work(removal, "looking for what was removed from", act)


def drop_kept(url: Secret, label: str, digest: str) -> None:
    """The kept table of that remedy is gone. Raises for any other table."""
    schema, _, table = label.rpartition(".")
    if not schema or not table.startswith(f"{PREFIX}{digest[:16]}_"):
        raise Refused(
            f"{label} is not a table that the remedy {digest[:12]} has kept rows in",
            meaning="Nothing was dropped.",
            next=surestart("prune"),
            code="NotAKeptTable",
        )
    psycopg = driver()
    try:
        with open_connection(url, "surestart prune") as connection:
            connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            connection.execute(f"DROP TABLE IF EXISTS {name(schema, table)}")
            return
    except psycopg.Error as error:
        failure = error_in_four_parts(error, url, f"dropping {label}", UNCHANGED)
    raise failure


def going(marks: Marks | None) -> tuple[str, list[Any]]:
    """The condition on `t` that is true for rows that go, and its values."""
    if marks is None:
        return "true", []
    source, partition, offset = (f"t.{name(column)}" for column in POSITION)
    columns: list[Any] = [[mark[index] for mark in marks] for index in range(3)]
    return (
        "NOT EXISTS (SELECT 1 FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(source, part, below)"
        f" WHERE {source} = k.source AND {partition} = k.part AND {offset} < k.below)",
        columns,
    )


def refuse_references(connection: PostgresConnection, target: Target, url: DatabaseUrl) -> None:
    """Deleting what other tables refer to would fail, or delete their rows too."""
    found = connection.execute(
        "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = %s::regclass LIMIT 3",
        (target.sql,),
    ).fetchall()
    if found:
        raise Refused(
            f"{', '.join(row[0] for row in found)} refer to rows of {target.label} by a foreign key",
            meaning="Removing rows would fail, or remove those of the other tables with them. Nothing was removed.",
            next=url.psql(f"\\d {target.label}"),
            do_not="remove the rows by hand.",
            code="PostgresReferenced",
        )


def _remove(
    work: RemedyWork, target: Target, staging: tuple[StagingTable, tuple[LoadedRows, ...]] | None
) -> tuple[int, int]:
    removal, execute, kept = work.removal, work.connection.execute, name(*work.kept_table)
    condition, values = going(removal.marks)
    whole = removal.marks is None or bool(removal.keys)
    execute(f"CREATE TABLE {kept} (LIKE {target.sql})")
    execute(
        f"COMMENT ON TABLE {kept} IS 'What a surestart remedy has removed, for its undo. surestart prune drops it.'"
    )
    held = execute(
        f"INSERT INTO {kept} SELECT * FROM {target.sql} t" + ("" if whole else f" WHERE {condition}"),
        None if whole else values,
    ).rowcount
    rows = execute(f"DELETE FROM {target.sql} t WHERE {condition}", values or None).rowcount
    # A policy or a trigger may hide rows from one of the two statements.
    if rows > held or (not whole and rows != held) or (removal.marks is None and rows != held):
        raise Refused(
            f"{held} rows of {target.label} were kept and {rows} removed",
            meaning="A policy or a trigger of the table treats rows differently. Everything was rolled back.",
            next=removal.url.place.psql(f"\\d+ {target.label}"),
            code="PostgresKeptDiffers",
        )
    if staging is None:
        return rows, 0
    table, loaded = staging
    execute(f"LOCK TABLE {table.sql} IN ACCESS EXCLUSIVE MODE")
    given = keep_reported_rows(work.connection, table, loaded)
    if removal.keys:
        put = upsert_rows(work.connection, table, target, removal.keys, removal.order, given)
    else:
        put = append_rows(work.connection, table, target)
    execute(f"DROP TABLE {table.sql}")
    return rows, put


def _restore(work: RemedyWork, target: Target, existed: bool) -> tuple[int, int]:
    removal, execute, kept = work.removal, work.connection.execute, name(*work.kept_table)
    whole = removal.marks is None or bool(removal.keys)
    condition, values = going(None if whole else removal.marks)
    if existed and not work.is_kept():
        raise Refused(
            f"{work.kept_label} is gone: `surestart prune` has dropped it, or somebody else",
            meaning=f"What was removed from {target.label} cannot come back. Nothing was changed there.",
            next=surestart("plan", "reset", removal.stage, "-o", "plan.json", note="rebuilds it from its source"),
            code="UndoTooLate",
        )
    rows = execute(f"DELETE FROM {target.sql} t WHERE {condition}", values or None).rowcount
    if not existed:
        return rows, 0
    columns = name_list(_plain_columns(work, target))
    put = execute(f"INSERT INTO {target.sql} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {kept}").rowcount
    execute(f"DROP TABLE {kept}")
    return rows, put


def _plain_columns(work: RemedyWork, target: Target) -> tuple[str, ...]:
    """Those that may be given a value; what is generated is generated again."""
    found = work.connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attgenerated = '' ORDER BY attnum",
        (target.sql,),
    ).fetchall()
    return tuple(row[0] for row in found)


def fill_rows(removal: Removal, load: Load) -> int | None:
    """Every given row that was missing is in the table, once; how many were added or corrected. None: it was given up
    before, and nothing is written."""

    def act(work: RemedyWork) -> int | None:
        target = _target(work)
        done = work.find(REMOVED)
        if done is None:
            if removal.keys:
                columns = tuple(column.name for column in removal.columns)
                check_upsert(target, removal.keys, removal.order, columns, removal.url)
            staging, loaded = work.stage(load)
            done = work.once(REMOVED, lambda: _fill(work, target, staging, loaded))
        return None if done.mode == WITHDRAWN else done.rows_changed

    return at_work(removal, "adding missing rows to", act)


def withdraw_filling(removal: Removal) -> bool:
    """Nobody adds rows for this remedy any more. False: they were added before."""

    def act(work: RemedyWork) -> bool:
        if work.target is None:
            # If this were refused, the unfinished backfill would keep every other remedy from beginning.
            return True
        done = work.find(REMOVED) or work.once(REMOVED, lambda: (0, 0), WITHDRAWN)
        return done.mode == WITHDRAWN

    return at_work(removal, "giving up a backfill of", act)


def _target(work: RemedyWork) -> Target:
    if work.target is None:
        raise Refused(
            f"there is no table {work.removal.target} any more",
            meaning="Its missing rows have nowhere to go. Nothing was written there.",
            next=surestart(
                "plan", "reset", work.removal.stage, "-o", "plan.json", note="fills a new one from the beginning"
            ),
            code="PostgresTargetMissing",
        )
    return find_target(work.connection, work.removal.target)


def _fill(work: RemedyWork, target: Target, staging: StagingTable, loaded: tuple[LoadedRows, ...]) -> tuple[int, int]:
    removal = work.removal
    work.connection.execute(f"LOCK TABLE {staging.sql} IN ACCESS EXCLUSIVE MODE")
    given = keep_reported_rows(work.connection, staging, loaded)
    if removal.keys:
        put = upsert_rows(work.connection, staging, target, removal.keys, removal.order, given, as_new=True)
    else:
        put = append_missing_rows(work.connection, staging, target, POSITION)
    work.connection.execute(f"DROP TABLE {staging.sql}")
    return given, put
