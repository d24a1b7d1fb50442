"""What a sink can do beside writing batches.

Each ability is a method that a sink has or has not. Whoever needs one asks for it here, so no sink has to be known by
its class.

    parts            it is made of other sinks, and each of them is asked by itself
    outputs          it writes Delta tables: a remedy clears, counts and restores them
    databases        it writes PostgreSQL tables: likewise, by their ledger
    read_evidence    it says which batches it holds: doctor and start gate judge by that
    fill_once        it takes rows that are missing: a backfill
    remove_all …     it clears what it holds by itself, and puts it back: a remedy of a sink of your own

docs/your-own-sink.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from surestart.environment import Environment, Table
from surestart.errors import SurestartError
from surestart.facts.evidence.sink_evidence import SinkEvidence, sink_unreadable
from surestart.library_types import DataFrame, SparkSession
from surestart.stage import BatchContext, Sink

if TYPE_CHECKING:
    from surestart.sinks.postgres.sink import PostgresSink

EVERY_ROW, GOOD, QUARANTINE, NEWEST = "every-row", "good", "quarantine", "newest"


@dataclass(frozen=True)
class Output:
    """A Delta table that a stage writes.

    role: each input row is in it once (every-row), or in exactly one of a pair (good, quarantine), or the newest of its
        keys by `order` is (newest).
    partition_by: the partition columns, for a table with keys."""

    table: Table
    role: str
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hole:
    """Rows that a stage's output may lack, for a backfill.

    context: of the stage.
    identity: what they are written under, instead of a query id; the batch id is 0.
    rows: all rows of the hole, as the stage's transform makes them.
    missing: those whose position is in no table of the stage."""

    context: BatchContext
    identity: str
    rows: Callable[[], DataFrame]
    missing: Callable[[], DataFrame]


@dataclass(frozen=True)
class Holdings:
    """What a sink holds now. A plan rests on it, and is refused when it has changed.

    id: of the place that holds it, "" where it holds nothing; another place of the same name has another id.
    version: changes with each batch that is written.
    rows: how many there are; None: not known.
    size: in bytes."""

    id: str = ""
    version: str = ""
    rows: int | None = 0
    size: int = 0


@runtime_checkable
class MadeOfSinks(Protocol):
    @property
    def parts(self) -> tuple[Sink, ...]: ...


@runtime_checkable
class WritesTables(Protocol):
    def outputs(self, environment: Environment) -> tuple[Output, ...]: ...


@runtime_checkable
class WritesDatabases(Protocol):
    def databases(self) -> tuple[PostgresSink, ...]: ...


@runtime_checkable
class KnowsItsBatches(Protocol):
    def read_evidence(self, environment: Environment) -> SinkEvidence:
        """What the sink says of the batches that it holds. Reads only, without Spark. Where something cannot be read it
        raises, or gives `sink_unreadable`; never an empty answer."""


@runtime_checkable
class Fillable(Protocol):
    def fill_once(self, hole: Hole) -> None:
        """The rows are in the sink once, however often this is called with the same identity."""


@runtime_checkable
class Clearable(Sink, Protocol):
    """A sink that clears what it holds by itself. Each row of the stage is in it once, with its position.

    removed: the name under which what was removed is kept.

    Each call may be repeated, also after one that died in the middle. While it lasts no batch is written."""

    def read_holdings(self, environment: Environment) -> Holdings: ...

    def read_positions(self, spark: SparkSession, environment: Environment, removed: str = "") -> DataFrame | None:
        """source, partition and offset of each row that the sink holds, or that was removed under that name; None:
        there is none."""

    def remove_all(self, environment: Environment, removed: str) -> None:
        """The sink holds nothing; its rows are kept aside under that name, as the first call has found them."""

    def restore_all(self, environment: Environment, removed: str) -> None:
        """The sink holds what was removed under that name, and nothing else; nothing is kept under it any more."""


def parts_of(sink: object) -> tuple[object, ...]:
    """The sink, or the sinks that it is made of, in their order."""
    if isinstance(sink, MadeOfSinks):
        return tuple(one for part in sink.parts for one in parts_of(part))
    return (sink,)


def tables_of(sink: object, environment: Environment) -> tuple[Output, ...]:
    """The Delta tables that it writes."""
    return sink.outputs(environment) if isinstance(sink, WritesTables) else ()


def databases_of(sink: object) -> tuple[PostgresSink, ...]:
    """The PostgreSQL tables that it writes."""
    return sink.databases() if isinstance(sink, WritesDatabases) else ()


def fillable(sink: object) -> Fillable | None:
    """What takes its missing rows; None: it takes none."""
    return sink if isinstance(sink, Fillable) else None


def clearable(sink: object) -> Clearable | None:
    """What clears by itself what it holds; None: it cannot."""
    return sink if isinstance(sink, Clearable) else None


def read_own_evidence(sink: Sink, environment: Environment) -> dict[str, SinkEvidence]:
    """What the parts of a sink themselves say of the batches that they hold, by target."""
    found: dict[str, SinkEvidence] = {}
    for part in parts_of(sink):
        if isinstance(part, KnowsItsBatches) and isinstance(part, Sink):
            evidence = _ask(part, environment)
            found.update({declared.target: evidence for declared in part.declare(environment)})
    return found


def _ask(part: KnowsItsBatches, environment: Environment) -> SinkEvidence:
    try:
        found: object = part.read_evidence(environment)
    except SurestartError as error:
        return sink_unreadable(error)
    # A sink of somebody's own may raise anything: that is not an answer.
    except Exception as error:  # noqa: BLE001
        return sink_unreadable(f"{type(error).__name__}: {error}")
    if isinstance(found, SinkEvidence):
        return found
    return sink_unreadable(f"{type(part).__name__}.read_evidence gave {type(found).__name__}, which says nothing")
