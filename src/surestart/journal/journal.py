"""What has been done of each remedy, in the Delta table `surestart_remedies`: one small commit per step.

    begun ─> done <step> ─> … ─> released ─> done run:<stage> ─> … ─> finished
    undoing ─> undone <step> ─> … ─> withdrawn

All states and moves are in `surestart.journal.protocol`.

An entry that says a step is done also names the one that comes next, so each step is journaled before and after. The
commit's note repeats the entry without the plan's text: the start gate and the doctor read it without a JVM.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused
from surestart.facts.delta import read_history
from surestart.facts.delta.commit_notes import step_parts
from surestart.facts.delta.listing import NoDeltaLog
from surestart.history.describe_run import named
from surestart.journal.commit_once import PassOverNote, read_pass_over_note, write_journal_row
from surestart.journal.protocol import BEGUN as BEGUN
from surestart.journal.protocol import DONE as DONE
from surestart.journal.protocol import FILLING as FILLING
from surestart.journal.protocol import FINISHED as FINISHED
from surestart.journal.protocol import JOBS, UNPAUSE, RemedyKind, changes_content, changes_database, remedy_kind
from surestart.journal.protocol import RELEASED as RELEASED
from surestart.journal.protocol import STATES as STATES
from surestart.journal.protocol import UNDOING as UNDOING
from surestart.journal.protocol import UNDONE as UNDONE
from surestart.journal.protocol import WITHDRAWN as WITHDRAWN
from surestart.library_types import SparkSession
from surestart.typed import surestart
from surestart.words.spark_errors import NO_TABLE, is_condition

TABLE = "surestart_remedies"
NOTE = "surestart_remedy"
OF_ANOTHER = "JournalOfAnother"
# The steps that write down how the jobs of the stages are set, and that set them so again.
_COMMITS = 1_000_000


@dataclass(frozen=True)
class JournalEntry:
    """facts: what a step found or left behind that a later step, or its undo, needs."""

    digest: str
    number: int
    state: str
    step: str = ""
    next: str = ""
    remedy: str = ""
    stage: str = ""
    queries: tuple[str, ...] = ()
    at: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> RemedyKind:
        return remedy_kind(self.remedy)


@dataclass(frozen=True)
class Journal:
    """All entries of one digest, in their order.

    passed: the streams that have passed over what its undo has taken back."""

    entries: tuple[JournalEntry, ...]
    passed: tuple[PassOverNote, ...] = ()

    @property
    def digest(self) -> str:
        return self.entries[0].digest

    @property
    def first(self) -> JournalEntry:
        return self.entries[0]

    @property
    def last(self) -> JournalEntry:
        return self.entries[-1]

    @property
    def state(self) -> str:
        """Where it stands: one of `STATES`."""
        return self.states[-1]

    @property
    def states(self) -> tuple[str, ...]:
        """Where it has stood, one after the other."""
        return tuple(entry.state for entry in self.entries if entry.state not in (DONE, UNDONE))

    @property
    def former_state(self) -> str:
        """Where it stood before; "" where it has just begun."""
        return self.states[-2] if len(self.states) > 1 else ""

    @property
    def verb(self) -> str:
        """The command that brings it to its end: apply or undo."""
        return STATES[self.state].verb

    @property
    def is_open(self) -> bool:
        """Whether it is unfinished and no stage that it touches may start. A backfill stops nobody."""
        return STATES[self.state].stops_stages and not self.first.kind.adds_only

    @property
    def is_unfinished(self) -> bool:
        """No other remedy may begin over the same queries."""
        return STATES[self.state].alone

    @property
    def goes_on_beside(self) -> bool:
        """Begun and not ended, and its stages may run meanwhile: tables that are filled beside, a backfill."""
        return self.is_unfinished and not self.is_open

    @property
    def done(self) -> frozenset[str]:
        return frozenset(entry.step for entry in self.entries if entry.state == DONE)

    @property
    def undone(self) -> frozenset[str]:
        """The steps that were taken back since the undo began. An earlier undo that was given up does not count."""
        begun = max((index for index, entry in enumerate(self.entries) if entry.state == UNDOING), default=0)
        return frozenset(entry.step for entry in self.entries[begun:] if entry.state == UNDONE)

    @property
    def paused_jobs(self) -> Mapping[str, Any] | None:
        """How the jobs were set before this remedy, or its undo, paused them; None once they were started again."""
        found = None
        for entry in self.entries:
            if entry.state in (DONE, UNDONE) and entry.step in (JOBS, UNPAUSE):
                found = entry.facts if entry.step == JOBS else None
        return found

    @property
    def leaves_jobs_paused(self) -> bool:
        """Its stages may start, and the jobs that it has paused were not set as they were. A remedy that has retired
        its query means to leave them so."""
        retired = self.first.kind.ends_query and self.state != WITHDRAWN
        return not retired and self.state not in (BEGUN, UNDOING) and self.paused_jobs is not None

    def facts(self, step: str) -> Mapping[str, Any]:
        """What the step noted when it was done; empty if it was not done."""
        return self._facts(DONE, step)

    def undo_facts(self, step: str) -> Mapping[str, Any]:
        return self._facts(UNDONE, step)

    def _facts(self, state: str, step: str) -> Mapping[str, Any]:
        found = [entry.facts for entry in self.entries if entry.state == state and entry.step == step]
        return found[-1] if found else {}


def append_entry(spark: SparkSession, environment: Environment, entry: JournalEntry, plan: str = "") -> None:
    """The entry is in the journal, once: a second writer of the same number is dropped by Delta."""
    body = asdict(entry)
    values = {
        "digest": entry.digest,
        "number": entry.number,
        "state": entry.state,
        "step": entry.step,
        "at": entry.at,
        "entry": json.dumps(body, sort_keys=True),
        "plan": plan,
    }
    write_journal_row(spark, environment.table(TABLE), values, f"journal-{entry.digest}", entry.number, {NOTE: body})
    journal = next((one for one in read_journals(environment, spark) if one.digest == entry.digest), None)
    wanted = json.dumps(asdict(entry), sort_keys=True)
    if journal is None or all(json.dumps(asdict(one), sort_keys=True) != wanted for one in journal.entries):
        # Delta has dropped it without a word: another process of the same plan has written this number.
        raise Refused(
            f"entry {entry.number} of the remedy {entry.digest[:12]} is another process's",
            meaning="Somebody else is applying or undoing the same plan at this moment. This call stops here.",
            next=surestart("apply", entry.digest[:12], place=named(environment), note="once the other has ended"),
            code=OF_ANOTHER,
        )


def now() -> int:
    return int(time.time() * 1000)


def read_journals(environment: Environment, spark: SparkSession | None = None) -> tuple[Journal, ...]:
    """Every remedy of the environment, in the order in which they began. Raises CannotTell where there is a journal
    that cannot be read."""
    table = environment.table(TABLE)
    if table.path:
        try:
            notes: list[str] = [
                commit.user_metadata for commit in read_history(table.path, limit=_COMMITS, from_zero=True)
            ]
        except NoDeltaLog:
            return ()
    else:
        notes = _notes_by_session(spark, table.sql)
    return _collect(
        [entry for note in notes if (entry := _read_entry(note)) is not None],
        [passing for note in notes if (passing := read_pass_over_note(note)) is not None],
    )


def read_plan_text(spark: SparkSession, environment: Environment, digest: str) -> str:
    """The plan as it was when it began; "" if no remedy of that digest ever did."""
    from surestart.spark.delta_table import read_columns, read_table

    table = environment.table(TABLE)
    if read_columns(spark, table) is None:
        return ""
    first = f"state IN ('{FILLING}', '{BEGUN}') AND plan <> ''"
    rows = read_table(spark, table).where(first).select("digest", "plan").collect()
    return next((str(row["plan"]) for row in rows if row["digest"] == digest), "")


def find_open(journals: Iterable[Journal], query: str) -> Journal | None:
    """The unfinished remedy that keeps this query from starting."""
    return next((journal for journal in journals if journal.is_open and query in journal.first.queries), None)


def settled_tables(environment: Environment, journals: Iterable[Journal], stage: str) -> dict[str, int]:
    """Table label -> the version at which the newest remedy that stands left it, if it said how this stage begins. One
    that was undone says nothing: its undo only put back what was there. A database's table -> when that was."""
    for journal in reversed(tuple(journals)):
        if journal.state in (UNDOING, WITHDRAWN) or not any(
            stage in entry.facts.get("starts", {}) for entry in journal.entries
        ):
            continue
        found = {}
        for step in journal.done:
            kind, name = step_parts(step)
            version = journal.facts(step).get("after")
            if type(version) is int and changes_content(kind):
                found[environment.table(name).label] = version
            elif type(version) is int and changes_database(kind):
                found[name] = version
        return found
    return {}


