"""What lies under the roots: checkpoints, and tables of the kinds that say which query has written them.

A root may be somebody's whole lake, and one may lie in another: each folder is taken once. Checkpoints that a remedy of
ours has moved aside are no streams.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from surestart.errors import SurestartError
from surestart.facts.checkpoint.find_checkpoints import find_checkpoints
from surestart.facts.storage.open_storage import open_unbounded
from surestart.facts.storage.storage import FolderEntry, FolderStorage, Storage
from surestart.history.checkpoint_place import checkpoint_place
from surestart.typed import NOTHING, NextStep

_RETIRED = "_retired"

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
    found, seen = Places(), set[tuple[str, str]]()
    for root in roots:
        try:
            _walk(root, found, seen, say)
        except OSError as error:
            found.unread.append(UnreadFolder(root, f"{type(error).__name__}: {error.strerror or error}"))
        except SurestartError as error:
            found.unread.append(UnreadFolder(root, error.what, error.next))
    return found


def _walk(root: str, found: Places, seen: set[tuple[str, str]], say: Say) -> None:
    storage = _Told(open_unbounded(root), "", _Telling(say, root, found))
    for place in find_checkpoints(storage, tables=True):
        here = FolderStorage(storage.storage, place.path)
        known = (checkpoint_place(here.location), place.table)
        if _RETIRED in place.path.split("/") or known in seen:
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


@dataclass(frozen=True)
class _Told(FolderStorage):
    """A storage that is counted while it is walked."""

    telling: _Telling

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        self.telling.count()
        return super().list_folder(path)
