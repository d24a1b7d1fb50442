"""Runs a stage: one query, at its fixed checkpoint, watched until it ends.

    start gate ──> prepare the sink's tables ──> what is in flight ──> start ──> watch ──> history ──> StageRun

Used by the command line, the notebooks and the jobs alike.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from surestart.checkpoint.snapshot import read_checkpoint
from surestart.environment import Environment, check_distinct_checkpoints
from surestart.errors import SurestartError, UsageError
from surestart.gate.start_gate import pass_gate
from surestart.interrupt import deferred_interrupt
from surestart.session import applied
from surestart.settings import EVERYWHERE, pairs
from surestart.sinks.receipts import ReceiptReader
from surestart.sources.kafka_mirror import mirrored
from surestart.stage import BatchContext, Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS = 0.2


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


class StageFailed(SurestartError):
    """The query ended with an error; the batch it was in is planned and not committed, and will be replayed."""

    exit_code = 5


def run_stage(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    trigger: Trigger = AVAILABLE_NOW,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    accept: Sequence[str] = (),
) -> StageRun:
    """The stage has processed what was available (or ran until it was stopped or failed), and its history says so.

    Raises Refused or CannotTell, with nothing changed, when the start gate does not let it through. accept: codes of
    findings that cannot be decided by evidence and that somebody has looked at.
    """
    check_distinct_checkpoints({environment.query_name(stage.name): environment.checkpoint(stage.name)})
    with pass_gate(spark, environment, stage, accept=accept) as guarded, mirrored(environment, stage) as mirror:

        def count(progress: BatchProgress) -> None:
            guarded.count(progress.batch, progress.rows, progress.seconds, progress.report)
            mirror(progress)
            on_progress(progress)

        return run_ungated(spark, environment, stage, trigger=trigger, on_progress=count, on_start=guarded.started)


def run_ungated(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    trigger: Trigger = AVAILABLE_NOW,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    on_start: Callable[[str], object] = lambda query_id: None,
) -> StageRun:
    """As `run_stage`, without gate, claim and history: what Spark alone does. For tests and measurements."""
    began = monotonic()
    stage.sink.prepare(spark, environment)
    checkpoint = environment.checkpoint(stage.name)
    in_flight = read_checkpoint(checkpoint, entries=1).in_flight
    context = BatchContext(
        environment=environment,
        stage=stage.name,
        query=environment.query_name(stage.name),
        checkpoint=checkpoint,
        replayed_batch=in_flight,
    )
    receipts = ReceiptReader(stage.sink.declare(environment))
    with applied(spark, pairs(EVERYWHERE)):
        rows = stage.transform(stage.source.read_stream(spark, environment))
        writer = (
            rows.writeStream.queryName(context.query)
            .outputMode(stage.output_mode)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger.arguments())
        )
        query = stage.sink.start(writer, context)
        watched = _watch(query, context, receipts, on_progress, on_start)
    return StageRun(
        stage=stage.name,
        query_id=str(query.id),
        checkpoint=checkpoint,
        batches=len(watched),
        rows=sum(progress.rows for progress in watched),
        seconds=monotonic() - began,
        first_batch=watched[0].batch if watched else None,
        last_batch=watched[-1].batch if watched else None,
        replayed=in_flight if any(progress.batch == in_flight for progress in watched) else None,
    )


def _watch(
    query: StreamingQuery,
    context: BatchContext,
    receipts: ReceiptReader,
    on_progress: Callable[[BatchProgress], object],
    on_start: Callable[[str], object],
) -> list[BatchProgress]:
    """Reports each batch once, until the query ends; an interrupt stops the query before it goes on upwards."""
    from pyspark.errors import StreamingQueryException

    seen: dict[int, BatchProgress] = {}
    rows: Counter[int] = Counter()

    def report() -> None:
        finished = [_read_progress(raw) for raw in query.recentProgress]
        for receipt in receipts.read_new():
            if receipt.query_id == str(query.id):
                rows[receipt.batch_id] += receipt.rows
                landed.add(receipt.batch_id)
        for progress in finished:
            if progress is None or progress["batchId"] in seen:
                continue
            batch = int(progress["batchId"])
            if receipts.complete and batch not in landed and batch != context.replayed_batch:
                raise _dropped(context, batch)
            seen[batch] = BatchProgress(
                stage=context.stage,
                batch=batch,
                rows=rows[batch] if receipts.complete else int(progress.get("numInputRows") or 0),
                seconds=float(progress["durationMs"].get("triggerExecution", 0)) / 1000,
                report=progress,
            )
            on_progress(seen[batch])

    landed: set[int] = set()
    try:
        with deferred_interrupt() as interrupt:
            on_start(str(query.id))
            # pyspark's hint says int, its code multiplies by 1000 first.
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                report()
                interrupt.check()
            report()
    except StreamingQueryException as failure:
        report()
        raise _failed(context.stage, failure) from failure
    except BaseException:
        # Ctrl-C, a dropped batch or a failing callback: never leave a query running that nobody watches.
        query.stop()
        raise
    return sorted(seen.values(), key=lambda progress: progress.batch)


def _read_progress(raw: Any) -> dict[str, Any] | None:
    report = raw if isinstance(raw, dict) else json.loads(raw.json)
    # An idle trigger reports the id of the batch it did not construct, and no addBatch.
    return report if "addBatch" in (report.get("durationMs") or {}) else None


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
