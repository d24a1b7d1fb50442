"""The lines of a file of any size, with one block and one line in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

BLOCK = 1 << 20


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class CountedReader:
    def __init__(self, file: Readable) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        return data


def read_lines(file: Readable, longest: int) -> Iterator[bytes]:
    """Each line without its newline. Of a longer one only the first `longest` + 1 bytes: whoever needs it whole can see
    that it is not."""
    parts: list[bytes] = []
    held = 0
    while block := file.read(BLOCK):
        first, *others = block.split(b"\n")
        if held <= longest:
            parts.append(first)
            held += len(first)
        if others:
            yield b"".join(parts)[: longest + 1]
            yield from (line[: longest + 1] for line in others[:-1])
            parts, held = [others[-1]], len(others[-1])
    if held:
        yield b"".join(parts)[: longest + 1]
