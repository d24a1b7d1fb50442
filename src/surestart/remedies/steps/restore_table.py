"""Gives a table the content of a former version again, in one commit that is made once."""

from __future__ import annotations

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.facts.delta.commit_notes import MARKER, UNDO
from surestart.failpoints import fail_point
from surestart.journal.commit_once import append_step_once, find_undo, replace_once
from surestart.remedies.basis.chain import EVERY_ROW, GOOD, Output
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import read_at, why_not_readable
from surestart.remedies.basis.step_context import StepContext, refuse_carried_on, too_late
from surestart.sinks.delta.transaction import no_rows, nothing
from surestart.spark.delta_table import read_columns
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import spark_sql


def restore_table(run: StepContext, step: Step, output: Output, before: int | None) -> int | None:
    """The table holds what it held at that version. Gives the version of the RESTORE, None where there is no table.

    before: None or below 0 where there was no table; then it is emptied."""
    if before is None or int(before) < 0:
        return _empty_again(run, step, output.table)
    return restore_once(run, step, output, int(before), step.id, "undo")


def restore_once(run: StepContext, step: Step, output: Output, version: int, name: str, verb: str) -> int:
    """The table holds what it held at that version, by one RESTORE of this name; the version of the RESTORE."""
    done = find_undo(run.spark, output.table, run.digest, name)
    if done is None:
        check_restorable(run, step, output.table, version)
        refuse_carried_on(run, verb)
        _mark(run, name, output, version)
        fail_point("remedy.restore.marked")
        refuse_carried_on(run, verb)
        with applied(run.spark, pairs(EVERYWHERE)):
            run.spark.sql(f"RESTORE TABLE {output.table.sql} TO VERSION AS OF {version}").collect()
        fail_point("remedy.restore.after_commit")
        done = find_undo(run.spark, output.table, run.digest, name)
    if done is None:
        raise CannotTell(
            f"{output.table.label} was restored to version {version}, and its history does not say so",
            meaning="Whether the RESTORE was made cannot be told.",
            next=spark_sql(f"DESCRIBE HISTORY {output.table.sql} LIMIT 5"),
            code="RestoreNotSeen",
        )
    return done


def check_restorable(run: StepContext, step: Step, table: Table, version: int) -> None:
    """Raises, with nothing changed, when a file of that version was deleted (VACUUM), or its log is gone."""
    if why := why_not_readable(run.spark, run.environment, table, version):
        raise too_late(run, step, why, "The table's former content cannot come back.")


def _mark(run: StepContext, name: str, output: Output, before: int) -> None:
    """Makes a commit that says which RESTORE follows. Where a stream reads the table, the commit adds a row, which the
    RESTORE removes again. Without it, the RESTORE of a table that is empty by now would only add files, and the stream
    would read them as new rows. A RESTORE that also removes a file is a change, and the stream passes over it. The row
    is one of those that come back, because the table's constraints may refuse a row of nulls."""
    rows = nothing(run.spark, output.table)
    if output.role in (EVERY_ROW, GOOD):
        rows = read_at(run.spark, run.environment, output.table.name, before).limit(1)
    append_step_once(rows, output.table, run.digest, f"{MARKER}{name}", restores=before)


def _empty_again(run: StepContext, step: Step, table: Table) -> int | None:
    """For a table that was not there before the remedy: what the stage has written since is removed."""
    if read_columns(run.spark, table) is None:
        return None
    refuse_carried_on(run, "undo")
    return replace_once(no_rows(run.spark, table), table, run.digest, f"{UNDO}{step.id}")
