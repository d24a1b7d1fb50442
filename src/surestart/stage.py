"""A stage is a frozen value: where it reads, how rows change, where they go. Running it is the runner's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.environment import Environment
from surestart.library_types import DataFrame, DataStreamWriter, SparkSession, StreamingQuery

# By these a row is known, from the first table to the last: a topic or file, its partition, the place in it.
POSITION = ("source", "partition", "offset")
Transform = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True)
class BatchContext:
    """What a sink needs to know of the run it writes for. Plain values: Spark Connect pickles it.

    replayed_batch: the batch that was planned and not committed when the run started. It is the one batch of a run that
        the sink may have seen before.
    first_new_batch: the first batch that no run has planned yet.
    query_id: what the checkpoint held when the run started; "" for a checkpoint that was yet to be made.
    claim, run_id: the file that says which run owns the query, where there is one, and that run."""

    environment: Environment
    stage: str
    query: str
    checkpoint: str
    replayed_batch: int | None = None
    first_new_batch: int | None = None
    query_id: str = ""
    claim: str = ""
    run_id: str = ""


class Source(Protocol):
    """Where a stage reads from, as a stream, and as everything that is there now. A source of a kind of its own may say
    more: `surestart.sources.abilities`."""

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame: ...

    def read_batch(self, spark: SparkSession, environment: Environment) -> DataFrame:
        """Everything that the source holds now, with the columns and the positions of its stream."""

    def declare(self, environment: Environment) -> SourceDeclaration: ...


@runtime_checkable
class Sink(Protocol):
    """Where a stage writes to: each batch once, however often Spark brings it."""

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        """The tables exist with this stage's layout; a table with a foreign schema is refused."""

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery: ...

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]: ...


@dataclass(frozen=True)
class Stage:
    """One query: where it reads, how its rows change, where they go.

    name: without that of the pipeline; the query is `<pipeline>-<name>`.
    source, sink: where it reads from and writes to.
    transform: from the rows of the source to those of the sink; pure.
    output_mode: as Spark has it.
    state: the names of its stateful operators, so that another state than the stored one is noticed; with their columns
        (`dedupe: key(k string, g int)`) those are compared as well.
    confs: Spark settings of this query, as pairs."""

    name: str
    source: Source
    transform: Transform
    sink: Sink
    output_mode: str = "append"
    state: tuple[str, ...] = ()
    confs: tuple[tuple[str, str], ...] = ()

    @property
    def ours(self) -> bool:
        """Whether surestart starts it; of a declared stream its owner's code does."""
        return True

    def declare(self, environment: Environment) -> StageDeclaration:
        return StageDeclaration(
            stage=self.name,
            query=environment.query_name(self.name),
            checkpoint=environment.checkpoint(self.name),
            sources=(self.source.declare(environment),),
            sinks=self.sink.declare(environment),
            output_mode=self.output_mode,
            state=self.state,
            confs=self.confs,
        )


class RowAccount(Protocol):
    """Rows of each table against the input, counted without the code under test."""

    @property
    def lost(self) -> int: ...

    @property
    def duplicated(self) -> int: ...

    @property
    def faults(self) -> Mapping[str, int]: ...

    @property
    def is_exact(self) -> bool: ...

    @property
    def notes(self) -> Mapping[str, int]:
        """What is no fault and has to be said, such as rows that no stage has read yet."""


class RowCount(Protocol):
    """last: the stage that ran last. What later stages have not read yet is not lost."""

    def __call__(self, environment: Environment, settings: Mapping[str, str], last: str = ...) -> RowAccount | None: ...


@dataclass(frozen=True)
class Pipeline:
    """The stages of a pipeline in the order in which rows pass through them, and what else the command line may call.

    stages(settings) builds them from plain settings (`source=kafka`, `topic=…`); prepare makes sample input when there
    is none; count compares input and tables row by row, up to the output of the stage that ran last, and returns a
    printable account, or None where it cannot judge them.
    """

    name: str
    build_stages: Callable[[Mapping[str, str]], tuple[Stage, ...]]
    prepare: Callable[[Environment, Mapping[str, str]], None] | None = None
    count: RowCount | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
