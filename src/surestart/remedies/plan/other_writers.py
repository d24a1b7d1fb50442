"""Commits of a table that its stage has not made: whoever clears it removes their rows as well, and should know whose.

Whether such rows come again is counted by position (source_reach); this only names who wrote.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from surestart.facts.delta.commit import Commit
from surestart.facts.delta.remedy_note import RemedyNote, read_remedy_note
from surestart.journal.commit_once import ALL_ROWS, read_newest
from surestart.remedies.plan.world import LinkFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 3
_WRITES = ("WRITE", "STREAMING UPDATE", "MERGE", "UPDATE", "COPY INTO", "CLONE", "CONVERT")


def name_other_writers(spark: SparkSession, facts: Sequence[LinkFacts]) -> list[str]:
    """One line for each table that somebody else has written to, among its newest commits."""
    lines = []
    for one in facts:
        for name, table in one.tables.items():
            commits = read_newest(spark, table.table) if table.exists else ()
            own = own_merges(commits, one.link.query) if one.link.keyed else frozenset()
            strange = [commit for commit in _strange(commits, one.link.query) if commit.version not in own]
            if not strange:
                continue
            shown = ", ".join(_tell(commit) for commit in strange[-_SHOWN:])
            more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
            count = f"{len(strange)} commit{'' if len(strange) == 1 else 's'}"
            lines.append(
                f"{name}: {count} of another writer than {one.link.query} ({shown}{more}). What they wrote goes as "
                "well; what of it does not come again counts as lost."
            )
    return lines


def _strange(commits: Sequence[Commit], query: str) -> list[Commit]:
    found: list[Commit] = []
    for commit in commits:
        note = read_remedy_note(commit.user_metadata)
        if note is not None:
            found = [] if _leaves_nothing(commit, note) else found
        elif (commit.mark is None or commit.mark.query != query) and _adds_rows(commit):
            found.append(commit)
    return found


def _leaves_nothing(commit: Commit, note: RemedyNote) -> bool:
    """Of what was in the table before it. What a clearing keeps of a table it may have written again."""
    if commit.operation == "DELETE":
        return commit.parameters.get("predicate", "[]") in ("[]", '["true"]')
    whole = commit.parameters.get("mode") == "Overwrite" and commit.parameters.get("predicate", "") in ("", ALL_ROWS)
    return whole and (note.step.startswith("swap:") or bool(commit.metrics and not commit.output_rows))


def own_merges(commits: Sequence[Commit], query: str) -> frozenset[int]:
    """The versions of this query's MERGEs that bear no mark (sinks.delta.merge_then_pair): each that a mark names,
    and those just before it, or at the end, which had no time for theirs."""
    named = {commit.rows_at for commit in commits if commit.mark is not None and commit.mark.query == query}
    named &= {commit.version for commit in commits if commit.mark is None}
    own: set[int] = set()
    torn = {commits[-1].version} if named and commits else set()
    for commit in reversed(commits):
        if commit.operation == "MERGE" and commit.mark is None and commit.version in named | torn:
            own.add(commit.version)
            torn = {commit.version - 1}
    return frozenset(own)


def _adds_rows(commit: Commit) -> bool:
    return commit.operation in _WRITES or commit.operation.endswith("AS SELECT")


def _tell(commit: Commit) -> str:
    when = datetime.datetime.fromtimestamp((commit.timestamp or 0) / 1000, datetime.UTC)
    rows = "" if commit.output_rows is None else f", {commit.output_rows:,} rows"
    by = f" of query {commit.query_id}" if commit.query_id else ""
    return f"{commit.operation}{by} at version {commit.version}, {when:%Y-%m-%d %H:%M} UTC{rows}"
