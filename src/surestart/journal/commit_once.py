"""A remedy's own Delta commits: each is made once, however often its step is entered, on every kind of compute.

    append_step_once  rows are added
    replace_once      the rows of a condition go, and others take their place
    mark_once         no row at all: a version that a stage begins at, or that a RESTORE stands behind

Each is one write of a DataFrame with three options: the pair (remedy-<digest>:<step>, 0), by which Delta drops a second
one, whenever a process wakes up that was about to make it, and a note with digest and step, by which it is found again.
DELETE, UPDATE and MERGE take both from session settings alone, and serverless compute refuses those; so does RESTORE
with its note, and it ignores any pair: it is known by its own parameters behind a mark (facts.delta.commit_notes).

One row of the Delta table of remedies is such a commit too, whose note repeats it; and so is the row that says which
stream passes over what an undo has taken back, written before the first batch that does so. A batch may end among the
commits that are passed over: Delta counts the files that it leaves out. Where the checkpoint then stands looks like
that of a stream which has read them; this row tells one from the other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.facts.delta import Commit, history_evidence, read_history
from surestart.facts.delta.commit_notes import find_undos, note_of, read_remedy_note
from surestart.library_types import DataFrame, SparkSession
from surestart.sinks.delta.transaction import nothing, save_with_pair
from surestart.spark.delta_table import create_in_catalog, read_table, save_to
from surestart.spark.every_line import select_values
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import spark_sql, surestart

ALL_ROWS = "true"
_COMMITS = 1000


def append_step_once(rows: DataFrame, table: Table, digest: str, step: str, restores: int | None = None) -> int:
    """The rows are in the table, in one commit of this step; returns its version. restores: the version to which the
    RESTORE that follows goes back."""
    return _write_once(rows, table, digest, step, note_of(digest, step, restores), {})


def mark_once(spark: SparkSession, table: Table, digest: str, step: str, restores: int | None = None) -> int:
    """The table has a commit of this step that changes no row; its version."""
    return append_step_once(nothing(spark, table), table, digest, step, restores)


def replace_once(rows: DataFrame, table: Table, digest: str, step: str, where: str = ALL_ROWS) -> int:
    """The table holds these rows in the place of those for which the condition is true, all of them if none is given,
    in one commit of this step; its version. What the table is (id, columns, layout, properties) stays."""
    # Without a condition a catalog's table would be replaced, and not its rows (CREATE OR REPLACE TABLE AS SELECT), and
    # where a cluster's default is "dynamic" partitions without new rows would keep their former ones.
    return _write_once(rows, table, digest, step, note_of(digest, step), {"replaceWhere": where})


def _write_once(rows: DataFrame, table: Table, digest: str, step: str, note: str, replacing: dict[str, str]) -> int:
    spark = rows.sparkSession
    done = find_commit(spark, table, digest, step)
    if done is not None:
        return done
    writer = _as_stored(rows, table).write.format("delta").mode("overwrite" if replacing else "append")
    with applied(spark, pairs(EVERYWHERE)):
        save_with_pair(writer.options(**replacing), table, f"remedy-{digest[:16]}:{step}", 0, note)
    done = find_commit(spark, table, digest, step)
    if done is None:
        raise CannotTell(
            f"{step} of {digest[:12]} was written to {table.label}, and its history does not say so",
            meaning="Whether it was done cannot be told.",
            next=spark_sql(f"DESCRIBE HISTORY {table.sql} LIMIT 5"),
            code="CommitNotSeen",
        )
    return done


def _as_stored(rows: DataFrame, table: Table) -> DataFrame:
    """With the types of the table's columns: the writer casts nothing by itself."""
    from pyspark.sql import functions as F

    wanted = dict(read_table(rows.sparkSession, table).dtypes)
    other = {name: wanted[name] for name, kind in rows.dtypes if wanted.get(name, kind) != kind}
    return rows.withColumns({name: F.col(quoted(name)).cast(kind) for name, kind in other.items()}) if other else rows


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def find_commit(spark: SparkSession, table: Table, digest: str, step: str) -> int | None:
    """The version that this step made, among the newest commits of the table."""
    for commit in reversed(read_newest_commits(spark, table)):
        note = read_remedy_note(commit.user_metadata)
        if note is not None and (note.digest, note.step) == (digest, step):
            return commit.version
    return None


def find_undo(spark: SparkSession, table: Table, digest: str, step: str) -> int | None:
    """The version at which the undo of this step put the table back."""
    found = find_undos(read_newest_commits(spark, table))
    return next((version for version, note in found.items() if note.is_of(digest, step)), None)


def read_newest_commits(spark: SparkSession, table: Table, limit: int = _COMMITS) -> Sequence[Commit]:
    """Oldest first. A table's own files answer at once; DESCRIBE HISTORY takes Spark jobs."""
    if table.path:
        return read_history(table.path, limit=limit)
    return history_evidence(spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT {limit}").collect()).commits


_KINDS = {
    "digest": "STRING",
    "number": "INT",
    "state": "STRING",
    "step": "STRING",
    "at": "BIGINT",
    "entry": "STRING",
    "plan": "STRING",
}
# The journal is what an undo stands on, so its log is kept; the commits alone are read, newest first.
_PROPERTIES = {"delta.logRetentionDuration": "interval 3650 days", "delta.checkpointInterval": "100"}


def write_journal_row(
    spark: SparkSession, table: Table, values: Mapping[str, object], app: str, number: int, note: Mapping[str, object]
) -> None:
    """The row is there, once: Delta drops a second one of the same pair, and says nothing."""
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, _KINDS, _PROPERTIES)
        written = (
            spark.sql(select_values([{name: values[name] for name in _KINDS}], _KINDS))
            .coalesce(1)
            .write.format("delta")
            .mode("append")
            .options(**_PROPERTIES)
            .option("txnAppId", app)
            .option("txnVersion", str(number))
            .option("userMetadata", json.dumps(note))
        )
        save_to(table, written)


_NOTE = "surestart_passed"


@dataclass(frozen=True)
class PassOverNote:
    """step: the step of the remedy whose undo has taken something back.
    stream: a query id; for a stream that has none yet, where it begins."""

    digest: str
    step: str
    stream: str


def append_pass_over_note(spark: SparkSession, table: Table, passing: PassOverNote) -> None:
    """It is noted, once."""
    body = asdict(passing)
    values = {
        "digest": passing.digest,
        "number": -1,
        "state": "passed",
        "step": passing.step,
        "at": int(time.time() * 1000),
        "entry": json.dumps(body, sort_keys=True),
        "plan": "",
    }
    app = f"passed-{passing.digest}-{passing.step}-{passing.stream}"
    write_journal_row(spark, table, values, app, 0, {_NOTE: body})


def read_pass_over_note(note: str) -> PassOverNote | None:
    """None for anybody else's note."""
    if f'"{_NOTE}"' not in note:
        return None
    try:
        body = json.loads(note)[_NOTE]
        return PassOverNote(str(body["digest"]), str(body["step"]), str(body["stream"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise CannotTell(
            "the journal of remedies has an entry that this version cannot read",
            meaning="Which stream has passed over what an undo has taken back cannot be told, so nothing is started.",
            next=surestart("--version", note="and use the version that wrote it, or a newer one"),
            code="JournalUnreadable",
        ) from problem
