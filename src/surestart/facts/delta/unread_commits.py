"""What Spark makes of the commits of a source table that a stream of appended rows has not read yet.

    the commit has                          the next start                       unless
    adds only                               passes its rows on
    removals only                           DELTA_SOURCE_IGNORE_DELETE           ignoreDeletes, or as below
    removals and adds                       DELTA_SOURCE_TABLE_IGNORE_CHANGES    ignoreChanges, skipChangeCommits
    adds only, by RESTORE                   passes its rows on, again            they were never read
    only files with dataChange = false      passes over it (OPTIMIZE, REORG)

Every commit is looked at by itself: one that a later RESTORE takes back is refused all the same. Each line was seen on
Spark 4.0 with Delta 4.4: tests/diagnosis/test_foresight.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surestart.facts.delta import Commit
from surestart.facts.delta.commit_notes import is_restored

_FEED = ("readchangefeed", "readchangedata")
_CHANGES_PASS = ("ignorechanges", "ignorefiledeletion", "skipchangecommits")
# As people write them.
PASSING = ("skipChangeCommits", "ignoreChanges", "ignoreDeletes", "readChangeFeed")


@dataclass(frozen=True)
class PassedCommits:
    """The commits behind `before` up to `last`: the undo of this remedy's step has taken them back.

    has_read: the stage stands among them, and nobody has noted that it passes over them."""

    before: int
    last: int
    digest: str
    step: str
    has_read: bool = False


@dataclass(frozen=True)
class TableReading:
    """How a stage reads its input table at its next start: the options that Spark gets, and what undos of remedies have
    taken back and is passed over."""

    options: tuple[tuple[str, str], ...] = ()
    passed: tuple[PassedCommits, ...] = ()

    def not_passed(self, commits: Sequence[Commit]) -> list[Commit]:
        """The commits that are not passed over. Another table of the same name has other commits under these
        numbers."""
        own = self._of_this_table(commits)
        return [one for one in commits if not any(back.before < one.version <= back.last for back in own)]

    def find_read(self, commits: Sequence[Commit]) -> PassedCommits | None:
        """The commits that were taken back and of which the stage has rows."""
        return next((one for one in self._of_this_table(commits) if one.has_read), None)

    def _of_this_table(self, commits: Sequence[Commit]) -> list[PassedCommits]:
        return [one for one in self.passed if is_restored(commits, one.digest, one.step, one.before, one.last)]

    @property
    def reads_feed(self) -> bool:
        """Whether it reads the change feed, which has an entry for each deleted and each rewritten row."""
        return any(self._is_set(name) for name in _FEED)

    @property
    def skips(self) -> bool:
        return self._is_set("skipchangecommits")

    @property
    def says_what_passes(self) -> bool:
        known = (*_FEED, *_CHANGES_PASS, "ignoredeletes")
        return any(name.lower() in known for name, _ in self.options)

    @property
    def passes_changes(self) -> bool:
        return any(self._is_set(name) for name in _CHANGES_PASS)

    @property
    def passes_deletes(self) -> bool:
        return self._is_set("ignoredeletes") or self.passes_changes

    @property
    def tracks_schema(self) -> bool:
        """Whether it tracks the schema: then it stops once at a changed one, notes it, and goes on after it."""
        return any(name.lower() in ("schematrackinglocation", "schemalocation") for name, _ in self.options)

    @property
    def begin(self) -> int | None:
        """The version at which a new checkpoint begins, where one is named."""
        named = next((value for name, value in self.options if name.lower() == "startingversion"), "")
        return int(named) if named.isdecimal() else None

    def _is_set(self, wanted: str) -> bool:
        return any(name.lower() == wanted and value.lower() == "true" for name, value in self.options)


@dataclass(frozen=True)
class UnreadCommits:
    """The commits that are no plain appends, each in one place, in the log's order."""

    rewritten: tuple[Commit, ...] = ()
    deleted: tuple[Commit, ...] = ()
    returned: tuple[Commit, ...] = ()
    unclear: tuple[Commit, ...] = ()


def sort_commits(commits: Sequence[Commit]) -> UnreadCommits:
    return UnreadCommits(
        tuple(one for one in commits if one.changes and one.changes.removed and one.changes.added),
        tuple(one for one in commits if one.changes and one.changes.removed and not one.changes.added),
        tuple(
            one
            for one in commits
            if one.operation == "RESTORE" and one.changes and one.changes.added and not one.changes.removed
        ),
        tuple(one for one in commits if one.changes is None),
    )
