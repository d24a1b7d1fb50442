"""The stages as a chain: what each writes, and whose rows it reads.

    files or Kafka ──> raw-ingest [sensor_raw: every-row] ──> deserialize [good, quarantine] ──> merge-gold [newest]

A remedy of one stage touches every stage below it, because their input changes. Rows are known by their
position (source, partition, offset), which they keep from the first table to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment, Table
from surestart.errors import Refused, UsageError
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.facts.evidence.sink_names import DELTA_KINDS
from surestart.history.describe_run import named, plan_command
from surestart.library_types import DataFrame, SparkSession
from surestart.sinks.abilities import (
    EVERY_ROW,
    GOOD,
    NEWEST,
    QUARANTINE,
    Clearable,
    Output,
    clearable,
    databases_of,
    parts_of,
    tables_of,
)
from surestart.sinks.postgres.sink import PostgresSink
from surestart.sources.abilities import input_table_of
from surestart.stage import POSITION, Stage
from surestart.typed import NextCommand, surestart

__all__ = ["EVERY_ROW", "GOOD", "NEWEST", "POSITION", "QUARANTINE", "Chain", "Link", "Output", "OwnSink", "read_chain"]
# For a stream that is only declared: nobody has said which rows are in it.
DECLARED = "declared"
_OF_DECLARED = ("resume", "rewind", "restart", "move", "retire")


@dataclass(frozen=True)
class OwnSink:
    """A sink that clears by itself what it holds, and how it is called: its kind and its target."""

    environment: Environment
    target: str
    label: str
    sink: Clearable

    def read_positions(self, spark: SparkSession, removed: str = "") -> DataFrame | None:
        return self.sink.read_positions(spark, self.environment, removed)


@dataclass(frozen=True)
class Link:
    """outputs, databases, own_sinks: what it writes to.
    upstream: the stage whose table is read, "" for the first.
    input: that table."""

    stage: Stage
    query: str
    checkpoint: str
    outputs: tuple[Output, ...]
    databases: tuple[PostgresSink, ...] = ()
    own_sinks: tuple[OwnSink, ...] = ()
    upstream: str = ""
    input: Table | None = None

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def keyed(self) -> bool:
        if self.own_sinks:
            return False
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


def refuse_declared(environment: Environment, chain: Chain, name: str, remedy: str, emptied: bool = False) -> None:
    """Raises where a remedy would have to know what a declared stream's rows are, or to start it. emptied: its tables
    would be emptied."""
    for link in chain.below(name):
        if not link.stage.ours and (remedy not in _OF_DECLARED or emptied):
            raise _not_ours(environment, link, f"{remedy} --clear-tables" if emptied else remedy)
        if remedy == "rewind" and link.name == name and not link.stage.ours:
            _refuse_unrecorded(environment, link.stage)


def read_again_command(environment: Environment, links: Sequence[Link], note: str = "") -> NextCommand:
    """The command that has the first of these stages read again: from a batch on, or all of it where a sink of your own
    can only be cleared as a whole."""
    if any(link.own_sinks for link in links):
        return plan_command(environment, "reset", links[0].name, note="all of it, from the beginning")
    return plan_command(environment, "replay", links[0].name, "--from-batch", 0, note=note)


def anew_command(environment: Environment, link: Link) -> NextCommand:
    """The command that is left where a table cannot go back: to begin anew. A declared stream is begun anew by its
    owner."""
    return plan_command(environment, "reset" if link.stage.ours else "restart", link.name)


def _not_ours(environment: Environment, link: Link, remedy: str) -> UsageError:
    return UsageError(
        f"{link.name} is declared in surestart.toml, and its code is not surestart's",
        meaning=f"A {remedy} removes rows by their position and starts the stage again. For this stream surestart "
        "can do neither. Nothing was planned.",
        next=surestart("plan", "rewind", link.name, "-o", "plan.json", place=named(environment)),
        code="StreamNotOurs",
    )


def read_chain(environment: Environment, stages: Sequence[Stage]) -> Chain:
    """The stages in their order. Raises Refused for a sink whose rows surestart cannot take back."""
    links: list[Link] = []
    writers: dict[str, str] = {}
    for stage in stages:
        outputs, databases, own_sinks = _what_it_writes(environment, stage)
        table = input_table_of(stage.source, environment)
        links.append(
            Link(
                stage=stage,
                query=environment.query_name(stage.name),
                checkpoint=environment.checkpoint(stage.name),
                outputs=outputs,
                databases=databases,
                own_sinks=own_sinks,
                upstream=writers.get(table.label, "") if table else "",
                input=table,
            )
        )
        writers.update({output.table.label: stage.name for output in outputs})
    return Chain(tuple(links))


def _declared_outputs(environment: Environment, stage: Stage) -> tuple[Output, ...]:
    """The Delta tables that it writes; a remedy that needs to know of others refuses them."""
    tables = (one for one in stage.sink.declare(environment) if one.is_delta)
    return tuple(Output(environment.table(one.path or one.target), DECLARED, one.keys) for one in tables)


def _refuse_unrecorded(environment: Environment, stage: Stage) -> None:
    """Raises for a sink that cannot go back. The error names what is left: to begin anew from a batch."""
    for one in stage.sink.declare(environment):
        if one.is_delta and one.identity in ("query-id", "unknown"):
            continue
        under = {"constant": f" under the identity {one.constant!r}", "none": " under no identity"}
        raise Refused(
            f"stream {stage.name!r} writes to {one.kind} {one.target}{under.get(one.identity, '')}",
            meaning=f"{_why_not_back(one)} A rewind is for Delta tables that are written under the query id. Nothing "
            "was planned.",
            next=plan_command(
                environment,
                "restart",
                stage.name,
                "--from-batch",
                0,
                note="or from the batch that is wrong; it says what comes twice",
            ),
            do_not="delete the checkpoint instead: what the sink holds would be written again.",
            code="SinkWithoutRemedy",
        )


def _why_not_back(sink: SinkDeclaration) -> str:
    if sink.kind in DELTA_KINDS:
        return (
            "It would take no batch that it has under that identity, so what is taken back would not come again."
            if sink.identity == "constant"
            else "The table does not say which of its commits belong to which batch."
        )
    if sink.kind == "kafka":
        return "A topic takes no record back, and its readers may have it."
    if sink.kind in FILE_SINKS:
        return "Its log knows a batch by its number alone, and leaves out one that it has, even with other rows."
    return "It does not keep what it held at a batch."


def _what_it_writes(
    environment: Environment, stage: Stage
) -> tuple[tuple[Output, ...], tuple[PostgresSink, ...], tuple[OwnSink, ...]]:
    if not stage.ours:
        return _declared_outputs(environment, stage), (), ()
    outputs: list[Output] = []
    databases: list[PostgresSink] = []
    own_sinks: list[OwnSink] = []
    for part in parts_of(stage.sink):
        if tables := tables_of(part, environment):
            outputs += tables
        elif written := databases_of(part):
            databases += written
        elif own := clearable(part):
            (declared,) = own.declare(environment)
            own_sinks.append(OwnSink(environment, declared.target, f"{declared.kind} {declared.target}", own))
        else:
            raise _without_remedy(environment, stage.name, part)
    return tuple(outputs), tuple(databases), tuple(own_sinks)


def _without_remedy(environment: Environment, stage: str, sink: object) -> Refused:
    return Refused(
        f"stage {stage!r} writes to a {type(sink).__name__}, which no remedy knows",
        meaning="A remedy removes rows from the output, and this sink does not say how: it has no method remove_all "
        "(docs/your-own-sink.md). Nothing was planned.",
        next=surestart("doctor", stage, place=named(environment)),
        do_not="delete the checkpoint instead: what the sink holds would be written again.",
        code="SinkWithoutRemedy",
    )
