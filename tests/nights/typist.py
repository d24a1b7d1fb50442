"""Somebody at 3 a.m. who types what the screen prints, and nothing else.

A command is typed into a real shell on a terminal of its own; a question is answered with the word that it names; the
next command is what stands behind `Next:` on the last screen, letter for letter.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FIRST = "surestart run all"
# A night ends with five commands, or nobody would have gone back to bed.
LIMIT = 5
_QUESTION = re.compile(r"Type (\S+) to go on: $")
_COUNTED = re.compile(r"^ +lost +0$\n^ +duplicated +0$|^EXACT +lost 0, duplicated 0\b", re.M)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Typed:
    """One command and the screen that it left."""

    command: str
    screen: str
    exit_code: int

    @property
    def next(self) -> str:
        """Of several findings, each with its own, the last line of the screen names the one that comes first."""
        found = re.findall(r"^ *Next: +(.+)$", self.screen, re.M)
        return found[-1].strip() if found else ""

    @property
    def is_exact(self) -> bool:
        return self.exit_code == 0 and bool(_COUNTED.search(self.screen))


class NightTooLong(AssertionError):
    """The screens led in a circle, to nothing that can be typed, or past the last command that a night may have."""


def mend(place: Path, typed: list[Typed], first: str = FIRST) -> list[Typed]:
    """All that was typed until a screen said that every stage ran, lost 0, duplicated 0. typed: what was typed before,
    because the fault showed in it."""
    typed = list(typed)
    command = typed[-1].next if typed else first
    while True:
        if not command:
            raise NightTooLong(f"no next command\n{told(typed)}")
        if len(typed) >= LIMIT:
            raise NightTooLong(f"more than {LIMIT} commands; the next would be {command}\n{told(typed)}")
        if [one.command for one in typed].count(command) > 1:
            raise NightTooLong(f"a circle: {command}\n{told(typed)}")
        typed.append(type_in(place, command))
        if typed[-1].is_exact:
            return typed
        command = typed[-1].next


def told(typed: list[Typed]) -> str:
    return "\n".join(f"$ {one.command}\n{one.screen.rstrip()}\n[exit {one.exit_code}]" for one in typed)


def type_in(place: Path, command: str, more: Mapping[str, str] | None = None) -> Typed:
    """The command has been typed at that place and has ended; what it asked was answered as it asked for."""
    ours, theirs = pty.openpty()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["/bin/bash", "--norc", "--noprofile", "-c", command],
        cwd=place,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "PATH": path, "TERM": "dumb", "COLUMNS": "80", **(more or {})},
    )
    os.close(theirs)
    screen = ""
    try:
        for piece in _read(ours):
            screen += piece
            asked = _QUESTION.search(_COLOUR.sub("", screen))
            if asked:
                os.write(ours, f"{asked[1]}\n".encode())
    finally:
        os.close(ours)
        code = shell.wait()
    return Typed(command, _plain(screen), code)


def _read(terminal: int) -> Iterator[str]:
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65_536)
        except OSError:
            return  # Linux says EIO when the last writer has gone.
        if not data:
            return
        yield data.decode("utf-8", "replace")


def _plain(screen: str) -> str:
    """Without carriage returns: a line that was written over is the last that was written."""
    lines = _COLOUR.sub("", screen).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rsplit("\r", 1)[-1] for line in lines)
