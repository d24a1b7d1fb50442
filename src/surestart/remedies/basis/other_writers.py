"""Commits of a table that its stage has not made: whoever clears it removes their rows as well, and should know whose.

Whether such rows come again is counted by position (find_loss); this only names who wrote.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from surestart.facts.delta.commit import Commit
from surestart.facts.delta.commit_notes import RemedyNote, read_remedy_note
from surestart.facts.evidence.sink_evidence import query_id_of
from surestart.journal.commit_once import ALL_ROWS, read_newest_commits
from surestart.journal.protocol import SWAP
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.preconditions import LinkFacts

_SHOWN = 3
_WRITES = ("WRITE", "STREAMING UPDATE", "MERGE", "UPDATE", "COPY INTO", "CLONE", "CONVERT")


def name_other_writers(spark: SparkSession, facts: Sequence[LinkFacts]) -> list[str]:
    """One line for each table that somebody else has written to, among its newest commits."""
    lines = []
    for one in facts:
        for name, table in one.tables.items():
            commits = read_newest_commits(spark, table.table) if table.exists else ()
            strange = find_strange_commits(commits, one.link, one.checkpoint.query_id)
            if strange:
                lines.append(
                    f"{name}: {tell_strange(strange, one.link.query)}. What they wrote is removed as well; "
                    "rows of it that do not come again count as lost."
                )
    return lines


def find_strange_commits(commits: Sequence[Commit], link: Link, query_id: str | None) -> list[Commit]:
    """Those that add rows and are not the stage's own. query_id: that of its checkpoint; a stream that somebody else's
    code starts writes no mark of ours, and is known by this alone."""
    own = own_merges(commits, link.query) if link.keyed else frozenset()
    strange = [commit for commit in _strange(commits, link.query) if commit.version not in own]
    return [commit for commit in strange if not query_id or query_id not in _ids(commit)]


def _ids(commit: Commit) -> set[str]:
    """Of the queries that the commit names: its own, and of its transactions those before a step."""
    return {commit.query_id, *(query_id_of(app_id) for app_id, _ in commit.transactions)}


def tell_strange(strange: Sequence[Commit], query: str) -> str:
    shown = ", ".join(_tell(commit) for commit in strange[-_SHOWN:])
    more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
    count = f"{len(strange)} commit{'' if len(strange) == 1 else 's'}"
    return f"{count} of another writer than {query} ({shown}{more})"


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
    """Whether the commit leaves nothing of what was in the table before it. A clearing may write again what it
    keeps."""
    if commit.operation == "DELETE":
        return commit.parameters.get("predicate", "[]") in ("[]", '["true"]')
    whole = commit.parameters.get("mode") == "Overwrite" and commit.parameters.get("predicate", "") in ("", ALL_ROWS)
    return whole and ((note.kind == SWAP and not note.undoes) or bool(commit.metrics and not commit.output_rows))


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
