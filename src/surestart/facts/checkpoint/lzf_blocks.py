"""The stream that compress-lzf writes (LZFOutputStream): Spark's state with `…stateStore.compression.codec=lzf`.

    "ZV" 0 │ bytes (2) │ the bytes as they are
    "ZV" 1 │ bytes here (2) │ bytes unpacked (2) │ literals and copies

Numbers are big endian. Nothing marks the stream's end and there is no checksum, as with snappy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from surestart.facts.checkpoint.log_file import Torn
from surestart.facts.checkpoint.lz4_blocks import read_exactly
from surestart.facts.checkpoint.snappy_blocks import append_copy

MAGIC = b"ZV"


def read_lzf(file: BinaryIO) -> Iterator[bytes]:
    """The unpacked blocks. Torn says at which byte of the file."""
    at = 0
    while head := read_exactly(file, 5):
        if len(head) < 5 or not head.startswith(MAGIC) or head[2] > 1:
            raise Torn(f"no block of LZF begins at byte {at:,}")
        packed, is_packed = int.from_bytes(head[3:5], "big"), head[2] == 1
        length = read_exactly(file, 2) if is_packed else b""
        data = read_exactly(file, packed)
        if len(data) < packed or (is_packed and len(length) < 2):
            raise Torn(f"it ends within the block of LZF at byte {at:,}")
        try:
            yield unpack_lzf(data, int.from_bytes(length, "big")) if is_packed else data
        except Torn as error:
            raise Torn(f"the block of LZF at byte {at:,} cannot be unpacked ({error})") from error
        at += 5 + len(length) + packed


def unpack_lzf(data: bytes, size: int) -> bytes:
    """One block of LZF: a byte below 32 begins so many literals and one more, another one a copy."""
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            token = data[at]
            at += 1
            if token < 32:
                if at + token + 1 > len(data):
                    raise Torn("literals go past its end")
                out += data[at : at + token + 1]
                at += token + 1
                continue
            count = token >> 5
            if count == 7:
                count, at = count + data[at], at + 1
            append_copy(out, ((token & 31) << 8 | data[at]) + 1, count + 2, size)
            at += 1
    except IndexError as error:
        raise Torn("it ends within a copy") from error
    if len(out) != size:
        raise Torn(f"it has {len(out):,} of {size:,} bytes")
    return bytes(out)
