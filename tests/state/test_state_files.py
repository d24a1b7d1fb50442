"""State files that are whole, cut off, flipped, packed in other ways, or no state files at all."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.facts.checkpoint.log_file import NotInState, Torn, UnknownForm
from surestart.facts.checkpoint.lz4_blocks import FewThenMany, read_blocks, unpack_block, xxh32_plain
from surestart.facts.checkpoint.lzf_blocks import unpack_lzf
from surestart.facts.checkpoint.open_file import unpacked
from surestart.facts.checkpoint.snappy_blocks import unpack_snappy
from surestart.facts.checkpoint.state_records import (
    DELETE,
    DELETE_RANGE,
    MERGE,
    PUT,
    StateRecord,
    read_changelog,
    read_records,
)
from surestart.facts.checkpoint.store_files import StoreVersions
from surestart.facts.state import hdfs_rows
from surestart.facts.state.hdfs_rows import RowReading, TooLarge, read_hdfs_rows
from surestart.facts.storage.open_storage import LocalStorage
from tests.state.spark_row import lz4_blocks, records

PAIRS = [(f"key {number}".encode() * 3, f"value {number}".encode() * number) for number in range(200)]


def read(data: bytes) -> list[tuple[bytes, bytes | None]]:
    return [(record.key, record.value) for record in read_records(unpacked(io.BytesIO(data)))]


@given(
    st.binary(max_size=2_000) | st.builds(lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 300))
)
@settings(max_examples=200, deadline=None)
def test_our_own_lz4_unpacks_what_another_packed(data: bytes) -> None:
    import pyarrow

    packed = pyarrow.Codec("lz4_raw").compress(data, asbytes=True)

    assert unpack_block(packed, len(data)) == data


def test_the_checksum_is_that_of_its_description() -> None:
    """Vectors of the XXH32 description, doc/xxhash_spec.md: seeds 0 and 0x9e3779b1."""
    assert xxh32_plain(b"", 0) == 0x02CC5D05
    assert xxh32_plain(b"", 0x9E3779B1) == 0x36B78AE7
    assert xxh32_plain(b"Nobody inspects the spammish repetition", 0) == 0xE2293B2F


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_records_come_back_with_and_without_a_library(
    packed: bool, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surestart.facts.checkpoint.lz4_blocks.LIBRARY_FROM", 0 if fast else 1 << 40)
    pairs = [*PAIRS, (b"gone", None)]

    assert read(lz4_blocks(records(pairs), block=1_000, packed=packed)) == pairs


def test_a_library_is_imported_only_where_many_bytes_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing pyarrow from a cold disk took `surestart state` more than a second, for the first rows of a store."""
    monkeypatch.setattr("surestart.facts.checkpoint.lz4_blocks.LIBRARY_FROM", 100)
    asked: list[int] = []

    def library() -> Callable[[bytes, int], bytes]:
        asked.append(1)
        return lambda data, size: b"library"

    unpack = FewThenMany(lambda data, size: b"own", library)

    assert [unpack(b"", 50), unpack(b"", 50), asked] == [b"own", b"own", []]
    assert unpack(b"", 1) == b"library"


def test_a_file_that_is_cut_anywhere_is_torn() -> None:
    whole = lz4_blocks(records(PAIRS[:30]), block=1_000)
    for end in range(len(whole) - 21):
        with pytest.raises(Torn):
            read(whole[:end])


