"""Batches of few rows run interpreted, not compiled.

In each task Spark writes the Java source of every projection anew, only to find that it has compiled the same source
before. For a few rows that takes longer than the rows themselves: a tiny append is a sixth cheaper without it, because
Delta looks up the transaction in the table's log by two such tasks. For many rows compiled code wins: half a million
rows take 2.0 s compiled and 3.0 s interpreted. How many rows a batch has is known when it is written; so the batch
before it decides, and after a small one a large one is slow once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from surestart.declaration import SinkDeclaration
from surestart.library_types import SparkSession
from surestart.sinks.delta.receipts import ReceiptReader
from surestart.spark.session import applied, is_connect, runs_on_databricks
from surestart.spark.settings import FEW_ROWS, pairs

AT_MOST = 5_000


class BatchBefore:
    """What the tables took from the batch before: read from their new commits, once each."""

    def __init__(self, sinks: Iterable[SinkDeclaration]) -> None:
        self._receipts = ReceiptReader(sinks)

    def read_rows(self, query_id: str, batch_id: int) -> int | None:
        """None when it cannot be told: the first batch of a run, tables that are not on this machine's disks."""
        new = self._receipts.read_new()
        if not self._receipts.complete:
            return None
        landed = [receipt.rows for receipt in new if (receipt.query_id, receipt.batch_id) == (query_id, batch_id - 1)]
        return sum(landed) if landed else None


@contextmanager
def interpreted_if_few(spark: SparkSession, before: BatchBefore, query_id: str, batch_id: int) -> Iterator[None]:
    """Inside the block the session runs interpreted when the batch before had few rows. Databricks and a server's
    session, which several streams may share, are left as they are."""
    if runs_on_databricks() or is_connect(spark):
        yield
        return
    rows = before.read_rows(query_id, batch_id)
    if rows is None or rows > AT_MOST:
        yield
        return
    with applied(spark, pairs(FEW_ROWS)):
        yield
