"""A state file as Spark opens it: on a local disk each piece is held against `.name.crc` before it is given.

LZ4 blocks have a checksum of their own; what Spark packs with zstd has none."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from surestart.facts.checkpoint import lz4_blocks, lzf_blocks, snappy_blocks
from surestart.facts.checkpoint.log_file import Torn, UnknownForm, crc_disagrees, crc_path
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


_ZSTD = b"\x28\xb5\x2f\xfd"
_READERS = {
    lz4_blocks.MAGIC: lz4_blocks.read_blocks,
    snappy_blocks.MAGIC: snappy_blocks.read_snappy,
    lzf_blocks.MAGIC: lzf_blocks.read_lzf,
}
_PIECE = 1 << 18


def unpacked(file: BinaryIO) -> Iterator[bytes]:
    """The unpacked pieces. Raises Torn, or UnknownForm when the library that unpacks them is not installed."""
    begin = _Rewound(file)
    head = begin.peek(8)
    if head.startswith(_ZSTD):
        return _zstd(begin)
    for mark, read in _READERS.items():
        if head.startswith(mark):
            return read(cast("BinaryIO", begin))
    if not head:
        raise Torn("it has 0 bytes")
    raise Torn(f"it begins with {head.hex(' ')}, which is none of Spark's codecs")


def is_packed(head: bytes) -> bool:
    """Whether a file that begins like this is packed by one of Spark's codecs."""
    return head.startswith((_ZSTD, *_READERS))


class _Rewound:
    """A stream whose first bytes have been looked at: one in a cloud store may not go back."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._kept = file, b""

    def peek(self, size: int) -> bytes:
        while len(self._kept) < size and (part := self._file.read(size - len(self._kept))):
            self._kept += part
        return self._kept

    def read(self, size: int = -1) -> bytes:
        if not self._kept:
            return self._file.read(size)
        if size < 0:
            size = len(self._kept)
        found, self._kept = self._kept[:size], self._kept[size:]
        return found

    # As much of a file as pyarrow asks for.
    closed = False

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        return None


def _zstd(file: _Rewound) -> Iterator[bytes]:
    stream = _zstd_stream(file)
    while True:
        try:
            piece = bytes(stream.read(_PIECE))
        except Exception as error:
            # Each library has an error of its own; what the storage says of itself stays what it is.
            if isinstance(error, (OSError, EOFError)) and type(error) is not OSError and type(error) is not EOFError:
                raise
            raise Torn(f"its zstd stream cannot be unpacked ({str(error)[:80]})") from error
        if not piece:
            return
        yield piece


def _zstd_stream(file: _Rewound) -> Any:
    if importlib.util.find_spec("zstandard"):
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(cast("BinaryIO", file), read_across_frames=True)
    if importlib.util.find_spec("pyarrow"):
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
    raise UnknownForm("it is packed with zstd, and neither zstandard nor pyarrow is installed")
