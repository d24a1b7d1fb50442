"""Rows that a query wrote and that were taken out of the table again, while the checkpoint still counts them as done.

    v3 batch 2   v4 batch 3   v5 batch 4   v6 RESTORE to v3     ->  batches 3 and 4 are in neither place

RESTORE keeps the transactions (RestoreTableCommand commits file actions only), so the table goes on saying that it
holds those batches, and a replay of them is dropped. What a RESTORE went back behind is undone, another RESTORE too:

    v3 batch 2   v4 batch 3   v5 RESTORE to v3   v6 RESTORE to v4     ->  batch 3 is in its place
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surestart.declaration import SinkDeclaration
from surestart.deltalog import Commit
from surestart.deltalog.actions import integer
from surestart.diagnosis.batch_times import WRITING
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.finding import Finding, Severity
from surestart.diagnosis.sink_evidence import SinkEvidence, app_ids, batch_of, is_query_id

_REPLACING = (
    "CREATE OR REPLACE TABLE",
    "CREATE OR REPLACE TABLE AS SELECT",
    "REPLACE TABLE",
    "REPLACE TABLE AS SELECT",
    # Over a table that exists: what it held before is not in it any more, and some of it may be in the copy.
    "CLONE",
)
_KNOWN = {*_REPLACING, *WRITING, "RESTORE", "TRUNCATE", "OPTIMIZE", "CREATE TABLE", "SET TBLPROPERTIES"}
_NO_PREDICATE = ("", "[]", '["true"]', "[\"'true'\"]")


def find_lost_output(
    sink: SinkDeclaration,
    evidence: SinkEvidence,
    app_id: str,
    commands: Commands,
    owned: Mapping[int, int] | None = None,
) -> tuple[Finding, ...]:
    """A finding for the newest commit that took this writer's rows away, if there is one. owned: version -> batch,
    where a writer is known by something else than an application id."""
    of = (
        {commit.rows_at: batch_of(commit, app_id) for commit in evidence.commits if app_id in app_ids(commit)}
        if owned is None
        else owned
    )
    lineage = standing(evidence.commits)
    for index in range(len(evidence.commits) - 1, -1, -1):
        commit = evidence.commits[index]
        kept_up_to = _kept_up_to(commit)
        # A batch that overwrites the table has taken out nothing but what it replaces.
        if kept_up_to is None or commit.version in of or commit.version not in lineage:
            continue
        before = [item for item in evidence.commits[:index] if item.version > kept_up_to and item.version in of]
        batches = sorted({batch for item in before if (batch := of[item.version]) is not None})
        if not batches:
            continue
        later = evidence.commits[index + 1 :]
        # Once a batch, a backfill or a replay was written on top, the harm is done or repaired: no longer a reason to
        # refuse the next start, still a reason to look.
        settled = any(item.version in of for item in later) or any(
            item.mark and not is_query_id(item.mark.query_id) for item in later
        )
        return (_finding(sink, commit, kept_up_to, batches, settled, commands),)
    return ()


def standing(commits: Sequence[Commit]) -> set[int]:
    """The versions that made the table what it is: all but those that a RESTORE went back behind."""
    found: set[int] = set()
    below: float = float("inf")
    for commit in reversed(commits):
        if commit.version > below:
            continue
        found.add(commit.version)
        version = _kept_up_to(commit) if commit.operation == "RESTORE" else None
        # Below one that was restored by time nothing is skipped: it says no version.
        below = commit.version if version in (None, -1) else version
    return found


def taken_out(commits: Sequence[Commit]) -> set[int]:
    """The versions whose rows a RESTORE has taken out of the table."""
    gone = {commit.version for commit in commits} - standing(commits)
    for commit in commits:
        if commit.operation == "RESTORE" and _kept_up_to(commit) == -1:
            gone |= {one.version for one in commits if one.version < commit.version}
    return gone


def needs_its_files(commit: Commit) -> bool:
    """Its operation is not known here: whether it took rows away only its file actions tell."""
    return commit.operation not in _KNOWN


def _kept_up_to(commit: Commit) -> int | None:
    """The version whose rows a commit kept: -1 when it emptied the table, None when it took nothing away at large."""
    if commit.operation == "RESTORE":
        version = integer(commit.parameters.get("version"))
        # Restored by timestamp: which version that was, the commit does not say.
        return -1 if version is None else version
    if commit.operation in _REPLACING or commit.operation == "TRUNCATE":
        return -1
    if commit.operation == "DELETE" and commit.parameters.get("predicate", "").replace(" ", "") in _NO_PREDICATE:
        return -1
    if commit.operation == "WRITE" and commit.parameters.get("mode") == "Overwrite":
        return None if _replaces_a_part(commit) else -1
    return -1 if needs_its_files(commit) and _only_removes(commit) else None


def _replaces_a_part(commit: Commit) -> bool:
    """replaceWhere, dynamic partitions, REPLACE USING and REPLACE ON leave other rows alone."""
    said = commit.parameters
    return (
        said.get("predicate", "") not in ("", "true")
        or said.get("isDynamicPartitionOverwrite", "") == "true"
        or bool(said.get("replaceUsingCols") or said.get("replaceOnCond"))
    )


def _only_removes(commit: Commit) -> bool:
    if commit.changes is not None:
        return commit.changes.removed > 0 and commit.changes.added == 0
    removed, added = (integer(commit.metrics.get(name)) for name in ("numRemovedFiles", "numAddedFiles"))
    return bool(removed) and not added


def _finding(
    sink: SinkDeclaration, commit: Commit, kept: int, batches: list[int], settled: bool, commands: Commands
) -> Finding:
    restored, unknown = commit.operation == "RESTORE", needs_its_files(commit)
    what = f"RESTORE to version {kept}" if restored and kept >= 0 else commit.operation or "no operation is named"
    taken = "took files away, perhaps those of" if unknown else "took out"
    span = f"{batches[0]}" if len(batches) == 1 else f"{batches[0]}..{batches[-1]}"
    return Finding(
        code="SINK_RESTORED" if restored else "SINK_CLEARED",
        severity=Severity.ATTENTION if settled else Severity.CANNOT_TELL if unknown else Severity.UNSAFE,
        evidence=f"{sink.target}: version {commit.version} ({what}) {taken} {len(batches)} batches of this query, "
        f"{span}; "
        "the checkpoint counts them as done",
        meaning=("Where it did, their" if unknown else "Their")
        + " rows are in the table no more and the next start does not read them again"
        + (", nor would a replay be let in: the table still knows those batches." if restored else "."),
        next=commands.plan("replay"),
        do_not="delete checkpoint files to read the rows again: the table drops batches it has seen, new rows in "
        "them too.",
    )
