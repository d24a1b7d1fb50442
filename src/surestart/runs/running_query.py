"""A started query of one stage: each finished batch is reported once, and a query that failed is an error with a name.

start_query ──> poll, poll, poll … ──> ended      result
                    └─> failed, or a batch was dropped by its table: raises, and `stop` leaves nothing running
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from surestart.environment import Environment, Table
from surestart.errors import SurestartError, UsageError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta.commit_notes import rows_of_tables
from surestart.history.describe_run import options_of
from surestart.library_types import SparkSession, StreamingQuery
from surestart.runs.stage_failures import active_already, dropped, failed, not_started
from surestart.sinks.delta.receipts import ReceiptReader
from surestart.sinks.delta.same_identity import RunReplaced, what_replaced
from surestart.spark.session import is_connect
from surestart.stage import BatchContext, Source, Stage
from surestart.typed import surestart
from surestart.words.amounts import sum_of
from surestart.words.next_commands import Commands

_log = logging.getLogger("surestart.run")


@dataclass(frozen=True)
class Trigger:
    """available_now: everything that is there, then stop. Otherwise a batch every `interval`, until stopped."""

    available_now: bool = True
    interval: str = ""

    def arguments(self) -> dict[str, Any]:
        return {"availableNow": True} if self.available_now else {"processingTime": self.interval}


AVAILABLE_NOW = Trigger()


def processing_time(interval: str) -> Trigger:
    if not re.fullmatch(r"\d+ (milli)?seconds?|\d+ (minute|hour)s?", interval):
        raise UsageError(
            f"trigger interval {interval!r} is not a number and a unit",
            meaning="Spark would refuse it after the query has been planned.",
            next=surestart("run", "all", "--trigger", "10 seconds"),
        )
    return Trigger(available_now=False, interval=interval)


@dataclass(frozen=True)
class BatchProgress:
    """One finished batch, as the query reported it.

    rows: None where nobody says."""

    stage: str
    batch: int
    rows: int | None
    seconds: float
    report: Mapping[str, Any]
    query: str = ""

    @property
    def rows_per_second(self) -> float:
        return (self.rows or 0) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class StageRun:
    """What one run of a stage did.

    rows: of the batches that say it; None where none of them does.
    replayed: the batch that a former run had planned and not committed."""

    stage: str
    query_id: str
    checkpoint: str
    batches: int
    rows: int | None
    seconds: float
    first_batch: int | None
    last_batch: int | None
    replayed: int | None
    query: str = ""


def start_query(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    trigger: Trigger = AVAILABLE_NOW,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    claim: tuple[str, str] = ("", ""),
) -> RunningQuery:
    """The sink's tables are there and the query runs at its checkpoint. claim: its file, and the run that it names."""
    from pyspark.errors import PySparkException

    began = monotonic()
    stage.sink.prepare(spark, environment)
    checkpoint = environment.checkpoint(stage.name)
    found = read_checkpoint(checkpoint, entries=1)
    context = BatchContext(
        environment=environment,
        stage=stage.name,
        query=environment.query_name(stage.name),
        checkpoint=checkpoint,
        replayed_batch=found.in_flight,
        first_new_batch=0 if found.latest_planned is None else found.latest_planned + 1,
        query_id=found.query_id or "",
        # On Spark Connect a batch is written on the server, whose disks are others than those of the claim.
        claim="" if is_connect(spark) else claim[0],
        run_id=claim[1],
    )
    receipts = ReceiptReader(stage.sink.declare(environment))
    try:
        rows = stage.transform(stage.source.read_stream(spark, environment))
        writer = (
            rows.writeStream.queryName(context.query)
            .outputMode(stage.output_mode)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger.arguments())
        )
        query = stage.sink.start(writer, context)
    except Exception as problem:
        # Classic Spark raises it as a Java error, Spark Connect as one of its own: only the words are the same.
        if "already active" in str(problem):
            raise active_already(context) from problem
        if isinstance(problem, PySparkException):
            raise not_started(context, problem) from problem
        raise
    tables = tuple(
        Table(sink.target, qualified=sink.target)
        for sink in stage.sink.declare(environment)
        if sink.is_delta and not sink.path
    )
    own = replace(context, claim=claim[0])
    return RunningQuery(query, own, receipts, on_progress, began, stage.source, spark, tables)


