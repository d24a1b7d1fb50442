"""What a backfill puts into a PostgreSQL table: rows that are missing there, committed together with the ledger row.

fill        ledger (remedy-<digest>, 0) · upsert: the given row wherever it is newer, or as new
                                        · append: rows whose position is not in the table
give up     ledger (remedy-<digest>, 0), withdrawn: whoever wakes up later finds it and adds nothing
"""

from __future__ import annotations

from surestart.errors import Refused
from surestart.facts.postgres.target import Target, check_upsert, find_target
from surestart.sinks.postgres.copy import LoadedRows, StagingTable
from surestart.sinks.postgres.move import append_missing_rows, keep_reported_rows, upsert_rows
from surestart.sinks.postgres.once import REMOVED, WITHDRAWN, Load, RemedyWork, Removal, at_work
from surestart.stage import POSITION
from surestart.typed import surestart


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
