"""What a remedy says of its own commits, and which RESTOREs of a table were made by undos.

    DELETE, overwrite, append    {"surestart_remedy_step": {"digest": …, "step": …}} in the commit itself
    RESTORE                      a commit of no rows that matter right before it, with such a note and "restores"

RESTORE takes a note from a session setting only, which serverless compute refuses. So the first RESTORE behind such a
mark, to the version that the mark names, is the undo's. Former versions of surestart wrote the note into the RESTORE.

Which commits of one batch a table's history names, and how many rows they wrote: by the note that each
carries, or by what Delta's own streaming sink says of itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surestart.environment import Table
from surestart.facts.delta import history_evidence
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import Commit, read_mark
from surestart.library_types import DataFrame, SparkSession

NOTE = "surestart_remedy_step"
MARKER, UNDO = "marker:", "undo:"
# Before the name of a step whose own work is a RESTORE, so that its undo has another name.
REWIND = "rewind:"


def step_id(kind: str, about: str = "") -> str:
    """What plan, journal and a table's log call a step: its kind, and the stage or the table that it is about where a
    plan may have several of that kind."""
    return f"{kind}:{about}" if about else kind


def step_parts(step: str) -> tuple[str, str]:
    """The kind of a step, and what it is about, by its id."""
    kind, _, about = step.partition(":")
    return kind, about


@dataclass(frozen=True)
class RemedyNote:
    """restores: the version that the RESTORE behind this commit gives back."""

    digest: str
    step: str
    restores: int | None = None

    @property
    def undoes(self) -> bool:
        return self.step.startswith(UNDO)

    @property
    def kind(self) -> str:
        """Of its step, without the stage: that of `surestart.journal.protocol`."""
        return step_parts(self.step.removeprefix(UNDO))[0]

    def is_of(self, digest: str, undone: str) -> bool:
        """Whether it is the undo of this step."""
        return (self.digest, self.step) == (digest, UNDO + undone)


def note_of(digest: str, step: str, restores: int | None = None) -> str:
    more = {} if restores is None else {"restores": restores}
    return json.dumps({NOTE: {"digest": digest, "step": step, **more}})


def read_remedy_note(user_metadata: str) -> RemedyNote | None:
    """None for a commit that no remedy has made."""
    if f'"{NOTE}"' not in user_metadata or len(user_metadata) > 65_536:
        return None
    try:
        body = json.loads(user_metadata)[NOTE]
        return RemedyNote(str(body["digest"]), str(body["step"]), integer(body.get("restores")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def find_undos(commits: Iterable[Commit]) -> dict[int, RemedyNote]:
    """Each commit that put a table back, for the undo of a step or by a rewind: its version -> whose it is.
    commits: oldest first."""
    found: dict[int, RemedyNote] = {}
    awaited: RemedyNote | None = None
    for commit in commits:
        note = read_remedy_note(commit.user_metadata)
        if note is not None and note.undoes:
            found[commit.version], awaited = note, None
        elif note is not None and note.restores is not None:
            awaited = note
        elif awaited is not None and commit.operation == "RESTORE" and _version(commit) == awaited.restores:
            step = UNDO + awaited.step.removeprefix(MARKER)
            found[commit.version], awaited = RemedyNote(awaited.digest, step), None
    return found


def is_restored(commits: Sequence[Commit], digest: str, step: str, before: int, at: int) -> bool:
    """Whether the undo of this step has put the table back to version `before` by the commit `at`, as the journal says:
    another table of the same name has other commits under these numbers. commits: oldest first."""
    note = find_undos(commits).get(at)
    if note is not None:
        return note.is_of(digest, step)
    # A stream may stand between the mark and its RESTORE: then the mark is older than the commits that were read.
    cut = bool(commits) and commits[0].version > before + 1
    return cut and any(one.version == at and one.operation == "RESTORE" and _version(one) == before for one in commits)


def _version(commit: Commit) -> int | None:
    return integer(commit.parameters.get("version"))


# Delta's own streaming sink is a STREAMING UPDATE.
_ROWS_OF = {"WRITE": "numOutputRows", "STREAMING UPDATE": "numOutputRows", "MERGE": "numSourceRows"}
_log = logging.getLogger("surestart.facts.delta")


def read_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int) -> tuple[str, ...]:
    """The steps of this batch that the table has a commit of; "" is the first."""
    return _steps(spark.sql(f"DESCRIBE HISTORY {table.sql}"), query_id, batch_id)


def read_new_steps(spark: SparkSession, table: Table, query_id: str, batch_id: int, since: int) -> tuple[str, ...]:
    """Those of commits after version `since`, among the newest hundred: asked right after a write."""
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 100")
    return _steps(newest.where(f"version > {since}"), query_id, batch_id)


def newest_version(spark: SparkSession, table: Table) -> int:
    """The table's newest version."""
    return int(spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]["version"])


def read_noted_commits(spark: SparkSession, table: Table, limit: int | None = 100) -> tuple[Commit, ...]:
    """The table's newest commits, oldest first; None for every one that has a note."""
    history = spark.sql(f"DESCRIBE HISTORY {table.sql}{'' if limit is None else f' LIMIT {limit}'}")
    rows = history.where("userMetadata IS NOT NULL") if limit is None else history
    return history_evidence(rows.collect()).commits


def rows_of_tables(spark: SparkSession, tables: Sequence[Table], query_id: str, batch_id: int) -> int | None:
    """Rows that this batch brought, as the tables' histories say. None where nobody says: no table is named, one cannot
    be asked (with a log line), or a commit does not tell."""
    from pyspark.errors import PySparkException

    rows: list[int | None] = []
    for table in tables:
        try:
            rows.append(rows_of_batch(read_noted_commits(spark, table), query_id, batch_id))
        except PySparkException as problem:
            _log.warning("how many rows %s has of batch %s is not known: %s", table.label, batch_id, problem)
            rows.append(None)
    known = [number for number in rows if number is not None]
    return sum(known) if rows and len(known) == len(rows) else None


def rows_of_batch(commits: Iterable[Commit], query_id: str, batch_id: int) -> int | None:
    """Rows that the commits of this batch brought; None where one of them does not say."""
    rows = [rows_of(one) for one in commits if (one.query_id, one.batch_id) == (query_id, batch_id)]
    return None if None in rows else sum(number for number in rows if number is not None)


def has_batch(commits: Iterable[Commit], query_id: str, batch_id: int) -> bool:
    """Whether one of the commits is of this batch."""
    return any((one.query_id, one.batch_id) == (query_id, batch_id) for one in commits)


def rows_of(commit: Commit) -> int | None:
    """How many rows the batch gave to the commit. For a MERGE: all that came in, written or not. None: it does not
    say."""
    if commit.mark is not None and commit.mark.merged_rows is not None:
        return commit.mark.merged_rows
    return integer(commit.metrics.get(_ROWS_OF.get(commit.operation, "")))


def _steps(history: DataFrame, query_id: str, batch_id: int) -> tuple[str, ...]:
    notes = history.select("userMetadata").where("userMetadata IS NOT NULL").limit(1000).collect()
    marks = [read_mark(row[0]) for row in notes]
    return tuple(mark.step for mark in marks if mark and (mark.query_id, mark.batch_id) == (query_id, batch_id))
