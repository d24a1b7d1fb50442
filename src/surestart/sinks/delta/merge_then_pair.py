"""A MERGE whose pair and note follow it, in an append of no rows: for compute whose sessions take no such settings.

    MERGE (no pair, no note)   ── kill ──>   the batch is in flight, its replay merges it once more: nothing changes
    append of no rows: pair (query id, batch id), note, the version of the MERGE and the rows that it was given
                               ── kill ──>   the pair is known: the replay is skipped

A MERGE by a total order gives the same table however often it comes. So the pair is not needed for the rows; it says
which batch the table holds, to the gate, the doctor and the history. docs/decisions/0031-a-merge-then-its-pair.md
"""

from __future__ import annotations

from dataclasses import dataclass

from surestart.environment import Table
from surestart.facts.delta.commit_notes import read_new_steps, read_noted_commits, read_steps, rows_of
from surestart.sinks.batch_error import BatchShort, SkippedBatch, doctor_of, refuse_empty_looks
from surestart.sinks.delta.transaction import append_pair, commit_note
from surestart.spark_types import DataFrame, SparkSession
from surestart.stage import BatchContext


@dataclass(frozen=True)
class MergePair:
    """of_stream: whether the batch is one of the stage's own, and not a repair's."""

    context: BatchContext
    table: Table
    query_id: str
    batch_id: int
    of_stream: bool = True

    def is_there(self, spark: SparkSession) -> bool:
        """Whether the table holds the batch. Asked only where it is possible: after the first new batch of a run, no
        later one can be."""
        known = (self.context.replayed_batch, self.context.first_new_batch)
        if self.of_stream and self.batch_id not in known:
            return False
        return "" in read_steps(spark, self.table, self.query_id, self.batch_id)

    def append(self, batch: DataFrame, rows: int, keys: int, since: int) -> None:
        """The pair is in the table, behind the MERGE that came after version `since`. keys: those of the batch, each of
        which the MERGE was to be given. Raises, without the pair, when it was given fewer."""
        spark = batch.sparkSession
        version, context = self._read_merge(batch, rows, keys, since), self.context
        merged = {"merged_rows": keys} if version is None else {"merged_rows": keys, "merged": version}
        note = commit_note(context.query, self.query_id, self.batch_id, context.stage, merged=merged)
        append_pair(spark, self.table, self.query_id, self.batch_id, note, batch.columns)
        asked = self.of_stream and self.batch_id == context.first_new_batch
        # Delta says nothing of a pair that it drops: then the table is ahead of the checkpoint.
        if asked and "" not in read_new_steps(spark, self.table, self.query_id, self.batch_id, since):
            raise SkippedBatch(context, self.batch_id, self.table.label)

    def _read_merge(self, batch: DataFrame, rows: int, keys: int, since: int) -> int | None:
        """The version of the MERGE; None where it made none, or another one came in between."""
        newest = read_noted_commits(batch.sparkSession, self.table)
        merges = [one for one in newest if one.version > since and one.operation == "MERGE" and one.mark is None]
        given = [number for one in merges if (number := rows_of(one)) is not None]
        if not given:
            # A MERGE that changes nothing need not make a commit.
            refuse_empty_looks(self.context, batch, self.batch_id, rows, self.table.label)
        elif max(given) < keys:
            # More rows are no fault: Spark counts a part that it ran again twice.
            doctor = doctor_of(self.context)
            raise BatchShort(self.context.query, self.batch_id, max(given), keys, self.table.label, doctor)
        return merges[0].version if len(merges) == 1 else None
