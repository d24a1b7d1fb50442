"""What undos and rewinds have taken back from a table: a stream that stands before that passes over all of it.

    before        the table as the undo has put it back
    before + 1 …  the remedy's removal, and what the stages wrote while it stood
    version       the RESTORE: the content of `before` again

It follows at each start from the journal, the table's log and the position of the checkpoint, whichever remedy came
last: Spark reads the commits one by one from where the checkpoint stands, stops at the first that removes a file, and
would read what was written in between.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from surestart.environment import Environment, Table
from surestart.errors import CannotTell, Refused
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import Commit, history_evidence, read_history
from surestart.facts.delta.active_files import read_added_files
from surestart.facts.delta.commit_notes import REWIND, is_restored, step_parts
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.evidence.session_evidence import with_changes
from surestart.history.describe_run import plan_command
from surestart.journal.commit_once import PassOverNote
from surestart.journal.journal import DONE, UNDONE, WITHDRAWN, Journal, JournalEntry
from surestart.journal.protocol import changes_content, kind_of
from surestart.library_types import SparkSession
from surestart.typed import surestart

SKIP, EXCLUDE = "skipChangeCommits", "excludeRegex"
_COMMITS = 1_000_000


@dataclass(frozen=True)
class TakenBack:
    """passed: the streams that have begun to pass over it."""

    digest: str
    step: str
    before: int
    version: int
    passed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PassedOver:
    """taken_back: in the order of the table's versions.
    files: what was added in between, by name."""

    taken_back: tuple[TakenBack, ...] = ()
    files: tuple[str, ...] = ()

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        """The options for the reader, which then gives only rows that no undo has taken back."""
        if not self.taken_back:
            return dict(given)
        found = {**given, SKIP: "true"}
        if self.files:
            # Before a file's name Delta has the folders of its partition.
            ours = "^(?:.*/)?(?:" + "|".join(re.escape(name) for name in self.files) + ")$"
            found[EXCLUDE] = f"(?:{given[EXCLUDE]})|(?:{ours})" if given.get(EXCLUDE) else ours
        return found


@dataclass(frozen=True)
class InputStand:
    """Where a stage stands in its input.

    first: the version whose commit Spark looks at first when it starts.
    reached: everything before that version is planned or done.
    streams: by what this one is known, the first of them from here on; none where it cannot be told how far it has
        come."""

    first: int
    reached: int
    streams: tuple[str, ...] = field(default=(), compare=False)


def read_stand(checkpoint: str, begins_at: int | None, begin: str = "") -> InputStand | None:
    """None: the stage begins with what the table holds. begins_at: its startingVersion. begin: what says so, by which
    a stream without an identity is known.

    Spark asks the source at each start for the newest batch once more, also when it is committed
    (MicroBatchExecution.populateStartOffsets), so that the commits of that batch have to be passed again."""
    found = read_checkpoint(checkpoint, entries=2)
    newest = found.latest_planned
    streams = tuple(one for one in (found.query_id, begin) if one)
    if newest is None:
        return None if begins_at is None else InputStand(begins_at, begins_at, streams)
    reached = _next_version(found.offsets.get(newest))
    if newest == 0:
        # Its snapshot is taken anew; behind that stands what it has reached.
        first: int | None = reached if begins_at is None else begins_at
    else:
        first = _next_version(found.offsets.get(newest - 1), whole=False)
    if first is None or reached is None:
        # Spark will not start from there either, and until somebody has looked nothing counts as passed.
        return InputStand(first or 0, reached or 0)
    return InputStand(first, reached, streams)


def _next_version(entry: object, whole: bool = True) -> int | None:
    """Of the position of a batch; whole: a version of which some files are read counts as reached. None where it cannot
    be read."""
    positions = [source.position for source in entry.sources] if isinstance(entry, OffsetLogEntry) else []
    if len(positions) != 1 or not isinstance(positions[0], DeltaPosition):
        return None
    position = positions[0]
    begun = position.initial_snapshot or (whole and position.index >= 0)
    return position.version + 1 if begun else position.version


def find_passed_over(
    spark: SparkSession | None,
    environment: Environment,
    journals: Iterable[Journal],
    stage: str,
    table: Table,
    options: Mapping[str, str],
    stand: InputStand | None,
) -> PassedOver:
    """For a stage that reads the table by these options. Raises Refused where it would pass over something else with
    it, or has read what was taken back."""
    known = read_taken_back(journals, table.name)
    if stand is None or all(one.version < stand.first for one in known):
        return PassedOver()
    commits = read_commits(spark, table, stand.first)
    ahead = _ahead(known, commits, stand.first)
    for back in ahead:
        if has_read(stand, back):
            raise _inside(environment, stage, table, back, stand.reached)
    strange = find_strange(commits, ahead)
    if ahead and strange is not None and options.get(SKIP, "").lower() != "true":
        raise _changed(environment, stage, table, strange)
    files = [name for back in ahead for name in _added(spark, table, back, commits)]
    return PassedOver(ahead, tuple(dict.fromkeys(files)))


def has_read(stand: InputStand, back: TakenBack) -> bool:
    """The stage has read some of it, or may have: it stands among it, and nobody has noted that it passes over it."""
    return _is_among(stand, back) and not back.passed.intersection(stand.streams)


def find_unnoted(stand: InputStand | None, ahead: Iterable[TakenBack]) -> tuple[PassOverNote, ...]:
    """What has to be noted for a stream that stands before them and begins to pass over them."""
    if stand is None or not stand.streams:
        return ()
    return tuple(
        PassOverNote(one.digest, one.step, stand.streams[0])
        for one in ahead
        if stand.reached <= one.before + 1 and not one.passed.intersection(stand.streams)
    )


def _is_among(stand: InputStand, back: TakenBack) -> bool:
    return any(back.before + 1 < place <= back.version for place in (stand.first, stand.reached))


def find_strange(commits: Iterable[Commit], known: Sequence[TakenBack]) -> Commit | None:
    """The first commit that removes or rewrites rows and was not taken back: a stream stops there."""
    return next((one for one in commits if _removes(one) and not any(_within(one, back) for back in known)), None)


def read_taken_back(journals: Iterable[Journal], table: str) -> tuple[TakenBack, ...]:
    """What the journal says was taken back from the table: by undos of remedies that had changed it, and by rewinds
    that stand."""
    found = []
    for journal in journals:
        for entry in journal.entries:
            name = _taken_back_by(journal, entry, table)
            version, before = entry.facts.get("version"), entry.facts.get("restored")
            if name and type(version) is type(before) is int:
                passed = frozenset(one.stream for one in journal.passed if one.step == name)
                found.append(TakenBack(entry.digest, name, before, version, passed))
    return tuple(sorted(found, key=lambda one: one.version))


def _taken_back_by(journal: Journal, entry: JournalEntry, table: str) -> str:
    """The name of the RESTORE in the table's log; "" where the entry is of none."""
    kind, name = step_parts(entry.step)
    if name != table or not changes_content(kind):
        return ""
    if entry.state == UNDONE:
        return entry.step
    stands = entry.state == DONE and journal.state != WITHDRAWN and entry.step not in journal.undone
    return REWIND + entry.step if stands and kind_of(kind).restores else ""


