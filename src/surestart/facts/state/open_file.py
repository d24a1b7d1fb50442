"""A state file as Spark opens it: on a local disk each piece is held against `.name.crc` before it is given.

LZ4 blocks have a checksum of their own; what Spark packs with zstd has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from surestart.facts.checkpoint.log_file import crc_disagrees, crc_path
from surestart.facts.checkpoint.torn import Torn
from surestart.facts.storage.storage import Storage

# Enough for a file of 8 GB by Hadoop's pieces of 512 bytes.
_CRC_LIMIT = 64 << 20
# A checksum counts for a piece of this size at most, which is held.
_CHUNK_LIMIT = 1 << 20
_HEAD = 8
_AT_ONCE = 1 << 16


@contextmanager
def open_state_file(storage: Storage, path: str) -> Iterator[BinaryIO]:
    """Its bytes from the first on; reading raises Torn where they are not those that the checksum was made for."""
    with storage.open_file(path) as file:
        crc = _checksums(storage, path)
        yield cast("BinaryIO", _Held(file, crc)) if crc else file


def _checksums(storage: Storage, path: str) -> bytes:
    if not storage.checks_crc:
        return b""
    try:
        return storage.read_file(crc_path(path), _CRC_LIMIT)
    except FileNotFoundError:
        return b""


class _Held:
    def __init__(self, file: BinaryIO, crc: bytes) -> None:
        self._file, self._crc, self._ready, self._pieces = file, crc, b"", 0
        size = int.from_bytes(crc[4:_HEAD], "big")
        self._chunk = size if 0 < size <= _CHUNK_LIMIT else _AT_ONCE

    def read(self, size: int = -1) -> bytes:
        if not self._ready:
            self._ready = self._next()
        size = len(self._ready) if size < 0 else size
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def _next(self) -> bytes:
        wanted = max(_AT_ONCE // self._chunk, 1) * self._chunk
        parts: list[bytes] = []
        while wanted > 0 and (part := self._file.read(wanted)):
            parts.append(part)
            wanted -= len(part)
        data = b"".join(parts)
        done = _HEAD + 4 * self._pieces
        if why := crc_disagrees(data, self._crc[:_HEAD] + self._crc[done:]):
            raise Torn(f"{why} (from byte {self._pieces * self._chunk:,} on)")
        self._pieces += -(-len(data) // self._chunk)
        return data
