"""Runs stages: each one query at its fixed checkpoint, behind the start gate, watched until it ends.

    start gate ──> prepare the sink's tables ──> what is in flight ──> start ──> watch ──> history ──> StageRun

`run_stage` runs one; `run_stages` several side by side, for triggers that never end. Used by the command line, the
notebooks and the jobs alike.

Ctrl-C while a query runs: remembered, and acted on between two questions to Spark.

An interrupt in the middle of a call into the JVM breaks the connection to it, and the query could not be stopped any
more. A second Ctrl-C is not waited for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType

from surestart.environment import Environment, check_distinct_checkpoints
from surestart.errors import SurestartError
from surestart.history.describe_run import named
from surestart.journal.stage_start import after_remedy
from surestart.library_types import SparkSession
from surestart.runs.guarded_run import GuardedRun, StoppedWith, write_warning
from surestart.runs.running_query import (
    AVAILABLE_NOW,
    BatchProgress,
    RunningQuery,
    StageRun,
    Trigger,
    processing_time,
    start_query,
)
from surestart.runs.stage_failures import StageFailed
from surestart.runs.start_gate import open_gate, pass_gate
from surestart.sources.kafka_mirror import mirrored
from surestart.sources.kafka_secrets import HidesSecrets
from surestart.spark.session import applied, stream_session
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.stage import Stage
from surestart.typed import surestart

__all__ = [
    "AVAILABLE_NOW",
    "BatchProgress",
    "StageFailed",
    "StageRun",
    "Trigger",
    "processing_time",
    "run_stage",
    "run_stages",
    "run_ungated",
]

_POLL_SECONDS = 0.2


def run_stage(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    trigger: Trigger = AVAILABLE_NOW,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    accept: Sequence[str] = (),
    warn: Callable[[SurestartError], object] = write_warning,
) -> StageRun:
    """The stage has processed what was available (or ran until it was stopped or failed), and its history says so.

    Raises Refused or CannotTell, with nothing changed, when the start gate does not let it through. accept: codes of
    findings that cannot be decided by evidence and that somebody has looked at.
    """
    gate = pass_gate(spark, environment, stage, accept=accept, warn=warn)
    with HidesSecrets(stage.source), gate as guarded, mirrored(environment, stage) as mirror:

        def count(progress: BatchProgress) -> None:
            guarded.count(progress.batch, progress.rows, progress.seconds, progress.report)
            mirror(progress)
            on_progress(progress)

        begun = after_remedy(spark, environment, stage)
        return run_ungated(
            spark,
            environment,
            begun,
            trigger=trigger,
            on_progress=count,
            on_start=guarded.started,
            on_poll=guarded.beat,
            claim=guarded.claim,
        )


def run_ungated(
    spark: SparkSession,
    environment: Environment,
    stage: Stage,
    *,
    trigger: Trigger = AVAILABLE_NOW,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    on_start: Callable[[str], object] = lambda query_id: None,
    on_poll: Callable[[], object] = lambda: None,
    claim: tuple[str, str] = ("", ""),
) -> StageRun:
    """As `run_stage`, without gate, claim and history: what Spark alone does. For tests and measurements."""
    with HidesSecrets(stage.source), applied(spark, pairs(EVERYWHERE)):
        running = start_query(spark, environment, stage, trigger=trigger, on_progress=on_progress, claim=claim)
        try:
            with deferred_interrupt() as interrupt:
                on_start(running.query_id)
                while not running.poll(_POLL_SECONDS):
                    on_poll()
                    interrupt.check()
        except BaseException:
            # Ctrl-C, a dropped batch or a failing callback: never leave a query running that nobody watches.
            running.stop()
            raise
    return running.result()


def run_stages(
    spark: SparkSession,
    environment: Environment,
    stages: Sequence[Stage],
    *,
    trigger: Trigger,
    on_begin: Callable[[str], object] = lambda query: None,
    on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    accept: Sequence[str] = (),
    warn: Callable[[SurestartError], object] = write_warning,
) -> list[StageRun]:
    """The stages have run side by side in this process until they ended, each behind its gate and with its history.

    They start in their order. The first that is refused, fails, or is stopped by somebody else ends the others at
    once, and is the one that the error names; no stage goes on while nobody reads what it writes.
    """
    check_distinct_checkpoints((environment.query_name(one.name), environment.checkpoint(one.name)) for one in stages)
    members: list[_Member] = []
    open_ended = not trigger.available_now
    try:
        with deferred_interrupt() as interrupt:
            for stage in stages:
                on_begin(environment.query_name(stage.name))
                member = _Member(stage)
                members.append(member)
                member.start(spark, environment, trigger, on_progress, accept, warn)
                interrupt.check()
            running = members
            while running:
                running = [member for member in running if not member.poll(_POLL_SECONDS / len(members), open_ended)]
                interrupt.check()
    except BaseException as reason:
        failed = next((member for member in members if member.failure is reason), None)
        stopped = [_where_it_stands(member.running) for member in members if member is not failed and member.running]
        with ExitStack() as ends:
            for member in members:
                # Called one after the other, also when one of them raises.
                ends.callback(member.end, reason, failed.stage.name if failed else "")
        if failed is not None and stopped and isinstance(reason, SurestartError):
            raise _with_the_others(reason, failed.stage, stopped) from reason
        raise
    done = [member.running.result() for member in members if member.running is not None]
    with ExitStack() as ends:
        for member in members:
            ends.callback(member.end, None)
    return done


class _Member:
    """One of several stages that run side by side. failure: what it raised itself."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.running: RunningQuery | None = None
        self.failure: BaseException | None = None
        self._guarded: GuardedRun | None = None
        self._holds = ExitStack()
        self._session = ExitStack()

    def start(
        self,
        spark: SparkSession,
        environment: Environment,
        trigger: Trigger,
        on_progress: Callable[[BatchProgress], object],
        accept: Sequence[str],
        warn: Callable[[SurestartError], object],
    ) -> None:
        try:
            with HidesSecrets(self.stage.source):
                session = self._session.enter_context(stream_session(spark))
                guarded = self._guarded = open_gate(session, environment, self.stage, accept=accept, warn=warn)
                mirror = self._holds.enter_context(mirrored(environment, self.stage))
                self._holds.enter_context(applied(session, pairs(EVERYWHERE)))

                def count(progress: BatchProgress) -> None:
                    guarded.count(progress.batch, progress.rows, progress.seconds, progress.report)
                    mirror(progress)
                    on_progress(progress)

                stage = after_remedy(session, environment, self.stage)
                self.running = start_query(
                    session, environment, stage, trigger=trigger, on_progress=count, claim=guarded.claim
                )
                guarded.started(self.running.query_id)
        except BaseException as failure:
            self.failure = failure
            raise

    def poll(self, seconds: float, open_ended: bool) -> bool:
        assert self.running is not None
        assert self._guarded is not None
        self._guarded.beat()
        try:
            with HidesSecrets(self.stage.source):
                ended = self.running.poll(seconds)
            if ended and open_ended:
                raise _stopped_by_somebody(self.running)
        except BaseException as failure:
            self.failure = failure
            raise
        return ended

    def end(self, reason: BaseException | None, failed: str = "") -> None:
        """Its query has ended, and its history says how: by its own failure, or stopped because of another's."""
        with self._session, ExitStack() as ends:
            if self._guarded is not None:
                own = reason is None or reason is self.failure
                ends.callback(self._guarded.end_with, reason if own else StoppedWith(failed, reason))
            with self._holds:
                if self.running is not None and reason is not None:
                    self.running.stop()


