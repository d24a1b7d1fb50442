"""What was found, as values: a checkpoint with its sources, a table with its writers.

What a person should know beyond the declarations, as notes of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surestart.typed import NOTHING, NextStep


@dataclass(frozen=True)
class FoundSource:
    """kind: as a declaration has it, or what the checkpoint calls it.
    subject: topics, a folder, or the id by which a table is found; "": the checkpoint does not say.
    shown: its position, for a reader."""

    id: str
    kind: str
    subject: str = ""
    shown: str = ""


@dataclass(frozen=True)
class FoundCheckpoint:
    """state: the names of its stateful operators, "" for one that has left none.
    faults: files that are not what Spark writes."""

    location: str
    query_id: str
    last_batch: int | None
    sources: tuple[FoundSource, ...] = ()
    state: tuple[str, ...] = ()
    output_mode: str = ""
    faults: int = 0


@dataclass(frozen=True)
class Writer:
    """Who has written into a table under one application id.

    query_id: the streaming query that the id names, "" where it names none.
    last_batch, last_time: of its newest batch, as the table remembers it.
    first, last: the versions of its oldest and newest commit among those that were read; None where none was.
    operations: of those commits.
    query: the name that a mark of ours gives."""

    app_id: str
    query_id: str
    last_batch: int
    last_time: int | None = None
    first: int | None = None
    last: int | None = None
    operations: frozenset[str] = frozenset()
    output_modes: frozenset[str] = frozenset()
    query: str = ""


@dataclass(frozen=True)
class FoundTable:
    """kind: delta, iceberg or files.
    ids: by which a source knows it, former ones included.
    snapshots: those of Iceberg.
    id: the present one, so that a copy is seen.
    unsigned: versions of commits that added rows and name no writer.
    whole: no older commit is missing from what was read.
    last_batch, last_time: of a file sink, which knows its batches by number alone."""

    location: str
    kind: str
    id: str = ""
    ids: frozenset[str] = frozenset()
    snapshots: frozenset[int] = frozenset()
    writers: Mapping[str, Writer] = field(default_factory=dict)
    unsigned: tuple[int, ...] = ()
    whole: bool = False
    last_batch: int | None = None
    last_time: int | None = None
    problem: str = ""

    def of_query(self, query_id: str) -> tuple[Writer, ...]:
        """The same query may write twice in one batch, under an id for each step."""
        return tuple(one for one in self.writers.values() if one.query_id == query_id)


NO_TABLE = "checkpoint without a table"
NO_CHECKPOINT = "table without a checkpoint"
TWO_CHECKPOINTS = "two checkpoints write to one table"
ONE_AFTER_THE_OTHER = "queries that followed one another"
ANOTHER_ID = "folder used by two query ids"
COPIED_CHECKPOINT = "copied checkpoint"
COPIED_TABLE = "copied table"
NOT_CARRIED = "name that TOML cannot carry"
NOT_READ = "not read"
NOT_DECLARED = "known stream, undeclared"
KINDS = (
    NO_TABLE,
    NO_CHECKPOINT,
    TWO_CHECKPOINTS,
    ONE_AFTER_THE_OTHER,
    ANOTHER_ID,
    COPIED_CHECKPOINT,
    COPIED_TABLE,
    NOT_CARRIED,
    NOT_READ,
    NOT_DECLARED,
)


@dataclass(frozen=True)
class AdoptionNote:
    """kind: one of KINDS.
    places: folders that it is about, the one to look at first.
    next: what helps, where a command does."""

    kind: str
    places: tuple[str, ...]
    says: str
    next: NextStep = NOTHING
