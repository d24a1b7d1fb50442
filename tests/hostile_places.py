"""Checkpoints and tables that are larger than anything Spark writes, or as large as it ever does: for the tests, and
for `python -m benchmarks hostile`, which measures their time."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.checkpoint.checkpoint_maker import (
    QUERY_ID,
    commit_text,
    compact,
    files,
    make_checkpoint,
    make_state,
    offsets_text,
)
from tests.deltalog.handmade import commit_file, create, info, txn, write_commit

JUDGED = frozenset({0, 1, 3})
NOT_TOLD = frozenset({4})


@dataclass(frozen=True)
class Place:
    """build: makes it below a folder and gives the arguments of `inspect`. codes: what the inspection may end with."""

    build: Callable[[Path], list[str]]
    codes: frozenset[int]


def _checkpoint(make: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    def build(folder: Path) -> list[str]:
        make(folder / "ck")
        return [str(folder / "ck"), "--sink", "none"]

    return build


def _table(make: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    def build(folder: Path) -> list[str]:
        make_checkpoint(folder / "ck")
        make(folder / "table")
        return [str(folder / "ck"), "--sink", f"delta-builtin:{folder / 'table'}"]

    return build


def link_all(folder: Path, names: list[str], body: str) -> None:
    """Many names for one content: a hundred thousand in a second, each of them a file to the reader."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(names), 50_000):
        original = folder.parent / f"original-{start}"
        original.write_text(body)
        for name in names[start : start + 50_000]:
            os.link(original, folder / name)
        original.unlink()


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(size)


def _list_of_two_gigabytes(root: Path) -> None:
    make_checkpoint(root, source=files)
    sparse(root / "sources/0/4", 2 << 30)


def _partitions(root: Path, count: int, entries: int) -> None:
    make_checkpoint(root, planned=(), committed=range(entries))
    (root / "sources/0/0").write_bytes(b"\x00v1\n" + compact({"orders": dict.fromkeys(range(count), 0)}).encode())
    link_all(root / "offsets", [str(batch) for batch in range(entries)], offsets_text(_offsets(count)))


def _offsets(count: int) -> str:
    return compact({"orders": dict.fromkeys(range(count), 123_456_789)})


def _state(root: Path, partitions: int) -> None:
    make_checkpoint(root)
    make_state(root, [5], partitions=partitions, suffix="snapshot")


def _checksums_of_single_bytes(root: Path) -> None:
    _state(root, 60)
    for home in (root / "state/0").glob("[0-9]*"):
        (home / "5.snapshot").write_bytes(b"x" * 260_000)
        (home / ".5.snapshot.crc").write_bytes(b"crc\x00" + struct.pack(">I", 1) + b"\x00" * 4 * 260_000)


def _zips_that_unpack(root: Path) -> None:
    make_checkpoint(root)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", "v1\n" + compact({"sstFiles": []})[:-1] + ',"x":[' + "[]," * 2_000_000 + "[]]}")
    make_state(root, [5], partitions=50, suffix="zip")
    for home in (root / "state/0").glob("[0-9]*"):
        (home / "5.zip").write_bytes(packed.getvalue())


def _nested_lists(root: Path) -> None:
    make_checkpoint(root)
    for batch in range(5):
        (root / f"commits/{batch}").write_text("v1\n" + '{"stateUniqueIds":{"0":[' + "[]," * 2_500_000 + "[]]}}")


def _sources(root: Path) -> None:
    make_checkpoint(root)
    (root / "offsets/4").write_text(offsets_text(*["-"] * 500_000))
    for number in range(1, 5_000):
        (root / f"sources/{number}").mkdir()


def _commit_of_two_gigabytes(table: Path) -> None:
    write_commit(table, 0, *create())
    sparse(commit_file(table, 1), 2 << 30)


def _two_million_transactions(table: Path) -> None:
    write_commit(table, 0, *create())
    with commit_file(table, 1).open("w") as file:
        for thousand in range(2_000):
            file.write("".join(f'{{"txn":{{"appId":"a{thousand}-{n}","version":1}}}}\n' for n in range(1_000)))


def _a_line_of_lists(table: Path) -> None:
    write_commit(table, 0, *create())
    commit_file(table, 1).write_text('{"commitInfo":{"operation":[' + "[]," * 2_600_000 + "[]]}}\n")


