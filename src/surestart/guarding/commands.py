"""What comes next for a stream that its owner's code starts: no command starts it, and its file may be anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from surestart.declaration import SinkDeclaration
from surestart.typed import NextStep, in_the_code
from surestart.words.next_commands import ForeignCommands, OwnersCommands


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
