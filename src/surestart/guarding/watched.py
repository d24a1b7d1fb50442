"""A guarded query while it runs: each batch is counted, and its end is in the history before anybody hears of it.

    listener (classic Spark)    each batch's report, as Spark sends it
    a thread for each query     beats the claim; when the query has ended: last reports, history row, claim given up

On Spark Connect the reports are fetched by the thread: a listener there has a thread of pyspark's own which would keep
the process alive for ever (StreamingQueryListenerBus of Spark 4.0).
"""

from __future__ import annotations

import atexit
import copy
import logging
import threading
from collections.abc import Sequence
from typing import Any

from surestart.environment import Table
from surestart.facts.evidence.sink_names import DELTA_KINDS
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.run_record import FAILED, FINISHED, STOPPED
from surestart.library_types import SparkSession, StreamingQuery
from surestart.runs.guarded_run import GuardedRun
from surestart.runs.running_query import as_report, has_run, rows_of_report
from surestart.spark.session import is_connect
from surestart.streams.stream import Stream
from surestart.words.spark_errors import condition_of

_log = logging.getLogger("surestart.guarding")
# Well within the time after which a silent owner is taken for dead (runs.owner.GRACE); Spark keeps a hundred reports.
BEAT_SECONDS = 5.0
# A row in the history is a commit of a second or two; whoever waits for it does not wait for ever.
SETTLE_SECONDS = 120.0
_lock = threading.Lock()
_watched: list[Watched] = []


class Watched:
    """One started query and its run. place: of its checkpoint. tables: that it is declared to write."""

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, run: GuardedRun, place: str, tables: Sequence[Table] = ()
    ) -> None:
        self.place, self._run, self._spark, self._tables = place, run, spark, tuple(tables)
        # The user's object waits for the history in awaitTermination and stop; the thread must not wait for itself.
        self._query = copy.copy(query)
        self._stopped = False
        self._newest: int | None = None
        self._counting = threading.Lock()
        self._listener: Any = None
        self._thread = threading.Thread(target=self._watch, name=f"surestart {run.record.query}", daemon=True)

    def begin(self) -> None:
        with _lock:
            _watched.append(self)
        if not is_connect(self._spark):
            self._listener = listen(self._spark, self)
        self._thread.start()

    @property
    def run_id(self) -> str:
        return str(self._query.runId)

    @property
    def is_active(self) -> bool:
        if not self._thread.is_alive():
            return False
        try:
            return bool(self._query.isActive)
        except Exception as problem:  # noqa: BLE001  A session that has gone says it in many ways; its queries went with it.
            _log.info("%s cannot be asked any more: %s", self._run.record.query, problem)
            return False

    def will_stop(self) -> None:
        """From here on the end of the query is intended, and not a failure."""
        self._stopped = True

    def stop(self) -> None:
        """The query has ended, and the history says so."""
        self._stopped = True
        self._query.stop()
        self.settle()

    def settle(self) -> None:
        """The query, which has ended, is in the history, and its claim is given up."""
        if threading.current_thread() is not self._thread:
            self._thread.join(SETTLE_SECONDS)

    def count(self, raw: Any) -> None:
        """A batch's report is counted, unless it was counted before. An idle trigger's report is of no batch."""
        report = as_report(raw)
        if report is None or not has_run(report):
            return
        batch = int(report["batchId"])
        seconds = float(report["durationMs"].get("triggerExecution", 0)) / 1000
        with self._counting:
            if self._newest is None or batch > self._newest:
                self._newest = batch
                rows = rows_of_report(self._spark, report, self._tables, str(self._query.id))
                self._run.count(batch, rows, seconds, report)

    def _watch(self) -> None:
        failure: Exception | None = None
        try:
            # pyspark's hint says int, its code multiplies by 1000 first.
            while not self._query.awaitTermination(BEAT_SECONDS):  # type: ignore[arg-type]
                self._run.beat()
                if self._listener is None:
                    self._count_recent()
        except Exception as problem:  # noqa: BLE001  The query's own failure, which its owner is told by Spark.
            failure = problem
        try:
            self._count_recent()
        except Exception as problem:  # noqa: BLE001  Spark has gone: the run is in the history without its last batches.
            _log.warning("the last batches of %s are not known: %s", self._run.record.query, problem)
        self._end(failure)

    def _count_recent(self) -> None:
        for raw in self._query.recentProgress:
            self.count(raw)

    def _end(self, failure: Exception | None) -> None:
        try:
            if failure is not None:
                self._run.ended(FAILED, condition_of(failure) or type(failure).__name__)
            else:
                self._run.ended(STOPPED if self._stopped else FINISHED)
        finally:
            # Not before: until here the claim is this run's.
            with _lock:
                _watched.remove(self)
        if self._listener is not None:
            self._listener.leave(self)