def _many_commits(table: Path, count: int, more: Callable[[int], tuple[str, ...]] = lambda version: ()) -> None:
    """A streaming table of that many commits, with a checkpoint near its end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_commit(table, 0, *create())
    body = "".join(json.dumps(one) + "\n" for one in (info("STREAMING UPDATE"), txn(QUERY_ID, 4)))
    names = [name for version in range(1, count) for name in (f"{version:020d}.json", *more(version))]
    link_all(table / "_delta_log", names, body)
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    metadata = pa.struct([("id", pa.string()), ("schemaString", pa.string())])
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "T", "schemaString": "{}"}},
        {"txn": {"appId": QUERY_ID, "version": 4}},
    ]
    kinds = {"protocol": protocol, "metaData": metadata, "txn": _TXN(pa)}
    columns = {kind: pa.array([row.get(kind) for row in rows], type_) for kind, type_ in kinds.items()}
    pq.write_table(pa.table(columns), table / f"_delta_log/{count - 10:020d}.checkpoint.parquet")


def _TXN(pa: object) -> object:
    return pa.struct([("appId", pa.string()), ("version", pa.int64())])  # type: ignore[attr-defined]


def _parquet(table: Path, app_ids: object, count: int, **how: object) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_commit(table, 11, *create())
    column = pa.StructArray.from_arrays([app_ids, pa.array([1] * count, pa.int64())], names=["appId", "version"])
    path = table / f"_delta_log/{10:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"txn": column}), path, store_schema=False, **how)


def _one_text(table: Path, length: int) -> None:
    import pyarrow as pa

    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * length]))
    _parquet(table, texts, 100_000, compression="zstd", dictionary_pagesize_limit=1 << 30)


def _lists_of_lists(table: Path) -> None:
    """A byte each in the file, eight in Arrow and a hundred in Python."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_commit(table, 11, *create())
    inner = pa.ListArray.from_arrays(
        pa.array(range(0, 20_000_001, 1_000), pa.int32()),
        pa.Array.from_buffers(pa.int8(), 20_000_000, [None, pa.py_buffer(bytes(20_000_000))]),
    )
    outer = pa.ListArray.from_arrays(pa.array([0, 10_000, 20_000], pa.int32()), inner)
    column = pa.StructArray.from_arrays([pa.array(["a", "b"]), outer], names=["appId", "version"])
    pq.write_table(pa.table({"txn": column}), table / f"_delta_log/{10:020d}.checkpoint.parquet")


def _a_map_in_one_row(table: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_commit(table, 11, *create())
    keys = pa.array([f"{'k' * 100}{number}" for number in range(300_000)])
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 300_000, pa.int32()), pa.array(["v" * 1_000])
    ).dictionary_decode()
    entries = pa.MapArray.from_arrays(pa.array([0, 300_000], pa.int32()), keys, texts)
    column = pa.StructArray.from_arrays([pa.array(["T"]), entries], names=["id", "configuration"])
    path = table / f"_delta_log/{10:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"metaData": column}), path, compression="zstd")


def _a_million_transactions_in_parquet(table: Path) -> None:
    import pyarrow as pa

    _parquet(table, pa.array([f"app{number}" for number in range(1_000_000)]), 1_000_000)


def _checksums(version: int) -> tuple[str, ...]:
    return tuple(one.format(version) for one in (".{:020d}.json.crc", "{:020d}.crc", ".{:020d}.crc.crc"))


def _batches(root: Path, count: int) -> None:
    make_checkpoint(root, planned=(), committed=())
    link_all(root / "offsets", [str(batch) for batch in range(count)], offsets_text(_offsets(1)))
    link_all(root / "commits", [str(batch) for batch in range(count)], commit_text())


PLACES = {
    "file list of 2 GB": Place(_checkpoint(_list_of_two_gigabytes), NOT_TOLD),
    "57 offsets of 450,000 partitions": Place(_checkpoint(lambda root: _partitions(root, 450_000, 57)), NOT_TOLD),
    "128 offsets of 5,000 partitions": Place(_checkpoint(lambda root: _partitions(root, 5_000, 128)), JUDGED),
    "5,000 state partitions": Place(_checkpoint(lambda root: _state(root, 5_000)), JUDGED),
    "checksums of single bytes": Place(_checkpoint(_checksums_of_single_bytes), NOT_TOLD | JUDGED),
    "snapshots that unpack to lists": Place(_checkpoint(_zips_that_unpack), NOT_TOLD),
    "lists of lists in commits": Place(_checkpoint(_nested_lists), NOT_TOLD),
    "half a million sources": Place(_checkpoint(_sources), NOT_TOLD),
    "commit of 2 GB": Place(_table(_commit_of_two_gigabytes), NOT_TOLD),
    "2 million transactions in a commit": Place(_table(_two_million_transactions), NOT_TOLD),
    "a line of lists": Place(_table(_a_line_of_lists), NOT_TOLD),
    "a text of 1 MB 100,000 times": Place(_table(lambda table: _one_text(table, 1_000_000)), NOT_TOLD),
    "a text of 40 MB 100,000 times": Place(_table(lambda table: _one_text(table, 40_000_000)), NOT_TOLD),
    "lists of lists in parquet": Place(_table(_lists_of_lists), NOT_TOLD),
    "20,000 commits": Place(_table(lambda table: _many_commits(table, 20_000)), JUDGED),
}
# Minutes to make, or seconds to look at: measured with the others, tested in `make chaos`.
LARGE = {
    "100,000 commits with their checksums": Place(
        _table(lambda table: _many_commits(table, 100_000, _checksums)), JUDGED
    ),
    "a million transactions in parquet": Place(_table(_a_million_transactions_in_parquet), NOT_TOLD),
    "a map of 300 MB in one row": Place(_table(_a_map_in_one_row), NOT_TOLD),
    "600,000 log entries": Place(_checkpoint(lambda root: _batches(root, 300_000)), NOT_TOLD),
    "200,000 log entries": Place(_checkpoint(lambda root: _batches(root, 100_000)), JUDGED),
}
