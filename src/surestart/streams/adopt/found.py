"""What was found, as values: a checkpoint with its sources, a table with its writers.

What lies under the roots: checkpoints, and tables of the kinds that say which query has written them.

A root may be somebody's whole lake, and one may lie in another: each folder is taken once. Checkpoints that a remedy of
ours has moved aside are no streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from surestart.errors import SurestartError
from surestart.facts.checkpoint.find_checkpoints import find_checkpoints
from surestart.facts.storage.open_storage import open_unbounded
from surestart.facts.storage.storage import FolderStorage, Storage
from surestart.history.checkpoint_place import checkpoint_place
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
    """query_id: "" where it is lost, or could not be read.
    state: the names of its stateful operators, "" for one that has left none.
    unread: which of its files could not be read, or hold something else, and why; what they name is not known."""

    location: str
    query_id: str
    last_batch: int | None
    sources: tuple[FoundSource, ...] = ()
    state: tuple[str, ...] = ()
    output_mode: str = ""
    unread: str = ""


@dataclass(frozen=True)
class Writer:
    """Who has written into a table under one application id.

    query_id: the streaming query that the id names, "" where it names none.
    last_batch, last_time: of its newest batch, as the table remembers it.
    first, last: the versions of its oldest and newest commit among those that were read; None where none was.
    operations: of those commits.
    query: the name that a mark of ours gives.
    marked: each of those commits has such a mark, as surestart and `once` leave it."""

    app_id: str
    query_id: str
    last_batch: int
    last_time: int | None = None
    first: int | None = None
    last: int | None = None
    operations: frozenset[str] = frozenset()
    output_modes: frozenset[str] = frozenset()
    query: str = ""
    marked: bool = False

    @property
    def by_function(self) -> bool:
        """Whether a function of its owner wrote, which may write elsewhere, too: Spark's own sink is the only one."""
        return bool(self.operations - {"STREAMING UPDATE"}) and not self.marked


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
GONE = "declared checkpoint that is gone"
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
    GONE,
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


Say = Callable[[str], object]


@dataclass(frozen=True)
class UnreadFolder:
    """A folder that was not looked into, and why."""

    location: str
    why: str
    next: NextStep = NOTHING


@dataclass
class Places:
    """Each folder as a storage of its own.

    tables: with their kinds."""

    checkpoints: list[Storage] = field(default_factory=list)
    tables: list[tuple[str, Storage]] = field(default_factory=list)
    unread: list[UnreadFolder] = field(default_factory=list)


def walk_roots(roots: Iterable[str], say: Say = lambda line: None) -> Places:
    """Every checkpoint and table under the roots. Nothing is read but listings."""
    found, seen = Places(), set[tuple[str, str, str]]()
    for root in roots:
        try:
            _walk(root, found, seen, say)
        except OSError as error:
            found.unread.append(UnreadFolder(root, f"{type(error).__name__}: {error.strerror or error}"))
        except SurestartError as error:
            found.unread.append(UnreadFolder(root, error.what, error.next))
    return found


def _walk(root: str, found: Places, seen: set[tuple[str, str, str]], say: Say) -> None:
    storage, telling = open_unbounded(root), _Telling(say, root, found)
    for place in find_checkpoints(storage, tables=True, heard=telling.count):
        here = FolderStorage(storage, place.path)
        known = (checkpoint_place(here.location), place.table, place.problem)
        if known in seen:
            continue
        seen.add(known)
        if place.problem:
            found.unread.append(UnreadFolder(here.location, place.problem))
        elif place.table:
            found.tables.append((place.table, here))
        else:
            found.checkpoints.append(here)


@dataclass
class _Telling:
    """One line a second at most."""

    say: Say
    root: str
    found: Places
    folders: int = 0
    told_at: float = field(default_factory=time.monotonic)

    def count(self) -> None:
        self.folders += 1
        now = time.monotonic()
        if now - self.told_at >= 1.0:
            self.told_at = now
            checkpoints, tables = len(self.found.checkpoints), len(self.found.tables)
            self.say(f"{self.root}: {self.folders:,} folders, {checkpoints:,} checkpoints, {tables:,} tables so far")
