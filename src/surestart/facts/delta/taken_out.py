"""Which commits have taken rows out of a table again, and for which of them only their files can tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from surestart.facts.delta import Commit
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import WRITING

_REPLACING = (
    "CREATE OR REPLACE TABLE",
    "CREATE OR REPLACE TABLE AS SELECT",
    "REPLACE TABLE",
    "REPLACE TABLE AS SELECT",
    # Over a table that exists: what it held before is not in it any more, and some of it may be in the copy.
    "CLONE",
)


_KNOWN = {*_REPLACING, *WRITING, "RESTORE", "TRUNCATE", "OPTIMIZE", "CREATE TABLE", "SET TBLPROPERTIES"}


_MARKS = re.compile(r"[\s()\[\]\"]")


def versions_that_stand(commits: Sequence[Commit]) -> set[int]:
    """The versions that made the table what it is: all but those that a RESTORE went back behind."""
    found: set[int] = set()
    below: float = float("inf")
    for commit in reversed(commits):
        if commit.version > below:
            continue
        found.add(commit.version)
        version = kept_version(commit) if commit.operation == "RESTORE" else None
        # Below one that was restored by time nothing is skipped: it says no version.
        below = commit.version if version in (None, -1) else version
    return found


def taken_out(commits: Sequence[Commit]) -> set[int]:
    """The versions whose rows a RESTORE has taken out of the table."""
    gone = {commit.version for commit in commits} - versions_that_stand(commits)
    for commit in commits:
        if commit.operation == "RESTORE" and kept_version(commit) == -1:
            gone |= {one.version for one in commits if one.version < commit.version}
    return gone


def needs_its_files(commit: Commit) -> bool:
    """Whether only its file actions tell whether it took rows away: the operation is unknown to surestart, or a RESTORE
    that says a time and no version."""
    by_time = commit.operation == "RESTORE" and integer(commit.parameters.get("version")) is None
    return by_time or commit.operation not in _KNOWN


def kept_version(commit: Commit) -> int | None:
    """The version whose rows a commit kept: -1 when it emptied the table, None when it took nothing away at large."""
    if commit.operation == "RESTORE":
        version = integer(commit.parameters.get("version"))
        # Restored by timestamp: which version that was, the commit does not say. One that removed no file took no row.
        return version if version is not None else None if _removed(commit) == 0 else -1
    if commit.operation in _REPLACING or commit.operation == "TRUNCATE":
        return -1
    if commit.operation == "DELETE" and _is_always_true(commit.parameters.get("predicate", "")):
        return -1
    if commit.operation == "WRITE" and commit.parameters.get("mode") == "Overwrite":
        return None if replaces_a_part(commit) else -1
    return -1 if needs_its_files(commit) and _only_removes(commit) else None


def replaces_a_part(commit: Commit) -> bool:
    """replaceWhere, dynamic partitions, REPLACE USING and REPLACE ON leave other rows alone."""
    said = commit.parameters
    return (
        not _is_always_true(said.get("predicate", ""))
        or said.get("isDynamicPartitionOverwrite", "") == "true"
        or bool(said.get("replaceUsingCols") or said.get("replaceOnCond"))
    )


def _is_always_true(predicate: str) -> bool:
    """None at all, `true`, or the `1 = 1` that people put where a condition has to be."""
    plain = _MARKS.sub("", predicate).lower()
    left, equals, right = plain.partition("=")
    return plain in ("", "true", "'true'") or (bool(equals) and left == right)


def _removed(commit: Commit) -> int | None:
    return commit.changes.removed if commit.changes is not None else integer(commit.metrics.get("numRemovedFiles"))


def _only_removes(commit: Commit) -> bool:
    added = commit.changes.added if commit.changes is not None else integer(commit.metrics.get("numAddedFiles"))
    return bool(_removed(commit)) and not added
