"""One batch into two sinks, first one, then the other; each exactly once, not both at once.

    batch ──> first.batch_writer   ──> second.batch_writer ──> Spark's commit file

Between the two a reader sees the batch in the first sink and not in the second. A crash there is healed by the next
start: Spark replays the batch, the first sink recognises it and writes nothing, the second writes it. The batch is
computed once per sink, so its transform has to give the same rows every time (no rand, no uuid, no clock but Spark's
own current_timestamp, which is fixed per batch). docs/postgres.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame, DataStreamWriter, SparkSession, StreamingQuery
from surestart.sinks.batch_error import refuse_empty_looks
from surestart.spark.session import keeps_batch_rows
from surestart.stage import BatchContext, Sink


class BatchSink(Sink, Protocol):
    """A sink whose work on one batch can be called on its own. The call is picklable and may be repeated."""

    def batch_writer(self, context: BatchContext) -> Callable[[DataFrame, int], None]: ...


@dataclass(frozen=True)
class Both:
    """Each batch goes to the first sink and then to the second, exactly once to each. Between the two a reader may see
    it in the first only."""

    first: BatchSink
    second: BatchSink

    @property
    def parts(self) -> tuple[Sink, ...]:
        return self.first, self.second

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        self.first.prepare(spark, environment)
        self.second.prepare(spark, environment)

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        return writer.foreachBatch(self.batch_writer(context)).start()

    def batch_writer(self, context: BatchContext) -> Callable[[DataFrame, int], None]:
        return _BothBatch(context, self.first.batch_writer(context), self.second.batch_writer(context))

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        return (*self.first.declare(environment), *self.second.declare(environment))


@runtime_checkable
class CountedWriter(Protocol):
    """A writer that is told how many rows the batch has. It writes none of them when it gets another number of rows."""

    def write_counted(self, batch_df: DataFrame, batch_id: int, counted: int) -> None: ...


@dataclass(frozen=True)
class _BothBatch:
    context: BatchContext
    first: Callable[[DataFrame, int], None]
    second: Callable[[DataFrame, int], None]

    def __call__(self, batch_df: DataFrame, batch_id: int) -> None:
        # This compute keeps no rows, so the batch is computed for each sink. Its count shows whether both get the same
        # rows.
        counted = None if keeps_batch_rows(batch_df.sparkSession) else batch_df.count()
        self._write(self.first, batch_df, batch_id, counted)
        fail_point("both.between")
        self._write(self.second, batch_df, batch_id, counted)

    def _write(
        self, part: Callable[[DataFrame, int], None], batch_df: DataFrame, batch_id: int, counted: int | None
    ) -> None:
        if counted is None:
            part(batch_df, batch_id)
            return
        if batch_id in (self.context.replayed_batch, self.context.first_new_batch):
            refuse_empty_looks(self.context, batch_df, batch_id, counted, "its sinks")
        if isinstance(part, CountedWriter):
            part.write_counted(batch_df, batch_id, counted)
        else:
            part(batch_df, batch_id)
