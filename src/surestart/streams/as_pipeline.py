"""Declared streams as stages of a pipeline, so that doctor, gate, history and remedies ask them like any other stage.

A declared stage reads and writes nothing by itself: its owner's code does. It only says what the declaration says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.environment import Environment, Table
from surestart.errors import UsageError
from surestart.library_types import DataFrame, DataStreamWriter, SparkSession, StreamingQuery
from surestart.sources.kafka import KafkaSource, is_one_topic
from surestart.stage import BatchContext, Pipeline, Source, Stage
from surestart.streams.project_file import ProjectFile
from surestart.streams.stream import Stream
from surestart.typed import NextCommand, NextStep, Place, Words, in_the_code, surestart

PIPELINE = "streams"


@dataclass(frozen=True)
class StreamEnvironment(Environment):
    """The history of declared streams has a place; their checkpoints are where their owners have put them.

    checkpoints: stream name -> its checkpoint.
    file: the one that declares them; "" where code does."""

    checkpoints: tuple[tuple[str, str], ...] = ()
    file: str = ""

    def __post_init__(self) -> None:
        """The root is where the file lies, and no checkpoint lies there. So a date in its path lets no query begin
        anew."""
        root = "/history" if self.root else ""
        Environment(self.name, self.pipeline, "/history/checkpoints", root, self.catalog, self.schema)

    def begin_command(self, options: Words = ()) -> NextCommand:
        """surestart starts none of them."""
        note = "each stream is started by its owner; this looks again"
        return surestart("doctor", place=Place(self.name, options), note=note)

    def accept_command(self, query: str, code: str, options: Words = ()) -> NextStep:
        """Its owner's code starts it."""
        return in_the_code(f"surestart.start(writer, {query!r}, accept={[code]!r}), once somebody has looked")

    def query_name(self, stage: str) -> str:
        return stage

    def checkpoint(self, stage: str) -> str:
        return dict(self.checkpoints)[stage]

    def root_beside(self, query: str) -> str:
        """Beside the checkpoint. The folder of the history may be a driver's own disk, which is gone with the
        driver."""
        return self.checkpoint(query).rstrip("/").rpartition("/")[0] or "/"

    def with_checkpoint(self, stage: str, place: str) -> Environment:
        return replace(self, checkpoints=tuple({**dict(self.checkpoints), stage: place}.items()))

    def table(self, name: str) -> Table:
        """A table of a declared stream goes by its whole name or path; those of the history by theirs."""
        if "/" in name:
            return Table(name, path=name)
        return Table(name, qualified=name) if "." in name else super().table(name)


@dataclass(frozen=True)
class DeclaredSource:
    """Says what a stream reads; its owner's code reads it."""

    said: SourceDeclaration

    def find_input_table(self, environment: Environment) -> Table | None:
        said = self.said
        return environment.table(said.path or said.target) if said.kind == "delta" else None

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        _not_ours()

    def read_batch(self, spark: SparkSession, environment: Environment) -> DataFrame:
        _not_ours()

    def declare(self, environment: Environment) -> SourceDeclaration:
        return self.said


@dataclass(frozen=True)
class DeclaredKafka(KafkaSource):
    """Says what a stream reads, and can ask the brokers about it."""

    said: SourceDeclaration = field(default_factory=lambda: SourceDeclaration("kafka", ""))

    def declare(self, environment: Environment) -> SourceDeclaration:
        return self.said


@dataclass(frozen=True)
class DeclaredSink:
    """Says where a stream writes; its owner's code writes there."""

    said: tuple[SinkDeclaration, ...]

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        """Nothing is made: the tables are their owner's."""

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        _not_ours()

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        return self.said


@dataclass(frozen=True)
class DeclaredStage(Stage):
    """A declared stream as a stage. What nobody has declared is what the checkpoint says."""

    stream: Stream = field(default_factory=lambda: Stream("stream", "/"))

    @property
    def ours(self) -> bool:
        return False

    def declare(self, environment: Environment) -> StageDeclaration:
        stream = self.stream
        # Elsewhere only where a checkpoint is looked at before it is put in the place of this one.
        declared = dict(environment.checkpoints) if isinstance(environment, StreamEnvironment) else {}
        checkpoint = declared.get(stream.name, stream.checkpoint)
        return StageDeclaration(
            stage=stream.name,
            query=environment.query_name(stream.name),
            checkpoint=checkpoint,
            sources=stream.sources,
            sinks=stream.sinks,
            output_mode=stream.output_mode,
            state=stream.state,
            confs=self.confs,
            foreign=True,
            open_sinks=stream.open_sinks,
        )


def stage_of_stream(stream: Stream) -> DeclaredStage:
    return DeclaredStage(
        name=stream.name,
        source=_source_of(stream),
        transform=lambda rows: rows,
        sink=DeclaredSink(stream.sinks),
        output_mode=stream.output_mode,
        state=stream.state,
        stream=stream,
    )


def pipeline_of_streams(streams: Iterable[Stream]) -> Pipeline:
    stages: tuple[Stage, ...] = tuple(stage_of_stream(stream) for stream in streams)
    return Pipeline(name=PIPELINE, build_stages=lambda settings: stages)


def environment_of_streams(project: ProjectFile, name: str = "local") -> StreamEnvironment:
    """Where the history of the file's streams is kept, and where their checkpoints are."""
    by_name = "/" not in project.history and project.history.count(".") == 1
    catalog, _, schema = project.history.partition(".") if by_name else ("", "", "")
    root = "" if by_name else project.history.rstrip("/")
    return StreamEnvironment(
        name=name,
        pipeline=PIPELINE,
        checkpoint_root=f"{root}/checkpoints" if root else f"/Volumes/{catalog}/{schema}/checkpoints",
        root=root,
        catalog=catalog,
        schema=schema,
        checkpoints=tuple((stream.name, stream.checkpoint) for stream in project.streams),
        file=str(project.path.absolute()) if project.path.is_file() else "",
    )


def _source_of(stream: Stream) -> Source:
    first = stream.sources[0] if stream.sources else SourceDeclaration("other", "")
    bootstrap = dict(first.options).get("bootstrap", "")
    # Several topics, and a pattern of topics, are no one topic; they are asked by their declaration.
    if first.kind == "kafka" and bootstrap and is_one_topic(first.target):
        return DeclaredKafka(bootstrap, first.target, said=first)
    return DeclaredSource(first)


def _not_ours() -> NoReturn:
    raise UsageError(
        "this stream is declared in surestart.toml, and its code is not surestart's",
        meaning="surestart judges and guards it, and cannot start it. Nothing was started.",
        next=surestart("doctor", note="then start it as its owner does; docs/adopt.md shows how a start is guarded"),
        code="StreamNotOurs",
    )


def with_stream(environment: StreamEnvironment, stream: Stream) -> StreamEnvironment:
    """The same with one stream more."""
    kept = tuple(pair for pair in environment.checkpoints if pair[0] != stream.name)
    return replace(environment, checkpoints=(*kept, (stream.name, stream.checkpoint)))
