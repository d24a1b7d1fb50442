"""Appends each batch to one Delta table, exactly once: Delta drops a (query id, batch id) it has seen before."""

from __future__ import annotations

from dataclasses import dataclass

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment, Table
from surestart.facts.delta.commit_notes import newest_version, read_new_steps
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame, DataStreamWriter, SparkSession, StreamingQuery
from surestart.sinks.abilities import EVERY_ROW, Hole, Output
from surestart.sinks.batch_error import SkippedBatch
from surestart.sinks.delta.few_rows import BatchBefore, interpreted_if_few
from surestart.sinks.delta.receipts import has_receipts
from surestart.sinks.delta.same_identity import read_identity, same_identity
from surestart.sinks.delta.transaction import append_with_pair, commit_note
from surestart.spark.delta_table import create_or_check_table, read_table
from surestart.stage import BatchContext


@dataclass(frozen=True)
class DeltaAppend:
    """shared: whether other queries write into this table as well; None: nobody has said."""

    table: str
    columns: str
    partition_by: tuple[str, ...] = ()
    shared: bool | None = None

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        create_or_check_table(spark, environment.table(self.table), self.columns, self.partition_by)

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        before = BatchBefore(self.declare(context.environment))
        return writer.foreachBatch(AppendBatch(context, context.environment.table(self.table), before)).start()

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        table = environment.table(self.table)
        return (SinkDeclaration("delta-append", table.label, table.path, shared=self.shared),)

    def outputs(self, environment: Environment) -> tuple[Output, ...]:
        return (Output(environment.table(self.table), EVERY_ROW),)

    def fill_once(self, hole: Hole) -> None:
        rows, table = hole.missing(), hole.context.environment.table(self.table)
        there = read_table(rows.sparkSession, table).columns
        # A column that the table fills by itself is in no row.
        append_once(rows[[one for one in rows.columns if one in there]], table, hole.context, hole.identity, 0)


@dataclass(frozen=True)
class AppendBatch:
    context: BatchContext
    table: Table
    before: BatchBefore

    def __call__(self, batch_df: DataFrame, batch_id: int) -> None:
        spark = batch_df.sparkSession
        query_id = read_identity(self.context, spark)
        fail_point("append.before_commit")
        with (
            same_identity(self.context, spark, query_id, batch_id),
            interpreted_if_few(spark, self.before, query_id, batch_id),
        ):
            append_once(batch_df, self.table, self.context, query_id, batch_id)
        fail_point("append.after_commit")


def append_once(
    rows: DataFrame, table: Table, context: BatchContext, query_id: str, batch_id: int, step: str = ""
) -> None:
    """The rows are in the table once, whether or not this batch was written before."""
    spark = rows.sparkSession
    # Delta does not say that it drops an append, and the runner reads the commits of local tables only. Asked once
    # a run: where this batch is new to the table, those after it are.
    asked = batch_id == context.first_new_batch and not has_receipts(table.path)
    before = newest_version(spark, table) if asked else -1
    note = commit_note(context.query, query_id, batch_id, context.stage, step)
    append_with_pair(rows, table, f"{query_id}:{step}" if step else query_id, batch_id, note)
    if asked and step not in read_new_steps(spark, table, query_id, batch_id, since=before):
        raise SkippedBatch(context, batch_id, table.label)
