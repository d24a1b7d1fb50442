"""The pair (query id, batch id) on the Delta writes of a user's own foreachBatch: a batch that comes again is dropped.

    @surestart.once                                   def upsert(batch, batch_id):
    def upsert(batch, batch_id):                          with surestart.once(batch, batch_id) as write:
        ...one Delta write or MERGE...                        with write.step("good"): ...one write...
                                                              with write.step("bad"):  ...one write...

    classic Spark              the batch's own session carries the pair: DataFrameWriter, SQL, DeltaTable
    Spark Connect, serverless  DataFrameWriter gets it as options; MERGE and other SQL by write.sql(statement, table=…)

Delta compares the pair for each table, so a second write of a batch to one table is another step: without one it is an
error, where Delta alone would drop it without a word. The pair is unset in any case when the block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from surestart.environment import Table
from surestart.errors import UsageError
from surestart.facts.delta.batch_commits import read_steps
from surestart.guard.batch_identity import identity_of_batch
from surestart.guard.once_on_connect import writers_carry
from surestart.guard.once_on_session import explained, session_carries
from surestart.sinks.delta.identity import TXN_VERSION, commit_note
from surestart.sinks.delta.transaction import append_pair
from surestart.spark.session import is_connect
from surestart.typed import in_the_code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ByBatch = Callable[["DataFrame", int], object]


@overload
def once(batch: ByBatch) -> EachOnce: ...


@overload
def once(
    batch: DataFrame, batch_id: int, *, step: str = ..., checkpoint: str = ...
) -> AbstractContextManager[OnceWriter]: ...


def once(
    batch: Any, batch_id: int | None = None, *, step: str = "", checkpoint: str = ""
) -> EachOnce | AbstractContextManager[OnceWriter]:
    """Inside the block, which is one function of foreachBatch or a part of it, the Delta write carries (query id, batch
    id), and none does afterwards. With a function in place of the batch: each of its calls is in such a block.

    step: tells two writes of one batch to one table apart. checkpoint: of the query, where the running query cannot be
    asked: on Spark Connect, when several run in the session."""
    if batch_id is None:
        return EachOnce(batch, step, checkpoint)
    return _block(batch, batch_id, step, checkpoint)


@dataclass(frozen=True)
class EachOnce:
    """A function of a batch whose Delta writes carry the pair. Pickled by Spark Connect."""

    function: ByBatch
    step: str = ""
    checkpoint: str = ""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with _block(batch, batch_id, self.step, self.checkpoint):
            self.function(batch, batch_id)


class OnceWriter:
    """What one batch is written with. query_id: from the checkpoint, as the running query has it."""

    def __init__(self, spark: SparkSession, query_id: str, batch_id: int) -> None:
        self._spark, self.query_id, self.batch_id = spark, query_id, batch_id
        self._step = ""
        self._used: set[str] = set()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Inside the block one more write of the batch: its own pair, (query id:name, batch id)."""
        former, self._step = self._step, name
        try:
            with self._carried():
                yield
        finally:
            self._step = former

    def options(self) -> dict[str, str]:
        """The pair of this step as options of a DataFrameWriter, for one write on any compute."""
        if self._step in self._used:
            raise _second_write(self._step)
        self._used.add(self._step)
        if not is_connect(self._spark):
            # A write without these options would carry the same pair, and be dropped.
            self._spark.conf.unset(TXN_VERSION)
        return {"txnAppId": self._app_id, "txnVersion": str(self.batch_id), "userMetadata": self._note()}

    def sql(self, statement: str, *, table: str) -> list[Row]:
        """The statement, which changes this table, has been run once for the batch and step: a MERGE, an UPDATE, a
        DELETE. On Spark Connect the pair follows it in a commit of no rows, and a driver that dies between the two runs
        it again: there it must be one that gives the same table however often it comes, such as a MERGE by keys."""
        if not is_connect(self._spark):
            return self._spark.sql(statement).collect()
        place = Table(table, path=table) if "/" in table else Table(table, qualified=table)
        if self._step in read_steps(self._spark, place, self.query_id, self.batch_id):
            return []
        with writers_carry(None):
            rows = self._spark.sql(statement).collect()
        append_pair(self._spark, place, self._app_id, self.batch_id, self._note())
        return rows

    @property
    def _app_id(self) -> str:
        return f"{self.query_id}:{self._step}" if self._step else self.query_id

    def _note(self) -> str:
        return commit_note(self.query_id, self.query_id, self.batch_id, "", self._step)

    def _carried(self) -> AbstractContextManager[None]:
        if is_connect(self._spark):
            return writers_carry(self.options)
        return session_carries(self._spark, self._app_id, self.batch_id, self._note())


@contextmanager
def _block(batch: DataFrame, batch_id: int, step: str, checkpoint: str) -> Iterator[OnceWriter]:
    spark = batch.sparkSession
    write = OnceWriter(spark, identity_of_batch(spark, checkpoint), batch_id)
    with explained(lambda: _second_write(step)), write.step(step):
        yield write


def _second_write(step: str) -> UsageError:
    named = f" in step {step!r}" if step else ""
    return UsageError(
        f"a batch is written a second time{named} inside one surestart.once",
        meaning="Delta knows a write by (query id, batch id) and would drop the second one to a table without a word. "
        "The batch is not committed; it comes again at the next start, and what it has written already is kept once.",
        next=in_the_code("with write.step('rejected'): around each further write of the batch, with a name of its own"),
        do_not="change the name of a step while a batch is in flight.",
        code="OnceWrittenTwice",
    )
