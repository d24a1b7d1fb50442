"""A state file as a stream of unpacked pieces, whatever it was packed with: its first bytes tell."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from surestart.facts.checkpoint.torn import Torn, UnknownForm
from surestart.facts.state import lz4_blocks, lzf_blocks, snappy_blocks

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