@pytest.mark.parametrize("packed", [True, False])
def test_a_flipped_bit_is_torn_or_changes_nothing(packed: bool) -> None:
    pairs = PAIRS[:30]
    whole = lz4_blocks(records(pairs), block=1_000, packed=packed)
    chosen = random.Random(7)
    seen = 0
    for _ in range(400):
        place = chosen.randrange((len(whole) - 21) * 8)
        broken = bytearray(whole)
        broken[place // 8] ^= 1 << place % 8
        try:
            # A level is stored beside the method, and nobody reads it.
            assert read(bytes(broken)) == pairs
        except (Torn, UnknownForm):
            seen += 1
    assert seen > 380


def test_a_length_that_nothing_holds_takes_no_memory() -> None:
    huge = struct.pack(">i", 2**31 - 1)
    for data in (huge, struct.pack(">i", 3) + b"key" + huge, struct.pack(">i", -2)):
        with pytest.raises(Torn, match="bytes, at byte"):
            read(lz4_blocks(data))
    for packed, unpacked_size in ((2**32 - 1, 100), (100, 2**32 - 1), (100, 32 << 20)):
        head = b"LZ4Block" + struct.pack("<BIII", 0x25, packed, unpacked_size, 0)
        with pytest.raises(Torn):
            list(read_blocks(io.BytesIO(head + bytes(100))))


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"", Torn, "0 bytes"),
        (b"PAR1 and more", Torn, "none of Spark's codecs"),
        (b"ZV\x02\x00\x00", Torn, "no block of LZF"),
        (b"ZV\x01\x00", Torn, "no block of LZF"),
        (b"\x82SNAPPY\x00\x00\x00", Torn, "first 16 bytes"),
        (b"\x82SNAPPY\x00\x00\x00\x00\x02\x00\x00\x00\x02", UnknownForm, "newer form of snappy"),
        (b"\x28\xb5\x2f\xfd no frame", Torn, "zstd"),
    ],
)
def test_what_is_no_lz4_is_named(data: bytes, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        read(data)


@pytest.mark.parametrize("library", ["zstandard", "pyarrow"])
def test_zstd_by_either_library(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow

    packed = pyarrow.Codec("zstd").compress(records(PAIRS), asbytes=True)
    import importlib.util as util

    find: Any = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: find(name) if name == library else None)

    assert read(packed) == PAIRS
    with pytest.raises(Torn):
        read(packed[: len(packed) // 2])


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def of_kind(kind: int, key: bytes, value: bytes | None) -> bytes:
    end = struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return bytes([kind]) + struct.pack(">i", len(key)) + key + end


@pytest.mark.parametrize("head", [utf("v2"), utf("v4") + utf('[{"version":1}]')])
def test_a_changelog_of_kinds(head: bytes) -> None:
    wanted = [
        StateRecord(PUT, b"a", b"1"),
        StateRecord(DELETE, b"a", None),
        StateRecord(MERGE, b"b", b""),
        StateRecord(DELETE_RANGE, b"c", b"d"),
    ]
    data = head + b"".join(of_kind(*record) for record in wanted) + b"\x00"

    assert list(read_changelog(iter([data]))) == wanted
    with pytest.raises(Torn):
        list(read_changelog(iter([data[:-1]])))


@pytest.mark.parametrize("head", [b"", utf("v3") + utf("[]")])
def test_a_changelog_without_kinds(head: bytes) -> None:
    assert list(read_changelog(iter([head + records([(b"a", b"1"), (b"a", None)])]))) == [
        StateRecord(PUT, b"a", b"1"),
        StateRecord(DELETE, b"a", None),
    ]


def test_a_changelog_of_tomorrow_is_not_guessed() -> None:
    with pytest.raises(UnknownForm, match="v9"):
        list(read_changelog(iter([utf("v9") + b"\x00"])))


def store(root: Path, files: dict[str, list[tuple[bytes, bytes | None]]]) -> StoreVersions:
    for name, pairs in files.items():
        (root / name).write_bytes(lz4_blocks(records(pairs)))
    numbers = {kind: frozenset(int(name.split(".")[0]) for name in files if name.endswith(kind)) for kind in ("t", "a")}
    return StoreVersions(full=numbers["t"], steps=numbers["a"])


def rows(root: Path, versions: StoreVersions, version: int, look: RowReading | None = None) -> dict[bytes, bytes]:
    found = list(read_hdfs_rows(LocalStorage(str(root)), ".", versions, version, look or RowReading()))
    assert len(found) == len(dict(found))
    return dict(found)


def test_a_version_is_its_snapshot_and_what_came_after(tmp_path: Path) -> None:
    versions = store(
        tmp_path,
        {
            "1.delta": [(b"a", b"1"), (b"b", b"1")],
            "2.snapshot": [(b"a", b"1"), (b"b", b"2"), (b"c", b"2")],
            "2.delta": [(b"b", b"2"), (b"c", b"2")],
            "3.delta": [(b"a", b"3"), (b"a", b"33"), (b"b", None), (b"d", b"3"), (b"d", None)],
            "4.delta": [(b"b", b"4"), (b"c", None)],
        },
    )
    assert rows(tmp_path, versions, 1) == {b"a": b"1", b"b": b"1"}
    assert rows(tmp_path, versions, 2) == {b"a": b"1", b"b": b"2", b"c": b"2"}
    assert rows(tmp_path, versions, 3) == {b"a": b"33", b"c": b"2"}
    assert rows(tmp_path, versions, 4) == {b"a": b"33", b"b": b"4"}
    with pytest.raises(NotInState, match="version 5") as lacking:
        rows(tmp_path, versions, 5)
    assert lacking.value.given == ("1", "2", "3", "4")


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    versions = store(tmp_path, {"1.delta": PAIRS, "2.delta": PAIRS})
    (tmp_path / "1.delta").write_bytes((tmp_path / "1.delta").read_bytes()[:400])

    with pytest.raises(Torn, match=r"1\.delta is torn: it ends within"):
        rows(tmp_path, versions, 2)


class Counting(LocalStorage):
    def open_file(self, path: str) -> Any:
        self._folders.setdefault("opened", "")
        self._folders["opened"] += f"{path} "
        return super().open_file(path)


def test_the_first_rows_open_the_newest_file_only(tmp_path: Path) -> None:
    versions = store(tmp_path, {"9.snapshot": PAIRS, "10.delta": PAIRS, "11.delta": PAIRS})
    storage = Counting(str(tmp_path))
    found = read_hdfs_rows(storage, ".", versions, 11, RowReading(few=20))

    assert [next(found) for _ in range(20)] == PAIRS[:20]
    assert storage._folders["opened"] == "./11.delta "


def test_a_store_that_does_not_fit_into_memory_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_rows, "HELD", 20_000)
    monkeypatch.setattr(hdfs_rows, "HELD_FOR_A_FEW", 5_000)
    versions = store(tmp_path, {"1.delta": PAIRS})

    with pytest.raises(TooLarge, match=r"1\.delta"):
        rows(tmp_path, versions, 1)
    look = RowReading(few=3)
    found = read_hdfs_rows(LocalStorage(str(tmp_path)), ".", versions, 1, look)
    assert [next(found) for _ in range(3)] == PAIRS[:3]
    assert "may replace" in look.notes[0]


def test_a_checksum_of_each_row_is_taken_off(tmp_path: Path) -> None:
    """Spark 4.1 and newer, where rowChecksum.enabled is pinned: in front of the value, or of a removed key."""
    versions = store(tmp_path, {"1.delta": [(b"a", b"sum!1"), (b"b", b"sum!2")], "2.delta": [(b"sum!a", None)]})

    assert rows(tmp_path, versions, 2, RowReading(row_checksums=True)) == {b"b": b"2"}


@given(
    st.binary(max_size=2_000) | st.builds(lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 300))
)
@settings(max_examples=200, deadline=None)
def test_our_own_snappy_unpacks_what_another_packed(data: bytes) -> None:
    import pyarrow

    packed = pyarrow.Codec("snappy").compress(data, asbytes=True)

    assert unpack_snappy(packed, len(data)) == data


@pytest.mark.parametrize(
    ("packed", "unpacked_data"),
    [
        (b"\x02abc", b"abc"),
        # A copy of 3 from 3 bytes before; one of 7 + 5 + 2 that overlaps itself.
        (b"\x02abc\x20\x02", b"abcabc"),
        (b"\x00a\xe0\x05\x00", b"a" * 15),
        (b"\x1f" + bytes(range(32)) + b"\x40\x1f", bytes(range(32)) + bytes(range(4))),
    ],
)
def test_lzf_by_its_description(packed: bytes, unpacked_data: bytes) -> None:
    assert unpack_lzf(packed, len(unpacked_data)) == unpacked_data
    for end in range(1, len(packed)):
        with pytest.raises(Torn):
            unpack_lzf(packed[:end], len(unpacked_data))


def test_a_copy_from_before_the_begin_or_beyond_the_end_is_torn() -> None:
    for packed, size in ((b"\x00a\x20\x05", 4), (b"\x00a\x20\x00", 3)):
        with pytest.raises(Torn, match="a copy goes"):
            unpack_lzf(packed, size)
    for packed in (b"\x04\x00a\x0e\x09\x00", b"\x02\x00a\x0e\x01\x00"):
        with pytest.raises(Torn, match="a copy goes"):
            unpack_snappy(packed, packed[0])


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", ["dedup-snappy", "groups-lzf"])
def test_what_spark_packed_with_snappy_and_lzf_is_torn_wherever_it_is_cut(
    checkpoints: Path, name: str, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr("surestart.facts.checkpoint.snappy_blocks.pyarrow_snappy", lambda: None)
    for path in sorted((checkpoints / name / "checkpoint/state/0").glob("*/*.delta"))[:2]:
        whole = path.read_bytes()
        assert read(whole)
        for end in range(0, len(whole) - 1, 1 + len(whole) // 60):
            with pytest.raises(Torn):
                read(whole[:end])