def watched_at(place: str) -> Watched | None:
    """The guarded query of this process at that checkpoint that has not ended, or has not been written down yet."""
    with _lock:
        return next((one for one in _watched if one.place == place), None)


def watched_here() -> list[Watched]:
    """The guarded queries of this process that run, or are being written down."""
    with _lock:
        return list(_watched)


def watch(spark: SparkSession, query: StreamingQuery, run: GuardedRun, stream: Stream) -> StreamingQuery:
    """The query is watched until it ends. The same object is returned; its awaitTermination and stop return when the
    end is in the history: a script's next line may stop Spark."""
    tables = [
        Table(sink.target, path=sink.path) if sink.path else Table(sink.target, qualified=sink.target)
        for sink in stream.sinks
        if sink.kind in DELTA_KINDS
    ]
    watched = Watched(spark, query, run, checkpoint_place(stream.checkpoint), tables)
    query._surestart_watched = watched  # type: ignore[attr-defined]
    query.__class__ = _settling(type(query))
    watched.begin()
    return query


_kinds: dict[type, type] = {}


def _settling(kind: Any) -> type:
    """Spark's own class, changed so that whoever waits for the query's end also waits for its row in the history."""
    if kind in _kinds:
        return _kinds[kind]

    def await_termination(self: Any, timeout: Any = None) -> Any:
        watched: Watched = self._surestart_watched
        try:
            ended = kind.awaitTermination(self, timeout)
        except Exception:
            if not watched.is_active:
                watched.settle()
            raise
        if timeout is None or ended:
            watched.settle()
        return ended

    def stop(self: Any) -> None:
        self._surestart_watched.will_stop()
        kind.stop(self)
        self._surestart_watched.settle()

    members = {"awaitTermination": await_termination, "stop": stop, "__doc__": kind.__doc__, "__module__": __name__}
    return _kinds.setdefault(kind, type(kind.__name__, (kind,), members))


_listeners: dict[int, Any] = {}


def listen(spark: SparkSession, watched: Watched) -> Any:
    """The session's listener, which sends the query's reports to it. One for each session: each would get them all."""
    with _lock:
        there = _listeners.get(id(spark))
        if there is None:
            there = _listeners[id(spark)] = _new_listener(spark)
            spark.streams.addListener(there)
        there.members[watched.run_id] = watched
        return there


def _new_listener(spark: SparkSession) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Reports(StreamingQueryListener):
        members: dict[str, Watched]

        def onQueryStarted(self, event: Any) -> None:
            """The query is known from its start."""

        def onQueryProgress(self, event: Any) -> None:
            watched = self.members.get(str(event.progress.runId))
            if watched is not None:
                watched.count(event.progress)

        def onQueryIdle(self, event: Any) -> None:
            """Nothing to count."""

        def onQueryTerminated(self, event: Any) -> None:
            """Nothing to do: the thread learns of it as quickly, and no Spark job can be waited for in here."""

        def leave(self, watched: Watched) -> None:
            with _lock:
                self.members.pop(watched.run_id, None)
                if self.members or _listeners.get(id(spark)) is not self:
                    return
                del _listeners[id(spark)]
            try:
                spark.streams.removeListener(self)
            except Exception as problem:  # noqa: BLE001  Where the session has gone, so has its listener.
                _log.info("the session has ended before its listener: %s", problem)

    reports = Reports()
    reports.members = {}
    return reports


def _settle_ended() -> None:
    """At the end of the process: what has ended is written down. What runs ends with the process, and its claim says to
    the next start how it ended."""
    for watched in watched_here():
        if not watched.is_active:
            watched.settle()


atexit.register(_settle_ended)
