"""All of `surestart adopt`: from the roots to the text that is added to the file, with what a person should know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surestart.history.checkpoint_place import checkpoint_place
from surestart.streams.adopt.join import Joined, join_streams
from surestart.streams.adopt.names import name_of
from surestart.streams.adopt.notes import NOT_CARRIED, NOT_DECLARED, NOT_READ, AdoptionNote
from surestart.streams.adopt.read_found import read_checkpoints, read_tables
from surestart.streams.adopt.walk import Say, walk_roots
from surestart.streams.adopt.write_stream import stream_text
from surestart.streams.project_file import ProjectFile
from surestart.streams.toml_text import NotCarriedByToml
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
        return self.told.count("= ?") + (0 if "= ?" in self.told else self.told.count("? }"))


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
                    AdoptionNote(NOT_CARRIED, (one.checkpoint.location,), f"{word(error)} holds bytes that no text has")
                )
            continue
        there += 1
        if one.sinks and not stream.sinks:
            seen = ", ".join(sink.table.location for sink in one.sinks)
            notes.append(
                AdoptionNote(NOT_DECLARED, (one.checkpoint.location,), f"{stream.name} has no sink, and writes {seen}")
            )
    notes += [AdoptionNote(NOT_READ, (one.location,), one.why, one.next) for one in places.unread]
    notes += [AdoptionNote(NOT_READ, (table.location,), table.problem) for table in tables if table.problem]
    return Adoption(tuple(adopted), there, tuple(notes), len(checkpoints), len(tables))


def _adopted(joined: Joined, taken: set[str]) -> Adopted:
    before = set(taken)
    name = name_of(joined.checkpoint.location, taken)
    try:
        return Adopted(name, joined, stream_text(name, joined))
    except NotCarriedByToml:
        taken &= before
        raise
