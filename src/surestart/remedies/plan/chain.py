"""The stages as a chain: what each writes, and whose rows it reads.

    files or Kafka ──> raw-ingest [sensor_raw: every-row] ──> deserialize [good, quarantine] ──> merge-gold [newest]

A remedy of one stage touches every stage below it: their input changes under their hands. Rows are known by their
position (source, partition, offset), which they keep from the first table to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surestart.environment import Environment, Table
from surestart.errors import Refused
from surestart.journal.next_command import named
from surestart.sinks.both import Both
from surestart.sinks.delta.append import DeltaAppend
from surestart.sinks.delta.merge import DeltaMerge
from surestart.sinks.delta.split import DeltaSplit
from surestart.sinks.postgres.sink import PostgresSink
from surestart.sources.delta import DeltaSource
from surestart.stage import Stage

POSITION = ("source", "partition", "offset")
EVERY_ROW, GOOD, QUARANTINE, NEWEST = "every-row", "good", "quarantine", "newest"


@dataclass(frozen=True)
class Output:
    """A Delta table that a stage writes. role: each input row is in it once (every-row), or in exactly one of a pair
    (good, quarantine), or the newest of its keys by `order` is (newest). partition_by: of a keyed one."""

    table: Table
    role: str
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """upstream: the stage whose table is read, "" for the first. input: that table."""

    stage: Stage
    query: str
    checkpoint: str
    outputs: tuple[Output, ...]
    databases: tuple[PostgresSink, ...] = ()
    upstream: str = ""
    input: Table | None = None

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def keyed(self) -> bool:
        if not self.outputs:
            return all(sink.mode == "upsert" for sink in self.databases)
        return all(output.role == NEWEST for output in self.outputs)

    def mirror_of(self, sink: PostgresSink) -> Output | None:
        """The Delta table of the stage that holds the same rows as that PostgreSQL table, if there is one."""
        for output in self.outputs:
            newest = output.role == NEWEST and (output.keys, output.order) == (sink.keys, sink.order)
            if output.role == EVERY_ROW or (newest and sink.mode == "upsert"):
                return output
        return None


@dataclass(frozen=True)
class Chain:
    links: tuple[Link, ...]

    def __iter__(self) -> Iterator[Link]:
        return iter(self.links)

    def link(self, name: str) -> Link:
        return next(link for link in self.links if link.name == name)

    def below(self, name: str) -> tuple[Link, ...]:
        """The stage and every stage that reads its rows, directly or not, in the order in which rows pass."""
        reached = {name}
        for link in self.links:
            if link.upstream in reached:
                reached.add(link.name)
        return tuple(link for link in self.links if link.name in reached)


def read_chain(environment: Environment, stages: Sequence[Stage]) -> Chain:
    """The stages in their order. Raises Refused for a sink whose rows nobody here knows how to take back."""
    links: list[Link] = []
    writers: dict[str, str] = {}
    for stage in stages:
        outputs, databases = _outputs(environment, stage.name, stage.sink)
        table = environment.table(stage.source.table) if isinstance(stage.source, DeltaSource) else None
        links.append(
            Link(
                stage=stage,
                query=environment.query_name(stage.name),
                checkpoint=environment.checkpoint(stage.name),
                outputs=outputs,
                databases=databases,
                upstream=writers.get(table.label, "") if table else "",
                input=table,
            )
        )
        writers.update({output.table.label: stage.name for output in outputs})
    return Chain(tuple(links))


def _outputs(environment: Environment, stage: str, sink: object) -> tuple[tuple[Output, ...], tuple[PostgresSink, ...]]:
    if isinstance(sink, DeltaAppend):
        return (Output(environment.table(sink.table), EVERY_ROW),), ()
    if isinstance(sink, DeltaSplit):
        good, bad = environment.table(sink.good), environment.table(sink.quarantine)
        return (Output(good, GOOD), Output(bad, QUARANTINE)), ()
    if isinstance(sink, DeltaMerge):
        return (Output(environment.table(sink.table), NEWEST, sink.keys, sink.order, sink.partition_by),), ()
    if isinstance(sink, PostgresSink):
        return (), (sink,)
    if isinstance(sink, Both):
        parts = [_outputs(environment, stage, part) for part in (sink.first, sink.second)]
        return tuple(one for part in parts for one in part[0]), tuple(one for part in parts for one in part[1])
    raise Refused(
        f"stage {stage!r} writes to a {type(sink).__name__}, which no remedy knows",
        meaning="A remedy removes rows by their position; for this sink nobody has said how. Nothing was planned.",
        next=f"surestart doctor {stage} {named(environment)}",
        do_not="delete the checkpoint instead: what the sink holds would be written again.",
        code="SinkWithoutRemedy",
    )