@dataclass
class RunningQuery:
    query: StreamingQuery
    context: BatchContext
    receipts: ReceiptReader
    on_progress: Callable[[BatchProgress], object]
    began: float
    source: Source
    spark: SparkSession
    # Those whose commits only Spark can read.
    tables: tuple[Table, ...] = ()
    # Only totals and the newest batch are kept: a stream may run for months.
    _batches: int = 0
    _total: int | None = None
    _first: int | None = None
    _newest: int | None = None
    _replayed: int | None = None
    # Batch -> table -> rows.
    _landed: dict[int, Counter[str]] = field(default_factory=dict)

    @property
    def query_id(self) -> str:
        return str(self.query.id)

    def poll(self, seconds: float) -> bool:
        """Waits so long at most, and reports the batches finished since; True when the query has ended by itself or
        was stopped. Raises when it has failed."""
        from pyspark.errors import StreamingQueryException

        try:
            # pyspark's hint says int, its code multiplies by 1000 first.
            ended = self.query.awaitTermination(seconds)  # type: ignore[arg-type]
        except StreamingQueryException as failure:
            self._report()
            raise self._explain(failure) from failure
        self._report()
        found = "" if ended else what_replaced(self.context, self.query_id)
        if found:
            # Between two batches no sink would notice: this driver stood still, and was replaced.
            raise self._explain(RunReplaced(self.context, self.query_id, found, "It wrote nothing more."))
        return bool(ended)

    def stop(self) -> None:
        """Nothing of the query runs any more; a batch that it was in is replayed by the next start."""
        self.query.stop()

    def result(self) -> StageRun:
        return StageRun(
            stage=self.context.stage,
            query_id=self.query_id,
            checkpoint=self.context.checkpoint,
            batches=self._batches,
            rows=self._total if self._batches else 0,
            seconds=monotonic() - self.began,
            first_batch=self._first,
            last_batch=self._newest,
            replayed=self._replayed,
            query=self.context.query,
        )

    def _explain(self, failure: Exception) -> SurestartError:
        from surestart.verdict.kafka_findings import with_lost_positions

        error, environment = failed(self.context, failure), self.context.environment
        commands = Commands(self.context.stage, environment.name, options_of(environment))
        return with_lost_positions(error, str(failure), self.source, self.context.checkpoint, commands)

    def _report(self) -> None:
        # Progress first: a batch that it calls finished has its receipt by then.
        finished = self._read_finished()
        for receipt in self.receipts.read_new():
            if receipt.query_id == self.query_id:
                self._landed.setdefault(receipt.batch_id, Counter())[receipt.table] += receipt.rows
        for report in finished:
            batch = int(report["batchId"])
            counted = self.receipts.complete
            replayed = batch == self.context.replayed_batch
            landed = self._landed.pop(batch, Counter())
            # A batch that was not planned before is new in each table, also when it brings no row for one of them.
            missing = self.receipts.covered - landed.keys()
            if missing and not replayed:
                raise dropped(self.context, batch, sorted(missing))
            progress = BatchProgress(
                stage=self.context.stage,
                batch=batch,
                rows=landed.total() if counted else rows_of_report(self.spark, report, self.tables, self.query_id),
                seconds=float(report["durationMs"].get("triggerExecution", 0)) / 1000,
                report=report,
                query=self.context.query,
            )
            self._batches += 1
            self._total = sum_of(self._total, progress.rows)
            self._first = batch if self._first is None else self._first
            self._newest = batch
            self._replayed = batch if replayed else self._replayed
            self.on_progress(progress)

    def _read_finished(self) -> list[Mapping[str, Any]]:
        """Reports of the batches that ended since the last look, oldest first.

        Spark keeps a hundred reports and hands out all or the last one. Reading all of them five times a second takes
        the driver longer than a tiny batch takes; so they are read only when more than one batch has ended."""
        last = as_report(self.query.lastProgress)
        if last is None:
            return []
        batch, newest = int(last["batchId"]), self._newest
        ended = batch if has_run(last) else batch - 1
        if newest is not None and ended <= newest:
            return []
        if newest is not None and ended == newest + 1 and has_run(last):
            return [last]
        reports = (as_report(raw) for raw in self.query.recentProgress)
        ran = {int(report["batchId"]): report for report in reports if report is not None and has_run(report)}
        return [ran[number] for number in sorted(ran) if newest is None or number > newest]


def as_report(raw: Any) -> Mapping[str, Any] | None:
    """A progress report of Spark's, of any line, as plain values."""
    if raw is None or isinstance(raw, dict):
        return raw
    report: Mapping[str, Any] = json.loads(raw.json)
    return report


def rows_of_report(
    spark: SparkSession, report: Mapping[str, Any], tables: Sequence[Table], query_id: str
) -> int | None:
    """How many rows the batch of this report had; None where nobody says. Serverless compute reports 0 rows of every
    foreachBatch, and Spark Connect of Delta's own sink: there the tables that are declared say it."""
    rows = int(report.get("numInputRows") or 0)
    if rows or not is_connect(spark):
        return rows
    return rows_of_tables(spark, tables, query_id, int(report["batchId"]))


def has_run(report: Mapping[str, Any]) -> bool:
    """An idle trigger reports the id of the batch that it did not construct, and no addBatch."""
    return "addBatch" in (report.get("durationMs") or {})
