"""Errors of one batch, raised inside foreachBatch.

The sink dropped a batch that it cannot have seen: going on would lose its rows in silence.

Every row of a batch is in its tables, also where the batch is computed anew for each look at it.

Serverless compute keeps no rows between two writes, and by one account of it a second look at a batch gave nothing,
without an error: the good rows would be counted as written and be nowhere. So there what the commits of a batch
brought is compared with the batch's own count, before Spark commits the batch."""

from __future__ import annotations

from typing import Any

from surestart.errors import SurestartError
from surestart.history.describe_run import named, plan_command
from surestart.library_types import DataFrame
from surestart.stage import BatchContext
from surestart.typed import NextStep, surestart


class BatchError(RuntimeError):
    """Only its text comes back from there, so the text has the four parts."""

    def __init__(self, what: str, *, meaning: str, next: NextStep, do_not: str) -> None:
        said = SurestartError(what, meaning=meaning, next=next, do_not=do_not, code=type(self).__name__)
        super().__init__(str(said))

    def __reduce__(self) -> tuple[Any, ...]:
        return (RuntimeError, (str(self),))


def doctor_of(context: BatchContext) -> NextStep:
    return surestart("doctor", context.stage, place=named(context.environment))


class SkippedBatch(BatchError):
    def __init__(self, context: BatchContext, batch_id: int, table: str) -> None:
        super().__init__(
            f"{table} dropped batch {batch_id} of {context.query}, which was never planned before this run.",
            meaning="the table is ahead of the checkpoint (rewound, restored or copied); its rows would be lost.",
            next=doctor_of(context),
            do_not="restart it as it is, or delete the checkpoint.",
        )


class BatchShort(BatchError):
    """marked: the tables have the batch's mark already, so the batch cannot be written again under it."""

    def __init__(
        self, query: str, batch_id: int, rows: int, of: int, table: str, next: NextStep, *, marked: bool = False
    ) -> None:
        super().__init__(
            f"batch {batch_id} of {query} has {of} rows, and {rows} of them came to {table}.",
            meaning="Asked a second time, the compute that wrote the batch gave other rows of it than at first. Spark "
            "has not committed the batch: no row was passed over, and each start comes to the same place.",
            next=next,
            do_not="delete the checkpoint. The tables have this batch's mark without all its rows, so no start writes "
            "them: a replay from this batch does."
            if marked
            else "delete the checkpoint; run the stage on a job cluster, where a batch is kept between two writes.",
        )


def refuse_short(context: BatchContext, batch_id: int, rows: int | None, of: int, table: str) -> None:
    """Raises when the commits say another number of rows than the batch has. rows None: they do not say."""
    if rows is not None and rows != of:
        replay = plan_command(context.environment, "replay", context.stage, "--from-batch", batch_id)
        raise BatchShort(context.query, batch_id, rows, of, table, replay, marked=True)


def refuse_empty_looks(context: BatchContext, batch: DataFrame, batch_id: int, of: int, table: str) -> None:
    """Raises when a batch that has rows gives none when it is asked again."""
    if of and not batch.limit(1).count():
        raise BatchShort(context.query, batch_id, 0, of, table, doctor_of(context))
