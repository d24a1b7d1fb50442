"""Which stream is meant: one of surestart.toml by its name, or a declaration that is given.

    surestart.start(writer, "orders")                              the file: of $SURESTART_STREAMS, nearest above the
                                                                   working folder and nearest above the script
    surestart.start(writer, surestart.Stream("orders", CHECKPOINT))    no file is needed

Runs and claims are where the file says that declares it. Without such a file they are beside the checkpoint, in
`.surestart`: whoever starts the stream from another folder meets the same claim.

What comes next for a stream that its owner's code starts: no command starts it, and its file may be anywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from surestart.declaration import SinkDeclaration
from surestart.errors import UsageError
from surestart.history.checkpoint_place import checkpoint_place
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, with_stream
from surestart.streams.project_file import FILE, ProjectFile, find_project_file, read_project_file
from surestart.streams.stream import Stream
from surestart.typed import NextStep, in_the_code
from surestart.words.next_commands import Commands, ForeignCommands, OwnersCommands

VARIABLE = "SURESTART_STREAMS"


@dataclass(frozen=True)
class Declared:
    """in_file: a file declares it, which commands find or are given."""

    stream: Stream
    environment: StreamEnvironment
    in_file: bool = False

    @property
    def commands(self) -> Commands:
        stream, environment = self.stream, self.environment
        if self.in_file:
            return OfTheFile(stream.name, environment.name, environment.typed)
        return of_the_code(stream.name, stream.checkpoint, stream.sinks)


def find_declared(stream: Stream | str, file: str | Path = "") -> Declared:
    """The stream, and where its history is. file: the one that declares it, if it is not found by itself."""
    projects = [read_project_file(path) for path in _find_files(file)]
    if isinstance(stream, str):
        stream = _of_name(stream, projects)
    declaring = [project for project in projects if any(_is_declared(stream, one) for one in project.streams)]
    if declaring:
        project = declaring[0]
    elif file and projects:
        project = projects[0]
    else:
        parent, _, _ = stream.checkpoint.rstrip("/").rpartition("/")
        project = ProjectFile(Path(FILE), history=f"{parent}/.surestart")
    environment = with_stream(environment_of_streams(project, os.environ.get("SURESTART_ENV") or "local"), stream)
    typed = ("--streams", str(project.path)) if declaring and project.path != find_project_file() else ()
    return Declared(stream, replace(environment, typed=typed), bool(declaring))


def _is_declared(stream: Stream, declared: Stream) -> bool:
    """Whether the file declares this stream, even if the code says more about it."""
    same = checkpoint_place(stream.checkpoint) == checkpoint_place(declared.checkpoint)
    return stream.name == declared.name and same


def _find_files(named: str | Path) -> tuple[Path, ...]:
    """The file that was named; else the nearest above the working folder and the nearest above the script."""
    if named or os.environ.get(VARIABLE):
        return (Path(named or os.environ[VARIABLE]),)
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    found = (find_project_file(), find_project_file(Path(script).absolute().parent) if script else None)
    return tuple(dict.fromkeys(path for path in found if path is not None))


def _of_name(name: str, projects: Sequence[ProjectFile]) -> Stream:
    known = [(project.path, one) for project in projects for one in project.streams if one.name == name]
    if len({one for _, one in known}) == 1:
        return known[0][1]
    if known:
        raise UsageError(
            f"stream {name!r} is declared differently in {' and in '.join(str(path) for path, _ in known)}",
            meaning="Which of the two is meant is not to be guessed, so nothing was judged and nothing started.",
            next=in_the_code(f"name the file, file={str(known[0][0])!r}"),
            code="StreamNotDeclared",
        )
    where = "; ".join(
        f"{project.path} declares {', '.join(one.name for one in project.streams) or 'no stream'}"
        for project in projects
    )
    raise UsageError(
        f"no stream {name!r} is declared: looked from {Path.cwd()}, {where or f'there is no {FILE} above it'}",
        meaning="Which checkpoint and which table are meant is not known, so nothing was judged and nothing started.",
        next=in_the_code(f"name the file, file='/path/of/{FILE}', or give a surestart.Stream in place of the name"),
        code="StreamNotDeclared",
    )


@dataclass(frozen=True)
class OfTheFile(OwnersCommands):
    """A stream of surestart.toml, of which doctor and history know; a remedy that starts it again is its owner's."""

    def run(self, note: str = "") -> NextStep:
        return super().run(note or "it may be started by its own code")

    def accept(self, *codes: str) -> NextStep:
        return _accept(self.stage, codes)


@dataclass(frozen=True)
class OfTheCode(ForeignCommands):
    """A stream that is declared in the code alone: its checkpoint and its tables are named."""

    def accept(self, *codes: str) -> NextStep:
        return _accept(self.stage, codes)


def of_the_code(name: str, checkpoint: str, sinks: tuple[SinkDeclaration, ...]) -> OfTheCode:
    named = ForeignCommands.of(checkpoint, tuple(f"{sink.kind}:{sink.target}" for sink in sinks))
    return OfTheCode(name, options=named.options, location=checkpoint)


def _accept(name: str, codes: tuple[str, ...]) -> NextStep:
    return in_the_code(f"surestart.start(writer, {name!r}, accept={list(codes)!r}), once somebody has looked")