def _collect(entries: Iterable[JournalEntry], passings: Iterable[PassOverNote]) -> tuple[Journal, ...]:
    by_digest: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        by_digest.setdefault(entry.digest, []).append(entry)
    passed: dict[str, list[PassOverNote]] = {}
    for passing in passings:
        passed.setdefault(passing.digest, []).append(passing)
    return tuple(
        Journal(tuple(sorted(found, key=lambda entry: entry.number)), tuple(passed.get(digest, ())))
        for digest, found in by_digest.items()
    )


def _read_entry(note: str) -> JournalEntry | None:
    if f'"{NOTE}"' not in note:
        return None
    try:
        values = json.loads(note)[NOTE]
        return JournalEntry(**{**values, "queries": tuple(values["queries"])})
    except (ValueError, KeyError, TypeError) as problem:
        raise CannotTell(
            "the journal of remedies has an entry that this version cannot read",
            meaning="Whether a remedy is half-way cannot be told, so nothing is started.",
            next=surestart("--version", note="and use the version that wrote it, or a newer one"),
            code="JournalUnreadable",
        ) from problem


def _notes_by_session(spark: SparkSession | None, sql: str) -> list[str]:
    if spark is None:
        raise CannotTell(
            f"the journal of remedies {sql} is in a catalog and no session was given",
            meaning="Whether a remedy is half-way is known only to the catalog.",
            next=surestart("history", note="on the cluster, or through Databricks Connect"),
            code="JournalOutOfReach",
        )
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"DESCRIBE HISTORY {sql} LIMIT {_COMMITS}").collect()
    except AnalysisException as problem:
        if is_condition(problem, NO_TABLE):
            return []
        raise
    # Delta gives the newest first; remedies are told in the order in which they began.
    return [str(row["userMetadata"] or "") for row in sorted(rows, key=lambda row: int(row["version"]))]
