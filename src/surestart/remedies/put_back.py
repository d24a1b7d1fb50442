"""Gives a table the content of a former version again, in one commit that is made once."""

from __future__ import annotations

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.failpoints import reach
from surestart.remedies.chain import EVERY_ROW, GOOD, Output
from surestart.remedies.commit_once import find_commit, note_of, one_commit
from surestart.remedies.plan import Step
from surestart.remedies.running import Running
from surestart.session import applied
from surestart.settings import EVERYWHERE, pairs
from surestart.sinks.delta_table import read_columns
from surestart.sinks.identity import USER_METADATA


def put_back(run: Running, step: Step, output: Output, before: int | None) -> int | None:
    """The table holds what it held at that version; the version of the RESTORE. before None or below 0: there was no
    table, so it is emptied, and None is the answer."""
    if before is None or int(before) < 0:
        _empty_again(run, step, output.table)
        return None
    undo = f"undo:{step.id}"
    done = find_commit(run.spark, output.table, run.digest, undo)
    if done is None:
        if output.role in (EVERY_ROW, GOOD):
            _add_marker_row(run, step, output.table)
        with applied(run.spark, {**pairs(EVERYWHERE), USER_METADATA: note_of(run.digest, undo)}):
            run.spark.sql(f"RESTORE TABLE {output.table.sql} TO VERSION AS OF {int(before)}").collect()
        reach("remedy.restore.after_commit")
        done = find_commit(run.spark, output.table, run.digest, undo)
    if done is None:
        raise CannotTell(
            f"{output.table.label} was restored to version {before}, and its history does not say so",
            meaning="Whether the RESTORE was made cannot be told.",
            next=f"DESCRIBE HISTORY {output.table.sql} LIMIT 5",
            code="RestoreNotSeen",
        )
    return done


def _add_marker_row(run: Running, step: Step, table: Table) -> None:
    """One row of nulls, which the RESTORE that follows takes away again. A RESTORE of a table that is empty by now
    would only add files: a stream that reads the table would take them for new rows. With a file removed it is a
    change, and is passed over."""
    with one_commit(run.spark, run.digest, f"marker:{step.id}"):
        columns = read_columns(run.spark, table) or {}
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in columns.items())
        run.spark.sql(f"INSERT INTO {table.sql} SELECT {nulls}").collect()


def _empty_again(run: Running, step: Step, table: Table) -> None:
    """There was no table before the remedy: what the stage has written since goes."""
    if read_columns(run.spark, table) is None:
        return
    with one_commit(run.spark, run.digest, f"undo:{step.id}"):
        run.spark.sql(f"DELETE FROM {table.sql}").collect()