def _stopped_by_somebody(running: RunningQuery) -> StageFailed:
    last = running.result().last_batch
    return StageFailed(
        f"{running.context.query} was stopped from outside this command, "
        + ("before its first batch" if last is None else f"after batch {last}"),
        meaning="Nothing is wrong with its rows; but with this trigger it should never end.",
        next=surestart("status", place=named(running.context.environment)),
        code="QueryStopped",
    )


def _where_it_stands(running: RunningQuery) -> str:
    last = running.result().last_batch
    return f"{running.context.stage} ({'no batch' if last is None else f'last batch {last}'})"


def _with_the_others(reason: SurestartError, failed: Stage, stopped: Sequence[str]) -> SurestartError:
    """The same error, with the name of its stage and what became of the other stages."""
    others = f"It was {failed.name}. The other stages of this process were stopped: {', '.join(stopped)}."
    return type(reason)(
        reason.what,
        meaning=f"{reason.meaning} {others}",
        next=reason.next,
        do_not=reason.do_not,
        code=reason.code,
    )


class Interrupt:
    def __init__(self) -> None:
        self.requested = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed since the block began."""
        if self.requested:
            raise KeyboardInterrupt


@contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """Inside the block the first Ctrl-C only notes itself. Python delivers signals to the main thread; elsewhere this
    changes nothing."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    former = signal.signal(signal.SIGINT, interrupt._note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, former)
