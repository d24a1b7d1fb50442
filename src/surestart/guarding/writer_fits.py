"""A stream is started only if its writer does what was declared: a verdict on another checkpoint or table says nothing
about this start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration
from surestart.environment import is_absolute
from surestart.errors import Refused, UsageError
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.facts.evidence.sink_names import UNRECORDED, read_sink_name
from surestart.history.checkpoint_place import checkpoint_place
from surestart.spark.session import qualified
from surestart.spark.stream_writer import BY_FUNCTION, WriterFacts
from surestart.streams.stream import Stream
from surestart.typed import in_the_code, surestart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
            meaning="Judged would be one checkpoint, and another written. Nothing was started and nothing was changed.",
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
            f"the writer of {stream.name} writes to {sink.target}, and declared is "
            f"{', '.join(one.target for one in stream.sinks)}",
            meaning="Judged would be one table, and another written. Nothing was started and nothing was changed.",
            next=surestart("inspect", stream.checkpoint, "--sink", f"{sink.kind}:{sink.target}"),
            do_not="start it before the two are the same.",
            code="SinkNotDeclared",
        )
    return stream


def _may_be_one(real: SinkDeclaration, declared: SinkDeclaration) -> bool:
    """False where they are two for certain: two paths, or two names. Which path a name has is not asked."""
    if real.path and declared.path:
        return checkpoint_place(real.path) == checkpoint_place(declared.path)
    if real.path or declared.path:
        return True
    one, other = (_parts(sink.target) for sink in (real, declared))
    shared = min(len(one), len(other))
    return one[-shared:] == other[-shared:]


def _parts(name: str) -> list[str]:
    return [part.strip("`").lower() for part in name.split(".")]
