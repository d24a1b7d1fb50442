"""A user's own writer, behind the start gate: one line in place of `writer.start()`.

    query = surestart.start(writer, "orders")
    query = surestart.start(writer, "orders", table="main.bronze.orders")     in place of writer.toTable(…)

    the declaration ──> the writer's checkpoint and table are the declared ones ──> claim, judge ──> start ──> watch

Nothing is written before the query starts. Spark's own query is returned.

A stream is started only if its writer does what was declared: a verdict on another checkpoint or table says nothing
about this start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from surestart.declaration import SinkDeclaration
from surestart.environment import is_absolute
from surestart.errors import CannotTell, Refused, SurestartError, UsageError
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.facts.evidence.sink_names import DELTA_KINDS, HARMLESS, UNRECORDED, read_sink_name
from surestart.guarding.declared import Declared, find_declared
from surestart.guarding.watched import watch, watched_at
from surestart.history.checkpoint_place import checkpoint_place
from surestart.library_types import DataStreamWriter, SparkSession, StreamingQuery
from surestart.runs.find_owner import OWNER_RUNNING
from surestart.runs.guarded_run import GuardedRun
from surestart.runs.stage_failures import NOTHING_PLANNED, THEIR_ENVIRONMENT, not_in_worker
from surestart.runs.start_gate import open_gate
from surestart.spark.session import qualified, read_setting, restarts_running, side_session
from surestart.spark.stream_writer import BY_FUNCTION, WriterFacts, read_writer, session_of_writer
from surestart.streams.as_pipeline import stage_of_stream
from surestart.streams.stream import Stream
from surestart.typed import in_the_code, in_the_notebook, surestart
from surestart.verdict.change import STATE_FORMAT

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
        then = in_the_code(f"the same start, once the module is in {THEIR_ENVIRONMENT}")
        missing = not_in_worker(meant.name, str(reason), NOTHING_PLANNED, then)
        run.end_with(missing or reason)
        if missing is not None:
            raise missing from reason
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


def writes_to(spark: SparkSession, facts: WriterFacts, stream: Stream) -> bool:
    """Whether the writer's checkpoint is the declared one, in whatever spelling."""
    real, declared = facts.checkpoint, stream.checkpoint
    if is_absolute(real) and checkpoint_place(real) == checkpoint_place(declared):
        return True
    found, meant = qualified(spark, real), qualified(spark, declared)
    return found is not None and meant is not None and checkpoint_place(found) == checkpoint_place(meant)


def refuse_other_checkpoint(spark: SparkSession, facts: WriterFacts, *streams: Stream) -> Stream:
    """The stream whose checkpoint the writer has; raises when it has none, or that of no declared stream."""
    names = " or ".join(stream.name for stream in streams)
    if not facts.checkpoint:
        raise UsageError(
            f"the writer of {names} has no checkpointLocation",
            meaning="Spark would make up a folder for it, and begin from nothing at each start. Nothing was started.",
            next=in_the_code(f".option('checkpointLocation', {streams[0].checkpoint!r})"),
            code="WriterWithoutCheckpoint",
        )
    found = next((stream for stream in streams if writes_to(spark, facts, stream)), None)
    if found is None:
        declared = ", ".join(f"{stream.name} at {stream.checkpoint}" for stream in streams)
        raise Refused(
            f"the writer's checkpoint is {facts.checkpoint}, and declared is {declared}",
            meaning="One checkpoint would be judged, and another one written. Nothing was started or changed.",
            next=surestart("inspect", facts.checkpoint, note="then correct the writer's option, or the declaration"),
            do_not="copy or move a checkpoint to make the two the same.",
            code="CheckpointNotDeclared",
        )
    return found


def sink_of_writer(facts: WriterFacts, path: str, table: str) -> SinkDeclaration | None:
    """Where one of Spark's own sinks writes; None for a function, and for what cannot be named from here."""
    target = table or path or facts.options.get("path", "")
    if facts.format in BY_FUNCTION:
        return None
    if facts.format == "delta" and target and (table or is_absolute(target)):
        return read_sink_name(f"delta-builtin:{target}")
    if facts.format in FILE_SINKS and is_absolute(target):
        return read_sink_name(f"{facts.format}:{target}")
    if facts.format == "kafka" and facts.options.get("topic"):
        return read_sink_name(f"kafka:{facts.options['topic']}")
    if facts.format in UNRECORDED:
        return read_sink_name(f"{facts.format}:{target or facts.name or facts.format}")
    return None


def with_sink_of_writer(stream: Stream, sink: SinkDeclaration | None) -> Stream:
    """The declaration, completed by what the writer says. Raises when the writer says something else than was
    declared."""
    if sink is None:
        return stream
    if not stream.sinks:
        return replace(stream, sinks=(sink,))
    if not any(_may_be_one(sink, declared) for declared in stream.sinks):
        raise Refused(
            f"the writer of {stream.name} writes to {_told(sink)}, and declared is "
            f"{', '.join(map(_told, stream.sinks))}",
            meaning="One table would be judged, and another one written. Nothing was started and nothing was changed.",
            next=surestart("inspect", stream.checkpoint, "--sink", f"{sink.kind}:{sink.target}"),
            do_not="start it before the two agree.",
            code="SinkNotDeclared",
        )
    return stream


def _told(sink: SinkDeclaration) -> str:
    return sink.kind if sink.target == sink.kind else f"{sink.kind} {sink.target}"


def _may_be_one(real: SinkDeclaration, declared: SinkDeclaration) -> bool:
    """False where they are two for certain: two kinds, two paths, or two names. Which path a name has is not asked, and
    a console has none that counts."""
    if declared.kind == "other":
        return True
    if _family(real.kind) != _family(declared.kind):
        return False
    if real.kind in HARMLESS:
        return True
    if real.path and declared.path:
        return checkpoint_place(real.path) == checkpoint_place(declared.path)
    if real.path or declared.path:
        return True
    one, other = (_parts(sink.target) for sink in (real, declared))
    shared = min(len(one), len(other))
    return one[-shared:] == other[-shared:]


def _family(kind: str) -> str:
    """What one format of Spark may have been declared as: `adopt` sees of a file sink that it is one, and not which."""
    return "delta" if kind in DELTA_KINDS else "files" if kind in FILE_SINKS else kind


def _parts(name: str) -> list[str]:
    return [part.strip("`").lower() for part in name.split(".")]
