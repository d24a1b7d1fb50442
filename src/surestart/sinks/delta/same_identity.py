"""A run writes under the identity that it began with, and while the query is its own, or not at all.

A driver that stood still (a signal, a frozen machine) while a remedy put another checkpoint in the place of its own
would find the new query id there, write its old batch under it, and use that number up: the new query's batch of the
same number would be dropped without a word. Woken in the middle of the remedy, it would write its batch into a table
that was just cleared. So each batch asks, before it writes and after, whether the id in the checkpoint is the one that
the run began with, and whether the claim still names the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surestart.errors import CannotTell
from surestart.history.claim_file import read_claim
from surestart.history.describe_run import named
from surestart.library_types import SparkSession
from surestart.sinks.batch_error import BatchError
from surestart.sinks.delta.transaction import read_local_query_id, read_query_id
from surestart.spark.session import running_query_id
from surestart.stage import BatchContext
from surestart.typed import surestart


class RunReplaced(BatchError):
    def __init__(self, context: BatchContext, own: str, found: str, written: str) -> None:
        super().__init__(
            f"{context.query} runs under query id {own}, and {found}.",
            meaning=f"A remedy or another start has taken its place while this driver stood still. {written} This run "
            "has ended; whatever came after it goes on.",
            next=surestart("history", context.stage, place=named(context.environment)),
            do_not="put the former checkpoint back by hand.",
        )


def read_identity(context: BatchContext, spark: SparkSession) -> str:
    """The query id of the batch: the checkpoint's, as it is now; where that may not be read, the running query's."""
    return read_query_id(context.checkpoint, spark, lambda: _own_id(context, spark))


@contextmanager
def same_identity(context: BatchContext, spark: SparkSession, query_id: str, batch_id: int) -> Iterator[None]:
    """Inside the block `query_id`, read from the checkpoint, is what the run began with. Raises RunReplaced when it is
    not, or is not any more at the end; a write that failed because of that is explained by it."""
    own = _own_id(context, spark)
    if not own:
        # Called outside of a query, by a remedy or a test: nobody knows another id than the checkpoint's.
        yield
        return
    refuse_replaced(context, own, query_id, batch_id)
    try:
        yield
    except Exception as problem:
        found = what_replaced(context, own)
        if found:
            raise RunReplaced(context, own, found, f"Batch {batch_id} could not be written.") from problem
        raise
    found = what_replaced(context, own)
    if found:
        written = f"Batch {batch_id} was written under {own} meanwhile, so its rows may be in the output twice."
        raise RunReplaced(context, own, found, written)


def _own_id(context: BatchContext, spark: SparkSession) -> str:
    return context.query_id or running_query_id(spark, context.query)


def refuse_replaced(context: BatchContext, own: str, query_id: str, batch_id: int) -> None:
    """Raises when the query is not this run's any more. query_id: as the checkpoint has it."""
    found = _another(query_id) if query_id != own else what_replaced(context, own)
    if found:
        raise RunReplaced(context, own, found, f"Nothing of batch {batch_id} was written.")


def what_replaced(context: BatchContext, own: str) -> str:
    """What shows that another run or a remedy has come in between; "" if nothing does, or it cannot be seen here."""
    there = read_local_query_id(context.checkpoint)
    if there is not None and there != own:
        return _another(there)
    if not context.claim:
        return ""
    try:
        owner = read_claim(Path(context.claim)).record
    except CannotTell:
        return ""
    if owner is not None and owner.run_id == context.run_id:
        return ""
    return f"its claim {context.claim} " + ("is given up" if owner is None else f"is that of run {owner.run_id}")


def _another(query_id: str) -> str:
    return f"its checkpoint is that of {query_id}"