def _ahead(known: Iterable[TakenBack], commits: Sequence[Commit], first: int) -> tuple[TakenBack, ...]:
    """What was taken back and the stream has not passed yet. The table's own log has to say so too: another table of
    the same name has other commits under these numbers."""
    return tuple(
        one
        for one in known
        if one.version >= first and is_restored(commits, one.digest, one.step, one.before, one.version)
    )


def read_commits(spark: SparkSession | None, table: Table, first: int) -> tuple[Commit, ...]:
    """The commits of the table from that version on, with what each has removed."""
    if table.path:
        try:
            return read_history(table.path, since=first, limit=_COMMITS, with_files=True)
        except NoDeltaLog:
            return ()
    if spark is None:
        raise CannotTell(
            f"{table.qualified} is in a catalog and no session was given",
            meaning="What undos have taken back from it is known only to the catalog.",
            next=surestart("status", note="on the cluster, or through Databricks Connect"),
            code="TableOutOfReach",
        )
    history = spark.sql(f"DESCRIBE HISTORY {table.sql}").where(f"version >= {int(first)}")
    return tuple(with_changes(one) for one in history_evidence(history.collect()).commits)


def _removes(commit: Commit) -> bool:
    """Whether it removes rows, or may: where the history of a catalog's table does not say, it counts as no append."""
    return commit.changes is None or commit.changes.removed > 0


def _within(commit: Commit, back: TakenBack) -> bool:
    return back.before < commit.version <= back.version


def _added(spark: SparkSession | None, table: Table, back: TakenBack, commits: Sequence[Commit]) -> list[str]:
    """By the table's own log; of a catalog's table, what its versions in between held and the one before did not.

    Not of commits that are passed over as changes: the undo of another remedy in between brings files back that the
    stream may have to read, where they were added first."""
    within = [one for one in commits if _within(one, back)]
    if table.path:
        return list(read_added_files(table.path, [one.version for one in within if not _removes(one)]))
    assert spark is not None
    looked = [one.version - 1 for one in within if _may_remove_files(one)]
    held = {name for version in looked if version > back.before for name in _files_at(spark, table, version)}
    return sorted(held - (set(_files_at(spark, table, back.before)) if back.before >= 0 else set()))


def _may_remove_files(commit: Commit) -> bool:
    """Whether it may remove files: then a later version may no longer hold what was added in between. An OPTIMIZE does
    that."""
    return commit.changes is None or commit.changes.removed > 0 or commit.changes.added == 0


def _files_at(spark: SparkSession, table: Table, version: int) -> list[str]:
    """The files of that version, from the log. No file is opened, so that a later VACUUM does not matter."""
    files = spark.sql(f"SELECT * FROM {table.sql} VERSION AS OF {int(version)}").inputFiles()
    return [name.rsplit("/", 1)[-1] for name in files]


def _inside(environment: Environment, stage: str, table: Table, back: TakenBack, first: int) -> Refused:
    return Refused(
        f"{stage} stands at version {first} of {table.name}, among what the undo of {back.digest[:12]} has taken back "
        f"(versions {back.before + 1} to {back.version})",
        meaning="It has read rows that the table no longer has, and its output holds them. Nothing was started.",
        next=plan_command(environment, "reset", stage),
        code="ReadWhatWasUndone",
    )


def _changed(environment: Environment, stage: str, table: Table, commit: Commit) -> Refused:
    when = datetime.datetime.fromtimestamp((commit.timestamp or 0) / 1000, datetime.UTC)
    return Refused(
        f"version {commit.version} of {table.name} ({commit.operation}, {when:%Y-%m-%d %H:%M} UTC) removes or rewrites "
        f"rows, belongs to no remedy, and {stage} has yet to read what is around it",
        meaning="To get past what an undo has taken back it would pass over this commit as well, rows that it adds "
        "included. Nothing was started.",
        next=plan_command(environment, "replay", stage, "--from-output"),
        do_not="set skipChangeCommits by hand: rows that the commit adds would never arrive.",
        code="InputChanged",
    )
