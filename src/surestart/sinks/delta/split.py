"""One query, two tables, each row in exactly one of them: good rows and quarantined rows, also across a crash.

    batch ──> 1. quarantine  (rows with a reason)      commit: (query id, batch id)
         └──> 2. good        (rows without a reason)   commit: (query id, batch id)

The two commits are separate. After a crash between them Spark replays the batch with the same offsets, the first commit
is recognised and dropped, the second is written. That alone keeps every row in one table only if the function that
decides gives the same answer again. It may not: the usual reason for a crash is a bug, and the usual next start runs
the repaired code. So a replayed batch believes the tables, not the function:

    good commit stands            the batch is complete, only Spark's commit file was lost: nothing is written
    quarantine's stands alone     rows already there stay there, the others go to the good table, and those that the
                                  new code refuses go to quarantine under a step of its own

docs/decisions/0003-one-query-two-tables.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment, Table
from surestart.facts.delta.commit_notes import has_batch, read_noted_commits, read_steps, rows_of_batch
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame, DataStreamWriter, SparkSession, StreamingQuery
from surestart.sinks.abilities import GOOD, QUARANTINE, Hole, Output
from surestart.sinks.batch_error import refuse_empty_looks, refuse_short
from surestart.sinks.delta.append import append_once
from surestart.sinks.delta.few_rows import BatchBefore, interpreted_if_few
from surestart.sinks.delta.same_identity import read_identity, same_identity
from surestart.spark.delta_table import create_or_check_table, read_table
from surestart.spark.every_line import large_side
from surestart.spark.session import keeps_batch_rows, persisted
from surestart.stage import BatchContext


@dataclass(frozen=True)
class DeltaSplit:
    """Rows whose `reason` is null go to `good`, the others to `quarantine`; `position` identifies a row in both.

    per_batch decides where the stage's transform cannot, because it has to look at the batch first (which Avro schemas
    are in it). It must be picklable and give one row for each of the batch, the same for the same batch."""

    good: str
    good_columns: str
    quarantine: str
    quarantine_columns: str
    position: tuple[str, ...]
    reason: str = "reason"
    per_batch: Callable[[DataFrame], DataFrame] | None = None

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        create_or_check_table(spark, environment.table(self.good), self.good_columns)
        create_or_check_table(spark, environment.table(self.quarantine), self.quarantine_columns)

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        return writer.foreachBatch(self.batch_writer(context)).start()

    def outputs(self, environment: Environment) -> tuple[Output, ...]:
        return Output(environment.table(self.good), GOOD), Output(environment.table(self.quarantine), QUARANTINE)

    def fill_once(self, hole: Hole) -> None:
        rows = hole.missing()
        with persisted(self.per_batch(rows) if self.per_batch else rows) as decided:
            self.batch_writer(hole.context).write(decided, hole.identity, 0)

    def batch_writer(self, context: BatchContext) -> SplitBatch:
        environment = context.environment
        return SplitBatch(
            context=context,
            good=environment.table(self.good),
            good_columns=_names(self.good_columns),
            quarantine=environment.table(self.quarantine),
            quarantine_columns=_names(self.quarantine_columns),
            position=self.position,
            reason=self.reason,
            per_batch=self.per_batch,
            before=BatchBefore(self.declare(environment)),
        )

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        quarantine, good = environment.table(self.quarantine), environment.table(self.good)
        return (
            SinkDeclaration("delta-append", quarantine.label, quarantine.path),
            SinkDeclaration("delta-append", good.label, good.path),
        )


@dataclass(frozen=True)
class SplitBatch:
    context: BatchContext
    good: Table
    good_columns: tuple[str, ...]
    quarantine: Table
    quarantine_columns: tuple[str, ...]
    position: tuple[str, ...]
    reason: str
    per_batch: Callable[[DataFrame], DataFrame] | None
    before: BatchBefore

    def __call__(self, batch_df: DataFrame, batch_id: int) -> None:
        spark = batch_df.sparkSession
        query_id = read_identity(self.context, spark)
        # Counted before anything else has looked at the batch, where each look computes it anew.
        counted = None if keeps_batch_rows(spark) else batch_df.count()
        with (
            same_identity(self.context, spark, query_id, batch_id),
            interpreted_if_few(spark, self.before, query_id, batch_id),
            persisted(self.per_batch(batch_df) if self.per_batch else batch_df) as rows,
        ):
            if counted is not None and self._is_first_of_run(batch_id):
                refuse_empty_looks(self.context, batch_df, batch_id, counted, self.good.label)
            self.write(rows, query_id, batch_id)
            if counted is None and batch_id == self.context.replayed_batch:
                # Other compute may have written it, where a second look at the batch gave other rows.
                counted = rows.count()
            if counted is not None:
                self._refuse_short(spark, query_id, batch_id, counted)

    def _is_first_of_run(self, batch_id: int) -> bool:
        return batch_id in (self.context.replayed_batch, self.context.first_new_batch)

    def _refuse_short(self, spark: SparkSession, query_id: str, batch_id: int, counted: int) -> None:
        # A batch that is replayed may have been written so long ago that the history has lost a commit of it.
        replayed = batch_id == self.context.replayed_batch
        commits = [
            read_noted_commits(spark, table, None if replayed else 100) for table in (self.quarantine, self.good)
        ]
        if replayed and not all(has_batch(of_table, query_id, batch_id) for of_table in commits):
            return
        rows = [rows_of_batch(of_table, query_id, batch_id) for of_table in commits]
        total = None if None in rows else sum(number for number in rows if number is not None)
        refuse_short(self.context, batch_id, total, counted, f"{self.quarantine.name} and {self.good.name}")

    def write(self, rows: DataFrame, query_id: str, batch_id: int) -> None:
        from pyspark.sql import functions as F

        spark, replayed = rows.sparkSession, batch_id == self.context.replayed_batch
        if replayed and read_steps(spark, self.good, query_id, batch_id):
            # Delta would drop the good rows, and take those that the code refuses by now for new ones.
            return
        quarantined = rows.where(F.col(self.reason).isNotNull()).select(*self.quarantine_columns)
        accepted = rows.where(F.col(self.reason).isNull()).select(*self.good_columns)
        steps = read_steps(spark, self.quarantine, query_id, batch_id) if replayed else ()
        if "" in steps:
            there = large_side(read_table(spark, self.quarantine).select(*self.position))
            late = quarantined.join(there, list(self.position), "left_anti").select(*self.quarantine_columns)
            # Counted, because a second crash may be repaired by a third version of the code, which refuses yet others.
            append_once(late, self.quarantine, self.context, query_id, batch_id, step=f"late-{len(steps)}")
            accepted = accepted.join(there, list(self.position), "left_anti").select(*self.good_columns)
        else:
            append_once(quarantined, self.quarantine, self.context, query_id, batch_id)
        fail_point("split.between")
        append_once(accepted, self.good, self.context, query_id, batch_id)


def _names(columns: str) -> tuple[str, ...]:
    return tuple(part.split()[0] for part in columns.replace("\n", " ").split(","))
