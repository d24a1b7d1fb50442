"""The stream of LZ4 blocks that Java writes (LZ4BlockOutputStream), which is Spark's default for state files.

    "LZ4Block" │ method and level (1) │ bytes here (4) │ bytes unpacked (4) │ checksum of the unpacked (4) │ the bytes
    … │ a block of 0 bytes ends the stream

Numbers are little endian. Method 0x10: as they are, 0x20: LZ4. Checksum: XXH32 with its own seed, 28 bits of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import BinaryIO

from surestart.facts.checkpoint.log_file import Torn

MAGIC = b"LZ4Block"
_HEAD = struct.Struct("<BIII")
# The last block: its mark, its method, and three numbers that are 0.
END_SIZE = len(MAGIC) + _HEAD.size
# Java's LZ4 writes no larger block (LZ4BlockOutputStream.MAX_BLOCK_SIZE).
BLOCK_LIMIT = 32 << 20
_SEED, _BITS = 0x9747B28C, 0x0FFFFFFF
_STORED, _PACKED = 0x10, 0x20
# A checksum in plain Python takes about as long as unpacking.
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_ALL = 0xFFFFFFFF
# Importing a library takes as long as unpacking so many bytes without it: 0.2 s, and from a cold disk a second or more.
LIBRARY_FROM = 4 << 20
Unpack = Callable[[bytes, int], bytes]


def read_blocks(file: BinaryIO) -> Iterator[bytes]:
    """The unpacked blocks, each held against its checksum. Torn says at which byte of the file."""
    at = 0
    while True:
        head = read_exactly(file, len(MAGIC) + _HEAD.size)
        if not head and at:
            # The stream may end without its last, empty block only where a file was cut between two blocks.
            raise Torn(f"it ends at byte {at:,} without the mark of its end")
        if len(head) < len(MAGIC) + _HEAD.size or not head.startswith(MAGIC):
            raise Torn(f"no LZ4 block begins at byte {at:,}")
        token, packed, unpacked, checksum = _HEAD.unpack_from(head, len(MAGIC))
        method = token & 0xF0
        if method not in (_STORED, _PACKED) or packed > BLOCK_LIMIT + (BLOCK_LIMIT >> 7) or unpacked > BLOCK_LIMIT:
            raise Torn(f"the LZ4 block at byte {at:,} has the method {method:#x} and {packed:,} bytes for {unpacked:,}")
        if unpacked == 0:
            return
        data = read_exactly(file, packed)
        if len(data) < packed:
            raise Torn(f"it ends within the LZ4 block at byte {at:,}")
        if method == _STORED:
            found = data
        else:
            try:
                found = _unpack(data, unpacked)
            except (ValueError, OSError, RuntimeError) as error:
                raise Torn(f"the LZ4 block at byte {at:,} cannot be unpacked ({error})") from error
        if len(found) != unpacked or xxh32(found) & _BITS != checksum:
            raise Torn(f"the LZ4 block at byte {at:,} is not the one that its checksum was made for")
        at += len(head) + packed
        yield found


def is_end(data: bytes) -> bool:
    """Whether these bytes are the block that ends a stream."""
    return data.startswith(MAGIC) and data[len(MAGIC) + 1 :] == bytes(_HEAD.size - 1)


def read_exactly(file: BinaryIO, size: int) -> bytes:
    parts, left = [], size
    while left > 0 and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class FewThenMany:
    """Unpacks the first bytes of this process by our own function, and more by a library's, where there is one."""

    def __init__(self, own: Unpack, library: Callable[[], Unpack | None]) -> None:
        self._own, self._library, self._done = own, library, 0

    def __call__(self, data: bytes, size: int) -> bytes:
        self._done += size
        return ((self._library() if self._done > LIBRARY_FROM else None) or self._own)(data, size)


@cache
def pyarrow_lz4() -> Unpack | None:
    """The function of `lz4` or pyarrow, where one is installed: a hundred times as fast as ours."""
    try:
        import lz4.block

        return lambda data, size: bytes(lz4.block.decompress(data, uncompressed_size=size))
    except ImportError:
        pass
    try:
        import pyarrow

        codec = pyarrow.Codec("lz4_raw")
        return lambda data, size: bytes(codec.decompress(data, size, asbytes=True))
    except (ImportError, ValueError, NotImplementedError):
        return None


def unpack_block(data: bytes, size: int) -> bytes:
    """One LZ4 block, by its description: literals, then a copy of what was unpacked before, again and again."""
    out = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            token = data[at]
            at += 1
            literals = token >> 4
            if literals == 15:
                while (more := data[at]) == 255:
                    literals, at = literals + 255, at + 1
                literals, at = literals + more, at + 1
            if literals:
                if at + literals > end:
                    raise Torn("literals go past its end")
                out += data[at : at + literals]
                at += literals
            if at >= end:
                break
            back = data[at] | data[at + 1] << 8
            at += 2
            count = (token & 15) + 4
            if count == 19:
                while (more := data[at]) == 255:
                    count, at = count + 255, at + 1
                count, at = count + more, at + 1
            begin = len(out) - back
            if back == 0 or begin < 0 or len(out) + count > size:
                raise Torn("a copy goes past its begin or its end")
            if back >= count:
                out += out[begin : begin + count]
            else:
                out += (bytes(out[begin:]) * (count // back + 1))[:count]
    except IndexError as error:
        raise Torn("it ends within a length") from error
    return bytes(out)


_unpack = FewThenMany(unpack_block, lambda: pyarrow_lz4())


def xxh32(data: bytes, seed: int = _SEED) -> int:
    """XXH32, by `xxhash` where it is installed."""
    fast = _fast_xxh32()
    return fast(data, seed) if fast else xxh32_plain(data, seed)


@cache
def _fast_xxh32() -> Callable[[bytes, int], int] | None:
    try:
        import xxhash

        return lambda data, seed: int(xxhash.xxh32_intdigest(data, seed))
    except ImportError:
        return None


def xxh32_plain(data: bytes, seed: int) -> int:
    size = len(data)
    at = size // 16 * 16
    if at:
        a, b, c, d = seed + _P1 + _P2 & _ALL, seed + _P2 & _ALL, seed, seed - _P1 & _ALL
        for one, two, three, four in struct.iter_unpack("<IIII", data[:at]):
            a = a + one * _P2 & _ALL
            a = (a << 13 | a >> 19) * _P1 & _ALL
            b = b + two * _P2 & _ALL
            b = (b << 13 | b >> 19) * _P1 & _ALL
            c = c + three * _P2 & _ALL
            c = (c << 13 | c >> 19) * _P1 & _ALL
            d = d + four * _P2 & _ALL
            d = (d << 13 | d >> 19) * _P1 & _ALL
        found = _left(a, 1) + _left(b, 7) + _left(c, 12) + _left(d, 18)
    else:
        found = seed + _P5
    found = found + size & _ALL
    while at + 4 <= size:
        found = _left(found + int.from_bytes(data[at : at + 4], "little") * _P3 & _ALL, 17) * _P4 & _ALL
        at += 4
    for byte in data[at:]:
        found = _left(found + byte * _P5 & _ALL, 11) * _P1 & _ALL
    found = (found ^ found >> 15) * _P2 & _ALL
    found = (found ^ found >> 13) * _P3 & _ALL
    return found ^ found >> 16


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _ALL
