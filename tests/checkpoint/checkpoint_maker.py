"""Checkpoints written by hand after the documented formats, for tests that need thousands of them in seconds.

Spark's own bytes: a version line, JSON without spaces, no newline at the end.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

QUERY_ID = "6a5f2a6e-30cc-4be9-9a0c-2f3a1b8f6d11"
TABLE_ID = "11111111-2222-4333-8444-555555555555"
STATE_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
CONFS = {
    "spark.sql.streaming.stateStore.providerClass": f"{STATE_PACKAGE}.HDFSBackedStateStoreProvider",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.shuffle.partitions": "2",
}


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def kafka(batch: int) -> str:
    return compact({"orders": {"0": 100 + 10 * batch, "1": 40 + 5 * batch}})


def files(batch: int) -> str:
    return compact({"logOffset": batch})


def delta(batch: int) -> str:
    return compact(
        {
            "sourceVersion": 1,
            "reservoirId": TABLE_ID,
            "reservoirVersion": 12 + batch,
            "index": -1,
            "isStartingVersion": False,
        }
    )


def rate(batch: int) -> str:
    return str(1200 + 60 * batch)


def offsets_text(
    *sources: str, version: int = 1, confs: dict[str, str] | None = None, timestamp_ms: int | None = None
) -> str:
    stamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    metadata = compact({"batchWatermarkMs": 0, "batchTimestampMs": stamp, "conf": CONFS if confs is None else confs})
    return "\n".join([f"v{version}", metadata, *sources])


def commit_text(version: int = 1, **fields: object) -> str:
    return f"v{version}\n" + compact({"nextBatchWatermarkMs": 0, **fields})


def make_checkpoint(
    root: Path,
    *,
    planned: Iterable[int] = range(5),
    committed: Iterable[int] = range(5),
    source: Callable[[int], str] = kafka,
    query_id: str | None = QUERY_ID,
) -> Path:
    """A checkpoint with one source, as Spark 4.0 leaves it on a store without checksum files."""
    for folder in ("offsets", "commits", "sources/0"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    if query_id is not None:
        (root / "metadata").write_text(compact({"id": query_id}))
    planned = list(planned)
    start = int(time.time() * 1000) - 1000
    for batch in planned:
        (root / "offsets" / str(batch)).write_text(offsets_text(source(batch), timestamp_ms=start + batch))
    for batch in committed:
        (root / "commits" / str(batch)).write_text(commit_text())
    if source is kafka:
        (root / "sources/0/0").write_bytes(b"\x00v1\n" + kafka(-1).encode())
    if source is files:
        write_file_log(root / "sources/0", range(max(planned, default=-1) + 1))
    if source is rate:
        (root / "sources/0/0").write_text("v1\n1531991874513")
    return root


def write_file_log(folder: Path, numbers: Iterable[int], per_entry: int = 1) -> None:
    """The file source's list; every tenth entry is a .compact with everything before it."""
    so_far: list[str] = []
    for number in numbers:
        mine = [
            compact({"path": f"file:///landing/part-{number}-{item}.json", "timestamp": 1, "batchId": number})
            for item in range(per_entry)
        ]
        so_far += mine
        whole = number % 10 == 9
        name = f"{number}.compact" if whole else str(number)
        (folder / name).write_text("\n".join(["v1", *(so_far if whole else mine)]))


def make_state(
    root: Path,
    versions: Iterable[int],
    *,
    operator: int = 0,
    partitions: int = 2,
    stores: tuple[str, ...] = ("default",),
    name: str = "dedupe",
    suffix: str = "delta",
) -> None:
    folder = root / "state" / str(operator)
    (folder / "_metadata").mkdir(parents=True)
    info = [{"storeName": store, "numColsPrefixKey": 0, "numPartitions": partitions} for store in stores]
    (folder / "_metadata/metadata").write_text(
        "v1\n" + compact({"operatorInfo": {"operatorId": operator, "operatorName": name}, "stateStoreInfo": info})
    )
    for partition in range(partitions):
        for store in stores:
            home = folder / str(partition) if store == "default" else folder / str(partition) / store
            home.mkdir(parents=True, exist_ok=True)
            for version in versions:
                (home / f"{version}.{suffix}").write_bytes(b"state of some length")


def write_with_crc(path: Path, data: bytes) -> None:
    """As Hadoop's local file system writes it: the file and `.name.crc` beside it."""
    path.write_bytes(data)
    chunks = [data[at : at + 512] for at in range(0, len(data), 512)]
    sums = b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\x00" + struct.pack(">I", 512) + sums)


def add_crcs(root: Path) -> None:
    """Every file of the checkpoint gets its checksum file."""
    for path in [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]:
        write_with_crc(path, path.read_bytes())
