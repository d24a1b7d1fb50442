"""Gives a table the content of a former version again, in one commit that is made once."""

from __future__ import annotations

from pathlib import Path

from surestart.environment import Table
from surestart.errors import CannotTell, Refused
from surestart.facts.delta import read_active_files
from surestart.facts.delta.pinned import first_line, reading_errors
from surestart.facts.delta.remedy_note import MARKER, UNDO
from surestart.failpoints import reach
from surestart.journal.commit_once import append_once, find_undo, quoted, replace_once
from surestart.journal.next_command import plan_command
from surestart.remedies.plan.chain import EVERY_ROW, GOOD, Output
from surestart.remedies.plan.journaling import refuse_carried_on
from surestart.remedies.plan.kept import read_at
from surestart.remedies.plan.plan import Step
from surestart.remedies.plan.running import Running
from surestart.sinks.delta.transaction import no_rows
from surestart.spark.delta_table import read_columns
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import spark_sql


def put_back(run: Running, step: Step, output: Output, before: int | None) -> int | None:
    """The table holds what it held at that version; the version of the RESTORE. before None or below 0: there was no
    table, so it is emptied; None where there is none now."""
    if before is None or int(before) < 0:
        return _empty_again(run, step, output.table)
    done = find_undo(run.spark, output.table, run.digest, step.id)
    if done is None:
        check_restorable(run, step, output.table, int(before))
        refuse_carried_on(run, "undo")
        _mark(run, step, output, int(before))
        reach("remedy.restore.marked")
        refuse_carried_on(run, "undo")
        with applied(run.spark, pairs(EVERYWHERE)):
            run.spark.sql(f"RESTORE TABLE {output.table.sql} TO VERSION AS OF {int(before)}").collect()
        reach("remedy.restore.after_commit")
        done = find_undo(run.spark, output.table, run.digest, step.id)
    if done is None:
        raise CannotTell(
            f"{output.table.label} was restored to version {before}, and its history does not say so",
            meaning="Whether the RESTORE was made cannot be told.",
            next=spark_sql(f"DESCRIBE HISTORY {output.table.sql} LIMIT 5"),
            code="RestoreNotSeen",
        )
    return done


def check_restorable(run: Running, step: Step, table: Table, version: int) -> None:
    """Raises, with nothing changed, when a file of that version was deleted (VACUUM), or its log is gone."""
    gone, of = _deleted_files(run, table, version)
    if gone:
        raise Refused(
            f"{gone} of {of} files of version {version} of {table.name} are deleted (VACUUM)"
            if of
            else f"version {version} of {table.name} cannot be read any more: {gone}",
            meaning="The table's former content cannot come back. Nothing was changed.",
            next=plan_command(run.environment, "reset", step.stage) + "  # rebuilds it from its source",
            code="UndoTooLate",
        )


def _deleted_files(run: Running, table: Table, version: int) -> tuple[int | str, int]:
    """How many of how many files; of a catalog's table, what kept a file of it from being read."""
    if table.path:
        files = read_active_files(table.path, version)
        there = [file.is_absolute or (Path(table.path) / file.path).exists() for file in files]
        return there.count(False), len(files)
    from pyspark.sql import functions as F

    try:
        rows = read_at(run.spark, run.environment, table.name, version)
        # One column of every file is read. A count would be answered from the log, which knows of no VACUUM.
        rows.agg(F.max(F.xxhash64(rows.columns[0]))).collect()
    except reading_errors() as problem:
        return first_line(problem), 0
    return 0, 0


def _mark(run: Running, step: Step, output: Output, before: int) -> None:
    """A commit that says which RESTORE follows. Where a stream reads the table it is a row of nulls, which the RESTORE
    takes away again: a RESTORE of a table that is empty by now would only add files, and the stream would take them
    for new rows. With a file removed it is a change, and is passed over."""
    rows = no_rows(run.spark, output.table)
    if output.role in (EVERY_ROW, GOOD):
        nulls = [f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in rows.dtypes]
        rows = run.spark.sql(f"SELECT {', '.join(nulls)}")
    append_once(rows, output.table, run.digest, f"{MARKER}{step.id}", restores=before)


def _empty_again(run: Running, step: Step, table: Table) -> int | None:
    """There was no table before the remedy: what the stage has written since goes."""
    if read_columns(run.spark, table) is None:
        return None
    refuse_carried_on(run, "undo")
    return replace_once(no_rows(run.spark, table), table, run.digest, f"{UNDO}{step.id}")
