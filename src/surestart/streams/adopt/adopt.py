"""All of `surestart adopt`: from the roots to the text that is added to the file, with what a person should know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surestart.history.checkpoint_place import checkpoint_place
from surestart.streams.adopt.found import GONE, NOT_CARRIED, NOT_DECLARED, NOT_READ, AdoptionNote, Say, walk_roots
from surestart.streams.adopt.join import Joined, join_streams
from surestart.streams.adopt.read_found import read_checkpoints, read_tables
from surestart.streams.adopt.write_stream import count_questions, stream_text
from surestart.streams.change_file import NotCarriedByToml
from surestart.streams.project_file import ProjectFile
from surestart.streams.stream import Stream
from surestart.typed import word


@dataclass(frozen=True)
class Adopted:
    """A stream that the file does not have yet.

    told: its lines for the file."""

    name: str
    joined: Joined
    told: str

    @property
    def questions(self) -> int:
        return count_questions(self.joined)


@dataclass(frozen=True)
class Adoption:
    """adopted: in the order of their checkpoints.
    known: so many are in the file already.
    notes: worst kinds first."""

    adopted: tuple[Adopted, ...]
    known: int
    notes: tuple[AdoptionNote, ...]
    checkpoints: int
    tables: int

    @property
    def text(self) -> str:
        return "\n".join(one.told for one in self.adopted)

    @property
    def unread(self) -> tuple[AdoptionNote, ...]:
        return tuple(note for note in self.notes if note.kind == NOT_READ)


def adopt(roots: Sequence[str], project: ProjectFile | None = None, say: Say = lambda line: None) -> Adoption:
    """What the roots hold that the file does not declare yet. Nothing is written."""
    places = walk_roots(roots, say)
    say(f"reading {len(places.checkpoints):,} checkpoints and {len(places.tables):,} tables")
    checkpoints, tables = read_checkpoints(places), read_tables(places)
    joined, notes = join_streams(checkpoints, [table for table in tables if not table.problem])
    streams = project.streams if project is not None else ()
    known = {checkpoint_place(stream.checkpoint): stream for stream in streams}
    taken = {stream.name.lower() for stream in streams}
    adopted: list[Adopted] = []
    there = 0
    for one in sorted(joined, key=lambda one: one.checkpoint.location):
        stream = known.get(checkpoint_place(one.checkpoint.location))
        if stream is None:
            try:
                adopted.append(_adopted(one, taken))
            except NotCarriedByToml as error:
                notes.append(
                    AdoptionNote(NOT_CARRIED, (one.checkpoint.location,), f"{word(error)} has bytes that are not text")
                )
            continue
        there += 1
        if one.sinks and not stream.sinks:
            seen = ", ".join(sink.table.location for sink in one.sinks)
            notes.append(
                AdoptionNote(NOT_DECLARED, (one.checkpoint.location,), f"{stream.name} has no sink, and writes {seen}")
            )
    if not places.unread:
        found = {checkpoint_place(one.location) for one in places.checkpoints}
        below = tuple(f"{checkpoint_place(root)}/" for root in roots)
        gone = [known[place] for place in known if place.startswith(below) and place not in found]
        notes += [_gone(stream, adopted) for stream in gone]
    notes += [AdoptionNote(NOT_READ, (one.location,), one.why, one.next) for one in places.unread]
    notes += [AdoptionNote(NOT_READ, (one.location,), one.unread) for one in checkpoints if one.unread]
    notes += [AdoptionNote(NOT_READ, (table.location,), table.problem) for table in tables if table.problem]
    return Adoption(tuple(adopted), there, tuple(notes), len(checkpoints), len(tables))


def _gone(stream: Stream, adopted: Sequence[Adopted]) -> AdoptionNote:
    """Moved, deleted, or never started. A query that is started there begins anew."""
    tables = {checkpoint_place(sink.path) for sink in stream.sinks if sink.path}
    others = [
        one for one in adopted if any(checkpoint_place(sink.table.location) in tables for sink in one.joined.sinks)
    ]
    writers = ", ".join(f"{one.name} at {one.joined.checkpoint.location}" for one in others)
    moved = f"; its table is written by {writers}: if it was moved there, take one of the two out" if others else ""
    return AdoptionNote(GONE, (stream.checkpoint,), f"{stream.name} is declared there: a start begins anew{moved}")


def _adopted(joined: Joined, taken: set[str]) -> Adopted:
    before = set(taken)
    name = name_of(joined.checkpoint.location, taken)
    try:
        return Adopted(name, joined, stream_text(name, joined))
    except NotCarriedByToml:
        taken &= before
        raise


# Folders whose names say what they are, and not for which stream.
_SAYS_NOTHING = re.compile(
    r"_*(check-?points?|chk-?points?|chkpts?|ckpts?|chks?|cps?|streams?|streaming|tmp|data|current)_*", re.IGNORECASE
)
_LONGEST = 60


def name_of(location: str, taken: set[str]) -> str:
    """A name that no other stream has, also where case does not count; it is added to `taken`, in lower case."""
    name = next(name for name in _names(location) if name.lower() not in taken)
    taken.add(name.lower())
    return name


def _names(location: str) -> Iterator[str]:
    folders = [_word(folder) for folder in re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:", "", location).split("/")]
    folders = [folder for folder in folders if folder]
    telling = [folder for folder in folders if not _SAYS_NOTHING.fullmatch(folder)] or folders or ["stream"]
    for count in range(1, min(len(telling), 4) + 1):
        yield _valid("-".join(telling[-count:]))
    number = 2
    while True:
        yield f"{_valid(telling[-1])}-{number}"
        number += 1


def _word(folder: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder).strip("-_")


def _valid(name: str) -> str:
    """`all` is every stream to the command line."""
    name = name[-_LONGEST:].strip("-_")
    return name if name[:1].isalpha() and name.lower() != "all" else f"stream-{name}"
