"""A started query of one stage: each finished batch is reported once, and a query that failed is an error with a name.

start_query ──> poll, poll, poll … ──> ended      result
                    └─> failed, or a batch was dropped by its table: raises, and `stop` leaves nothing running
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from surestart.checkpoint.snapshot import read_checkpoint
from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.sinks.receipts import ReceiptReader
from surestart.stage import BatchContext, Stage

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
            next="surestart run all --trigger '10 seconds'",
        )
    return Trigger(available_now=False, interval=interval)


@dataclass(frozen=True)
class BatchProgress:
    """One finished batch, as the query reported it."""

    stage: str
    batch: int
    rows: int
    seconds: float
    report: Mapping[str, Any]
    query: str = ""

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class StageRun:
    """What one run of a stage did. replayed: the batch that a former run had planned and not committed."""

    stage: str
    query_id: str
    checkpoint: str
    batches: int
    rows: int
    seconds: float
    first_batch: int | None
    last_batch: int | None
    replayed: int | None
    query: str = ""


class StageFailed(SurestartError):
    """The query ended with an error; the batch it was in is planned and not committed, and will be replayed."""

    exit_code = 5


def start_query(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    trigger: Trigger = AVAILABLE_NOW,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
) -> RunningQuery:
    """The sink's tables are there and the query runs at its checkpoint."""
    from pyspark.errors import PySparkException

    began = monotonic()
    stage.sink.prepare(spark, environment)
    checkpoint = environment.checkpoint(stage.name)
    context = BatchContext(
        environment=environment,
        stage=stage.name,
        query=environment.query_name(stage.name),
        checkpoint=checkpoint,
        replayed_batch=read_checkpoint(checkpoint, entries=1).in_flight,
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
            raise _active_already(context) from problem
        if isinstance(problem, PySparkException):
            raise _not_started(context.stage, problem) from problem
        raise
    return RunningQuery(query, context, receipts, on_progress, began)


@dataclass
class RunningQuery:
    query: StreamingQuery
    context: BatchContext
    receipts: ReceiptReader
    on_progress: Callable[[BatchProgress], object]
    began: float
    _seen: dict[int, BatchProgress] = field(default_factory=dict)
    _rows: Counter[int] = field(default_factory=Counter)
    _landed: set[int] = field(default_factory=set)

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
            raise _failed(self.context.stage, failure) from failure
        self._report()
        return bool(ended)

    def stop(self) -> None:
        """Nothing of the query runs any more; a batch that it was in is replayed by the next start."""
        self.query.stop()

    def result(self) -> StageRun:
        watched = [self._seen[batch] for batch in sorted(self._seen)]
        replayed = self.context.replayed_batch
        return StageRun(
            stage=self.context.stage,
            query_id=self.query_id,
            checkpoint=self.context.checkpoint,
            batches=len(watched),
            rows=sum(progress.rows for progress in watched),
            seconds=monotonic() - self.began,
            first_batch=watched[0].batch if watched else None,
            last_batch=watched[-1].batch if watched else None,
            replayed=replayed if any(progress.batch == replayed for progress in watched) else None,
            query=self.context.query,
        )

    def _report(self) -> None:
        finished = [_read_progress(raw) for raw in self.query.recentProgress]
        for receipt in self.receipts.read_new():
            if receipt.query_id == self.query_id:
                self._rows[receipt.batch_id] += receipt.rows
                self._landed.add(receipt.batch_id)
        for progress in finished:
            if progress is None or progress["batchId"] in self._seen:
                continue
            batch = int(progress["batchId"])
            counted = self.receipts.complete
            if counted and batch not in self._landed and batch != self.context.replayed_batch:
                raise _dropped(self.context, batch)
            self._seen[batch] = BatchProgress(
                stage=self.context.stage,
                batch=batch,
                rows=self._rows[batch] if counted else int(progress.get("numInputRows") or 0),
                seconds=float(progress["durationMs"].get("triggerExecution", 0)) / 1000,
                report=progress,
                query=self.context.query,
            )
            self.on_progress(self._seen[batch])


def _read_progress(raw: Any) -> dict[str, Any] | None:
    report = raw if isinstance(raw, dict) else json.loads(raw.json)
    # An idle trigger reports the id of the batch it did not construct, and no addBatch.
    return report if "addBatch" in (report.get("durationMs") or {}) else None


def _active_already(context: BatchContext) -> Refused:
    return Refused(
        f"{context.query} runs already in this Spark application, in another session or left behind by a driver that "
        "has gone",
        meaning="On Spark Connect a query outlives the Python process that started it, until its session ends. It was "
        "left as it is, and no second one was started.",
        next=f"surestart status --env {context.environment.name}  # its batches go on; stop it where it was started",
        do_not="set spark.sql.streaming.stopActiveRunOnRestart: it would kill that query in mid-batch.",
        code="QUERY_ACTIVE",
    )


def _not_started(stage: str, problem: PySparkException) -> StageFailed:
    first = next((line for line in str(problem).splitlines() if line.strip()), "no message")
    name = problem.getCondition() or type(problem).__name__
    return StageFailed(
        f"stage {stage!r} did not start: {first.strip()[:500]}",
        meaning="Spark refused the query before its first batch. No batch was planned and nothing was written.",
        next=f"surestart explain {name}",
        do_not="delete the checkpoint, whatever the message above says.",
        code=name,
    )


def _dropped(context: BatchContext, batch: int) -> StageFailed:
    return StageFailed(
        f"batch {batch} of {context.query} ended without a commit in its table",
        meaning="The table took it for a batch it has seen before: it is ahead of the checkpoint (rewound, restored or "
        "copied). The batch's rows are not in the table. The query was stopped.",
        next=f"surestart doctor {context.stage} --env {context.environment.name}",
        do_not="start the stage again before the doctor has said why: each further batch is dropped in the same way.",
        code="BatchDropped",
    )


def _failed(stage: str, failure: Exception) -> SurestartError:
    text = str(failure)
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", text.replace("[STREAM_FAILED]", ""))
    ours = re.search(r"^(?:[\w.]+: )?(\w+): (.+)\nMeaning: (.+)\nNext: (.+?)(?:\nDo not: (.+))?$", text, re.M)
    if ours:
        code, what, meaning, next_step, do_not = ours.groups()
        return StageFailed(what, meaning=meaning, next=next_step, do_not=do_not or "", code=code)
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    name = condition.group(1) if condition else type(failure).__name__
    return StageFailed(
        f"stage {stage!r} stopped: {first.strip()[:500]}",
        meaning="The batch it was in is planned and not committed. The sinks recognise a batch they hold, so running "
        "the stage again neither loses nor duplicates rows, if the cause is gone.",
        next=f"surestart explain {name}",
        do_not="delete the checkpoint, whatever the message above says.",
        code=name,
    )
