"""The pair (query id, batch id) on the Delta writes of a user's own foreachBatch: a batch that comes again is dropped.

    @surestart.once                                   def upsert(batch, batch_id):
    def upsert(batch, batch_id):                          with surestart.once(batch, batch_id) as write:
        ...a MERGE, or a write to each table...               with write.step("kept"): ...
                                                              with write.step("closed"): ...

    classic Spark              DataFrameWriter, SQL and DeltaTable of the batch's own session carry it
    Spark Connect, serverless  DataFrameWriter does; MERGE and other SQL by write.sql(statement, table=…)

Delta compares the pair for each table and drops a second write without a word. So here a second write to one table is
an error, and so is a MERGE or another statement beside any write: each is a step of its own, with a pair of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, overload

from surestart.environment import Table
from surestart.errors import UsageError
from surestart.facts.delta.commit_notes import read_steps
from surestart.guarding.once_writers import carry, identity_of_batch, may_be_one
from surestart.library_types import DataFrame, Row, SparkSession
from surestart.sinks.delta.transaction import TXN_APP_ID, TXN_VERSION, USER_METADATA, append_pair, commit_note
from surestart.spark.session import applied, is_connect
from surestart.typed import in_the_code

_log = logging.getLogger("surestart.guarding")
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
    """Inside the block, which is one function of foreachBatch or a part of it, Delta writes carry (query id, batch id),
    and none does afterwards. With a function in place of the batch: each of its calls is in such a block.

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
        self._connect = is_connect(spark)
        self._step = ""
        # Of each step, the tables that DataFrameWriters have written.
        self._written: dict[str, list[str]] = {}
        self.busy = False
        self.was_used = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Inside the block writes of the batch have a pair of their own: (query id:name, batch id)."""
        former, self._step = self._step, name
        ambient = session_carries(self._spark, self._app_id, self.batch_id, self._note())
        outer = carry(self._spark, self)
        try:
            if self._connect:
                yield
            else:
                with ambient:
                    yield
                    self.was_used = self.was_used or self._spark.conf.get(TXN_VERSION, None) is None
        finally:
            carry(self._spark, outer)
            self._step = former

    def pair_for(self, target: str) -> dict[str, str]:
        """The pair of this step for the one write to that table. Raises for a second one."""
        written = self._written.setdefault(self._step, [])
        by_statement = not self._connect and not written and self._spark.conf.get(TXN_VERSION, None) is None
        if by_statement or any(may_be_one(target, other) for other in written):
            raise second_write(self._step)
        written.append(target)
        self.was_used = True
        if not self._connect:
            # A statement after it would carry the same pair, and be dropped if it is about the same table.
            self._spark.conf.unset(TXN_VERSION)
        return {"txnAppId": self._app_id, "txnVersion": str(self.batch_id), "userMetadata": self._note()}

    def sql(self, statement: str, *, table: str) -> list[Row]:
        """The statement, which changes this table, has been run once for the batch and step: a MERGE, an UPDATE, a
        DELETE. On Spark Connect the pair follows it in a commit of no rows, and a driver that dies between the two runs
        it again: there it must be one that gives the same table however often it comes, such as a MERGE by keys."""
        if not self._connect:
            return self._spark.sql(statement).collect()
        place = Table(table, path=table) if "/" in table else Table(table, qualified=table)
        self.was_used = True
        self.busy = True
        try:
            if self._step in read_steps(self._spark, place, self.query_id, self.batch_id):
                return []
            rows = self._spark.sql(statement).collect()
            append_pair(self._spark, place, self._app_id, self.batch_id, self._note())
        finally:
            self.busy = False
        return rows

    @property
    def _app_id(self) -> str:
        return f"{self.query_id}:{self._step}" if self._step else self.query_id

    def _note(self) -> str:
        return commit_note("", self.query_id, self.batch_id, "", self._step)


@contextmanager
def _block(batch: DataFrame, batch_id: int, step: str, checkpoint: str) -> Iterator[OnceWriter]:
    spark = batch.sparkSession
    write = OnceWriter(spark, identity_of_batch(spark, checkpoint), batch_id)
    with explaining_second_write(lambda: second_write(step)), write.step(step):
        yield write
    if not write.was_used:
        _log.warning(
            "batch %s of %s wrote nothing that carries its pair; DeltaTable and spark.sql do so in the batch's own "
            "session alone: batch.sparkSession",
            batch_id,
            write.query_id,
        )


def second_write(step: str) -> UsageError:
    named = f" in step {step!r}" if step else ""
    return UsageError(
        f"a batch writes{named} what may be a second time to one table, inside one surestart.once",
        meaning="Delta knows a write by (query id, batch id) and would drop the second one to a table without a word. "
        "The batch is not committed; it comes again at the next start, and what it has written already is kept once.",
        next=in_the_code("with write.step('closed'): around each further write or statement, with a name of its own"),
        do_not="change the name of a step while a batch is in flight.",
        code="OnceWrittenTwice",
    )


# Delta takes the version away with the write that uses it. A second write then fails; without this it is dropped.
AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_HALF_A_PAIR = "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"


@contextmanager
def session_carries(spark: SparkSession, app_id: str, version: int, note: str) -> Iterator[None]:
    """Inside the block the session's next Delta command carries this pair, and any after it fails. After the block the
    session has what an outer block had not used, or nothing of it."""
    outer_id, outer_version = spark.conf.get(TXN_APP_ID, None), spark.conf.get(TXN_VERSION, None)
    inside = spark.conf.get(AUTO_RESET, None) == "true" and outer_id is not None
    with applied(spark, {AUTO_RESET: "true", USER_METADATA: note}):
        try:
            spark.conf.set(TXN_APP_ID, app_id)
            spark.conf.set(TXN_VERSION, str(version))
            yield
        finally:
            spark.conf.unset(TXN_APP_ID)
            spark.conf.unset(TXN_VERSION)
            if inside and outer_id is not None:
                # An outer pair that was used stays without its version: a further write would go without any.
                spark.conf.set(TXN_APP_ID, outer_id)
                if outer_version is not None:
                    spark.conf.set(TXN_VERSION, outer_version)


@contextmanager
def explaining_second_write(second_write: Callable[[], Exception]) -> Iterator[None]:
    """Inside the block Delta's error about options that nobody has set becomes one about the second write."""
    try:
        yield
    except Exception as problem:
        if _HALF_A_PAIR in str(problem):
            raise second_write() from problem
        raise
