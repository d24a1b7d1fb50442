"""A user's own writer, behind the start gate: one line in place of `writer.start()`.

    query = surestart.start(writer, "orders")
    query = surestart.start(writer, "orders", table="main.bronze.orders")     in place of writer.toTable(…)

    the declaration ──> the writer's checkpoint and table are the declared ones ──> claim, judge ──> start ──> watch

Nothing is written before the query starts. Spark's own query is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surestart.errors import CannotTell, Refused, SurestartError
from surestart.guarding.declared import Declared, find_declared
from surestart.guarding.watched import watch, watched_at
from surestart.guarding.writer_fits import refuse_other_checkpoint, sink_of_writer, with_sink_of_writer
from surestart.history.checkpoint_place import checkpoint_place
from surestart.runs.find_owner import OWNER_RUNNING
from surestart.runs.guarded_run import GuardedRun
from surestart.runs.start_gate import open_gate
from surestart.spark.session import read_setting, restarts_running, side_session
from surestart.spark.stream_writer import read_writer, session_of_writer
from surestart.streams.as_pipeline import stage_of_stream
from surestart.streams.stream import Stream
from surestart.typed import in_the_notebook
from surestart.verdict.state_change import STATE_FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Whether a writer is started by us now: inside `surestart.guard` the same start is not guarded twice.
starting: ContextVar[bool] = ContextVar("surestart_starting", default=False)


def start(
    writer: DataStreamWriter,
    stream: Stream | str,
    path: str | None = None,
    *,
    table: str | None = None,
    accept: Sequence[str] = (),
    file: str | Path = "",
    **options: Any,
) -> StreamingQuery:
    """The query runs, claimed and watched; its end will be in the history. Raises Refused or CannotTell, with nothing
    written, when it may not start.

    stream: a name in surestart.toml, or the declaration. path, options: as `writer.start` takes them; table: as
    `writer.toTable` does. accept: codes of findings that somebody has looked at. file: the surestart.toml, if it is
    not found from the working folder. A query of this process that runs at the same checkpoint is ended first, as by
    Spark.
    """
    declared = find_declared(stream, file)
    given = {key: value for key, value in options.items() if value is not None}

    def act() -> StreamingQuery:
        if table is not None:
            return writer.toTable(table, **given)
        return writer.start(path, **given)

    return start_declared(writer, (declared,), act, path=path or "", table=table or "", options=given, accept=accept)


def start_declared(
    writer: DataStreamWriter,
    declared: Sequence[Declared],
    act: Callable[[], StreamingQuery],
    *,
    path: str,
    table: str,
    options: dict[str, Any],
    accept: Sequence[str],
    opened: Callable[[Declared], GuardedRun | None] = lambda declared: None,
) -> StreamingQuery:
    """opened: the gate that was opened for this stream before, if one was."""
    spark, facts = session_of_writer(writer), read_writer(writer, options)
    meant = refuse_other_checkpoint(spark, facts, *(one.stream for one in declared))
    own = next(one for one in declared if one.stream is meant)
    own = replace(own, stream=with_sink_of_writer(meant, sink_of_writer(facts, path, table)))
    run = opened(own) or open_declared(spark, own, accept)
    token = starting.set(True)
    try:
        query = act()
    except BaseException as reason:
        run.end_with(reason)
        raise
    finally:
        starting.reset(token)
    run.started(str(query.id))
    return watch(spark, query, run, own.stream)


def open_declared(spark: SparkSession, declared: Declared, accept: Sequence[str]) -> GuardedRun:
    """The stream is claimed and judged, and may start; a run of this process that was active is ended."""
    with _former_ended(spark, declared.stream):
        stage = replace(stage_of_stream(declared.stream), confs=_formats_of_state(spark))
        side = side_session(spark)
        return open_gate(side, declared.environment, stage, accept=accept, commands=declared.commands)


def _formats_of_state(spark: SparkSession) -> tuple[tuple[str, str], ...]:
    """What the session would write state in: of all settings of state the one that Spark does not take from the
    checkpoint."""
    value = read_setting(spark, STATE_FORMAT)
    return () if value is None else ((STATE_FORMAT, value),)


@contextmanager
def _former_ended(spark: SparkSession, stream: Stream) -> Iterator[None]:
    """A notebook's cell is run again while its query runs: Spark would end that one, and so the gate meets no claim."""
    former = watched_at(checkpoint_place(stream.checkpoint))
    if former is None:
        yield
        return
    was_active = former.is_active
    if was_active and not restarts_running(spark):
        raise Refused(
            f"{stream.name} is running already, started by this process",
            meaning="spark.sql.streaming.stopActiveRunOnRestart is false here, so it is not ended by another start. "
            "Nothing was changed.",
            next=in_the_notebook("query.stop(), then this cell again"),
            code=OWNER_RUNNING,
        )
    if was_active:
        former.stop()
    former.settle()
    try:
        yield
    except (Refused, CannotTell) as refusal:
        raise (_and_ended(refusal, stream) if was_active else refusal) from refusal


def _and_ended(refusal: SurestartError, stream: Stream) -> SurestartError:
    return type(refusal)(
        refusal.what,
        meaning=f"{refusal.meaning} The run of {stream.name} that this process had going was ended before that.",
        next=refusal.next,
        do_not=refusal.do_not,
        code=refusal.code,
    )
