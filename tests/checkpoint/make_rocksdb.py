"""Writes rocksdb.zip: checkpoints of a deduplication on RocksDB, stopped in order after twelve batches.

    python -m tests.checkpoint.make_rocksdb                 one minute
    python -m tests.checkpoint.make_rocksdb FOLDER          makes them there, damages copies, starts each again and
                                                            prints what happened

plain    a snapshot for each version           v2   a changelog, names with ids (checkpointFormatVersion 2)
log      a changelog, now and then a snapshot
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "rocksdb.zip"
STATE = "spark.sql.streaming.stateStore"
COMMON = {
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.maintenanceInterval": "100ms",
    f"{STATE}.minDeltasForSnapshot": "2",
    "spark.sql.shuffle.partitions": "2",
}
KINDS = {
    "plain": {f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"},
    "log": {f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true"},
    "v2": {f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true", f"{STATE}.checkpointFormatVersion": "2"},
}


def delete_rows(checkpoint: Path) -> None:
    for path in checkpoint.glob("state/0/*/SSTs/*.sst"):
        path.unlink()


def cut_rows(checkpoint: Path) -> None:
    for path in checkpoint.glob("state/0/*/SSTs/*.sst"):
        path.write_bytes(path.read_bytes()[:-100])
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def delete_older(checkpoint: Path) -> None:
    """Only what the newest snapshot does not name: nobody needs it."""
    from surestart.facts.checkpoint.store_files import read_named_files
    from surestart.facts.storage.open_storage import open_storage

    for store in checkpoint.glob("state/0/[0-9]*"):
        newest = max(store.glob("*.zip"), key=_version)
        named = read_named_files(open_storage(str(store)), newest.read_bytes(), newest.name)
        for path in (store / "SSTs").glob("*.sst"):
            if f"SSTs/{path.name}" not in named:
                path.unlink()


def flip_a_piece(checkpoint: Path) -> None:
    """Of the newest snapshot, what RocksDB reads and nobody else: only the archive's own checksum tells."""
    for store in checkpoint.glob("state/0/[0-9]*"):
        newest = max(store.glob("*.zip"), key=_version)
        with zipfile.ZipFile(newest) as archive:
            info = next(one for one in archive.infolist() if one.filename.startswith("MANIFEST"))
        data = bytearray(newest.read_bytes())
        data[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 16
        _write(newest, bytes(data))


def cut_schema(checkpoint: Path) -> None:
    schema = checkpoint / "state/0/0/_metadata/schema"
    _write(schema, schema.read_bytes()[:30])


def empty_schema(checkpoint: Path) -> None:
    _write(checkpoint / "state/0/0/_metadata/schema", b"")


def only_changes(checkpoint: Path) -> None:
    """Without a snapshot: every version is made of all before it."""
    for path in checkpoint.glob("state/0/*/*.zip"):
        if path.with_suffix(".changelog").exists():
            path.unlink()


def of_another_attempt(checkpoint: Path) -> None:
    """Format 2: the version before the newest is there, and not by the name that the newest one says."""
    for store in checkpoint.glob("state/0/[0-9]*"):
        newest = max(map(_version, store.glob("[0-9]*_*.*")), default=0)
        for path in store.glob(f"{newest}_*.zip"):
            path.unlink()
        for path in store.glob(f"{newest - 1}_*.*"):
            path.rename(path.with_name(f"{newest - 1}_11111111-2222-4333-8444-555555555555{path.suffix}"))


def commit_without_ids(checkpoint: Path) -> None:
    """As format 1 writes it; of a checkpoint of that format it is what was there."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    _write(newest, b'v1\n{"nextBatchWatermarkMs":0}')


def _version(path: Path) -> int:
    return int(path.stem.partition("_")[0])


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "whole": lambda checkpoint: None,
    "rows deleted": delete_rows,
    "rows cut": cut_rows,
    "older rows deleted": delete_older,
    "a piece of the snapshot flipped": flip_a_piece,
    "schema cut": cut_schema,
    "schema empty": empty_schema,
    "only changes": only_changes,
    "of another attempt": of_another_attempt,
    "commit without ids": commit_without_ids,
}


def land(landing: Path, first: int, last: int) -> None:
    landing.mkdir(exist_ok=True)
    for number in range(first, last):
        rows = "".join(f'{{"id":{number * 5 + row}}}\n' for row in range(5))
        (landing / f"part-{number:03}.json").write_text(rows)


def run(spark: Any, kind: str, landing: Path, checkpoint: Path) -> str:
    """ "" when the query ran to the end of its input, else the condition of its error."""
    from pyspark.errors import StreamingQueryException

    for key, value in KINDS[kind].items():
        spark.conf.set(key, value)
    rows = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json(str(landing)).dropDuplicates(["id"])
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    try:
        writer.trigger(availableNow=True).start().awaitTermination(120)
        return ""
    except StreamingQueryException as error:
        found = str(error)
        return found[found.index("[CANNOT_LOAD") + 1 :].partition("]")[0] if "[CANNOT_LOAD" in found else found[:200]
    finally:
        for key in KINDS[kind]:
            spark.conf.unset(key)


def wait_for_snapshots(checkpoint: Path, version: int) -> None:
    """Those of a changelog are uploaded by Spark's maintenance thread, in its own time; of a store that was unloaded
    before its turn came, not at all, and the next version has one."""
    import time

    deadline = time.monotonic() + 3
    lacking = set(checkpoint.glob("state/0/[0-9]*"))
    while time.monotonic() < deadline and lacking:
        time.sleep(0.02)
        lacking = {one for one in lacking if not [*one.glob(f"{version}.zip"), *one.glob(f"{version}_*.zip")]}


def make(spark: Any, folder: Path, landing: Path) -> None:
    for key, value in COMMON.items():
        spark.conf.set(key, value)
    shutil.rmtree(landing, ignore_errors=True)
    for number in range(12):
        land(landing, number, number + 1)
        for kind in KINDS:
            assert run(spark, kind, landing, folder / kind) == ""
        for kind in KINDS:
            # A changelog has one for every second version: minDeltasForSnapshot.
            if kind == "plain" or number % 2:
                wait_for_snapshots(folder / kind, number + 1)
    for kind in KINDS:
        assert list((folder / kind).glob("state/0/*/*.zip")), kind


def restart(spark: Any, folder: Path, landing: Path) -> dict[str, str]:
    """What each damaged copy did at its next start, with one more file to read; the copies stay as they were before."""
    land(landing, 12, 13)
    outcomes = {}
    for kind in KINDS:
        for name, damage in DAMAGES.items():
            kept = folder / f"{kind}, {name}"
            shutil.copytree(folder / kind, kept)
            damage(kept)
            # Each in a folder of its own: the maintenance thread may still write into the one before.
            started = folder / "started" / kept.name
            shutil.copytree(kept, started)
            outcomes[kept.name] = run(spark, kind, landing, started)
    return outcomes


def main() -> None:
    from surestart.spark.session import local_session

    landing = Path("/tmp/surestart-landing")
    spark = local_session("rocksdb")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) == 2 else temporary)
        landing = folder / "landing" if len(sys.argv) == 2 else landing
        make(spark, folder, landing)
        if len(sys.argv) == 2:
            sys.stdout.write(json.dumps(restart(spark, folder, landing)) + "\n")
        else:
            with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sorted(folder.rglob("*")):
                    if path.is_file():
                        archive.write(path, path.relative_to(folder))
            sys.stdout.write(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size} bytes\n")
    shutil.rmtree(landing, ignore_errors=True)
    spark.stop()


if __name__ == "__main__":
    main()
