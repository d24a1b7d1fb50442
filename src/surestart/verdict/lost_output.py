"""Rows that a query wrote and that were taken out of the table again, while the checkpoint still counts them as done.

    v3 batch 2   v4 batch 3   v5 batch 4   v6 RESTORE to v3     ->  batches 3 and 4 are in neither place

RESTORE keeps the transactions (RestoreTableCommand commits file actions only), so the table goes on saying that it
holds those batches, and a replay of them is dropped. What a RESTORE went back behind is undone, another RESTORE too:

    v3 batch 2   v4 batch 3   v5 RESTORE to v3   v6 RESTORE to v4     ->  batch 3 is in its place
"""

from __future__ import annotations

from collections.abc import Mapping

from surestart.declaration import SinkDeclaration
from surestart.facts.delta import Commit
from surestart.facts.delta.taken_out import kept_version, needs_its_files, versions_that_stand
from surestart.facts.evidence.sink_evidence import SinkEvidence, app_ids, batch_of, is_query_id
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def find_lost_output(
    sink: SinkDeclaration,
    evidence: SinkEvidence,
    app_id: str,
    commands: Commands,
    owned: Mapping[int, int] | None = None,
    done: float = float("inf"),
) -> tuple[Finding, ...]:
    """A finding for the newest commit that took this writer's rows away, if there is one. owned: version -> batch,
    where a writer is known by something else than an application id. done: batches from there on are written again,
    so that their rows are not missed."""
    of = (
        {commit.rows_at: batch_of(commit, app_id) for commit in evidence.commits if app_id in app_ids(commit)}
        if owned is None
        else owned
    )
    lineage = versions_that_stand(evidence.commits)
    for index in range(len(evidence.commits) - 1, -1, -1):
        commit = evidence.commits[index]
        kept_up_to = kept_version(commit)
        # A batch that overwrites the table has taken out nothing but what it replaces.
        if kept_up_to is None or commit.version in of or commit.version not in lineage:
            continue
        before = [item for item in evidence.commits[:index] if item.version > kept_up_to and item.version in of]
        batches = sorted({batch for item in before if (batch := of[item.version]) is not None and batch < done})
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
        evidence=f"{sink.target}: version {commit.version} ({what}) {taken} {len(batches)} "
        f"batches of this query, {span}; the checkpoint counts them as done",
        meaning=("Where it did, their" if unknown else "Their")
        + " rows are no longer in the table and the next start does not read them again"
        + (", nor would a replay be let in: the table still knows those batches." if restored else "."),
        next=commands.plan("replay"),
        do_not="delete checkpoint files to read the rows again: the "
        "table drops batches it has seen, new rows in them too.",
    )
