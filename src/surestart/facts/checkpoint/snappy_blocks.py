"""The stream that snappy-java writes (SnappyOutputStream): Spark's state with `…stateStore.compression.codec=snappy`.

    0x82 "SNAPPY" 0x00 │ version (4) │ oldest version that reads it (4)
    bytes here (4) │ a block of snappy: its unpacked length, then literals and copies │ …

Numbers are big endian, those inside a block little endian. Nothing marks the stream's end and there is no checksum:
what it holds says whether it is whole, and on a local disk Hadoop's `.crc`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import BinaryIO

from surestart.facts.checkpoint.log_file import Torn, UnknownForm
from surestart.facts.checkpoint.lz4_blocks import FewThenMany, Unpack, read_exactly

MAGIC = b"\x82SNAPPY\x00"
_HEAD, _SIZE = struct.Struct(">II"), struct.Struct(">I")
# Spark's own has 32 kB (spark.io.compression.snappy.blockSize), snappy-java's largest 512 MB.
_LIMIT = 32 << 20


def read_snappy(file: BinaryIO) -> Iterator[bytes]:
    """The unpacked blocks. Torn says at which byte of the file."""
    head = read_exactly(file, len(MAGIC) + _HEAD.size)
    if len(head) < len(MAGIC) + _HEAD.size:
        raise Torn("it ends within its first 16 bytes")
    if _HEAD.unpack_from(head, len(MAGIC))[1] > 1:
        raise UnknownForm("it is packed with a newer form of snappy")
    at = len(head)
    while size := read_exactly(file, _SIZE.size):
        packed = _SIZE.unpack(size)[0] if len(size) == _SIZE.size else 0
        if not 0 < packed <= _LIMIT:
            raise Torn(f"no block of snappy begins at byte {at:,}")
        data = read_exactly(file, packed)
        if len(data) < packed:
            raise Torn(f"it ends within the block of snappy at byte {at:,}")
        length, _ = _length(data)
        if length > _LIMIT:
            raise Torn(f"the block of snappy at byte {at:,} has {length:,} bytes unpacked")
        try:
            found = _unpack(data, length)
        except (ValueError, OSError, RuntimeError) as error:
            raise Torn(f"the block of snappy at byte {at:,} cannot be unpacked ({error})") from error
        if len(found) != length:
            raise Torn(f"the block of snappy at byte {at:,} has {len(found):,} of {length:,} bytes")
        at += _SIZE.size + packed
        yield found


@cache
def pyarrow_snappy() -> Unpack | None:
    """The function of pyarrow, where it is installed."""
    try:
        import pyarrow

        codec = pyarrow.Codec("snappy")
        return lambda data, size: bytes(codec.decompress(data, size, asbytes=True))
    except (ImportError, ValueError, NotImplementedError):
        return None


def unpack_snappy(data: bytes, size: int) -> bytes:
    """One block of snappy, by its description."""
    out = bytearray()
    _, at = _length(data)
    end = len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            count = (tag >> 2) + 1
            if count > 60:
                more = count - 60
                count, at = int.from_bytes(data[at : at + more], "little") + 1, at + more
            if at + count > end or len(out) + count > size:
                raise Torn("literals go past its end")
            out += data[at : at + count]
            at += count
            continue
        width = (1, 2, 4)[(tag & 3) - 1]
        if at + width > end:
            raise Torn("it ends within a copy")
        back, at = int.from_bytes(data[at : at + width], "little"), at + width
        count = (tag >> 2) + 1
        if width == 1:
            back, count = back | tag >> 5 << 8, (tag >> 2 & 7) + 4
        append_copy(out, back, count, size)
    return bytes(out)


_unpack = FewThenMany(unpack_snappy, pyarrow_snappy)


def append_copy(out: bytearray, back: int, count: int, size: int) -> None:
    """Appends `length` bytes that begin `back` before the end. They may reach into what is being appended."""
    begin = len(out) - back
    if back == 0 or begin < 0 or len(out) + count > size:
        raise Torn("a copy goes past its begin or its end")
    out += out[begin : begin + count] if back >= count else (bytes(out[begin:]) * (count // back + 1))[:count]


def _length(data: bytes) -> tuple[int, int]:
    """The unpacked length that the block begins with, seven bits a byte, and where that ends."""
    length = 0
    for at, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return length, at + 1
    raise Torn("a block of snappy does not begin with its length")
