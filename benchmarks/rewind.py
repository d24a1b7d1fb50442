"""What a rewind costs beside copying: `python -m benchmarks.rewind [ROWS] [MEGABYTES OF STATE]`.

    planning it, the session being up                                        bar: 5 s with 10,000,000 rows and 1 GB
    applying it, without what copies and syncs the state's files             bar: 15 s
    copying a byte, against `cp -r` of the same checkpoint                   bar: half as fast
    copying and syncing a byte, against `cp -r` and a sync of each file      no bar of its own
    undoing it                                                               no bar of its own

A declared stream from files to a Delta table, with a stateful operator of 16 partitions. Its checkpoint is written here
in Spark's forms, the table by Spark, a commit for each batch under the query id; the stream itself is not run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.state import _file, _with_schema
from surestart.facts.checkpoint.manifest import list_files, read_manifest
from surestart.facts.delta import read_active_files, read_delta_log
from surestart.remedies.basis import move_aside
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.spark.session import applied, local_session
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text

PLAN_SECONDS, OWN_SECONDS, OF_CP = 5.0, 15.0, 0.5
QUERY = "4ae2b6f3-13a6-4e27-8b5c-6d0c4a4d7c10"
BATCHES, TO, PARTITIONS = 6, 4, 16


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    size = (int(sys.argv[2]) if len(sys.argv) > 2 else 1024) << 20
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        place = write_checkpoint(root, size)
        cp = _seconds(lambda: subprocess.run(["cp", "-r", str(place), str(root / "cp")], check=True))
        synced = cp + _seconds(lambda: [move_aside.sync(path) for path in list_files(root / "cp").values()])
        shutil.rmtree(root / "cp")
        subprocess.run(["sync"], check=True)
        before, stored = read_manifest(place).digest, read_manifest(place).size
        spark = local_session("bench rewind", memory="2g")
        with applied(spark, pairs(EVERYWHERE)):
            write_table(spark, root / "table", rows)
            planning, applying, undoing, spent = measure(spark, root, place, rows)
        assert read_manifest(place).digest == before
        assert rows_of(root / "table") == rows // BATCHES * BATCHES
        spark.stop()
    own, ratio = applying - spent.copying - spent.syncing, (spent.copied / spent.copying) / (stored / cp)
    whole = (spent.copied / (spent.copying + spent.syncing)) / (stored / synced)
    print(f"{rows:,} rows, {stored / 1e6:,.0f} MB of state")
    met = [_judge("planning a rewind", planning, PLAN_SECONDS), _judge("applying it, its own", own, OWN_SECONDS)]
    print(f"copying {spent.copied / 1e6:,.0f} MB  {spent.copying:.1f} s, and syncing them  {spent.syncing:.1f} s")
    print(f"cp -r of {stored / 1e6:,.0f} MB  {cp:.1f} s, and a sync of each file  {synced - cp:.1f} s")
    met.append(ratio >= OF_CP)
    print(f"{'held' if met[-1] else 'MISSED'}: copying a byte is {ratio:.2f}x as fast as cp -r, wanted {OF_CP}x")
    print(f"copying and syncing one is {whole:.2f}x as fast as cp -r and a sync of each file")
    print(f"undoing it  {undoing:.1f} s")
    return 0 if all(met) else 1


@dataclass
class Spent:
    """Seconds of copying files and of waiting until they are on the disk; bytes that were copied."""

    copying: float = 0.0
    syncing: float = 0.0
    copied: int = 0


def measure(spark: Any, root: Path, place: Path, rows: int) -> tuple[float, float, float, Spent]:
    """Seconds of planning, applying and undoing; and what of applying was spent on copies."""
    text = f"""
        history = "{root}/history"
        [stream.numbers]
        checkpoint = "{place}"
        source = {{ files = "{root}/landing" }}
        sink = {{ append = "{root}/table", shared = false }}
    """
    project = parse_project_text(root / "surestart.toml", text)
    environment = environment_of_streams(project)
    stages = list(pipeline_of_streams(project.streams).build_stages({}))
    made: list[Any] = []
    wanted = Wanted("rewind", "numbers", to_batch=TO)
    planning = _seconds(lambda: made.append(plan_of_stages(spark, environment, stages, wanted)))
    plan = made[0]
    with copying_watched() as spent:
        applying = _seconds(lambda: apply_to_stages(spark, environment, stages, plan, confirm=plan.target))
    assert rows_of(root / "table") == rows // BATCHES * (TO + 1)
    undoing = _seconds(lambda: undo_of_stages(spark, environment, stages, plan, confirm=plan.target))
    return planning, applying, undoing, spent


@contextmanager
def copying_watched() -> Iterator[Spent]:
    spent = Spent()
    copyfile, sync = shutil.copyfile, move_aside.sync

    def copy(origin: Path, target: Path) -> None:
        spent.copying += _seconds(lambda: copyfile(origin, target))
        spent.copied += origin.stat().st_size

    def wait(path: Path) -> None:
        spent.syncing += _seconds(lambda: sync(path))

    with patch.object(move_aside.shutil, "copyfile", copy), patch.object(move_aside, "sync", wait):
        yield spent


def write_checkpoint(root: Path, size: int) -> Path:
    """Batches 0 to 5; the state that batch 4 left is a snapshot of that size, and what batch 5 made of it a delta."""
    place, landing = root / "checkpoint", root / "landing"
    for folder in (place / "offsets", place / "commits", place / "sources/0", landing):
        folder.mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": QUERY}))
    now = int(time.time() * 1000)
    for batch in range(BATCHES):
        times = {"batchWatermarkMs": 0, "batchTimestampMs": now + batch, "conf": {}}
        (place / f"offsets/{batch}").write_text(f'v1\n{json.dumps(times)}\n{{"logOffset":{batch}}}')
        (place / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
        (landing / f"{batch}.json").write_text("{}\n")
        listed = {"path": f"file://{landing}/{batch}.json", "timestamp": now, "batchId": batch}
        (place / f"sources/0/{batch}").write_text(f"v1\n{json.dumps(listed)}")
    for partition in range(PARTITIONS):
        store = place / f"state/0/{partition}"
        if partition == 0:
            _with_schema(store)
        store.mkdir(parents=True, exist_ok=True)
        _file(store / f"{TO + 1}.snapshot", size // PARTITIONS)
        _file(store / f"{TO + 2}.delta", 1 << 16)
    return place


def write_table(spark: Any, table: Path, rows: int) -> None:
    """A commit for each batch, as the query would have made it."""
    each = rows // BATCHES
    for batch in range(BATCHES):
        made = spark.range(batch * each, (batch + 1) * each).selectExpr("id", "id % 1000 AS bucket")
        writer = made.write.format("delta").mode("append").option("txnAppId", QUERY).option("txnVersion", batch)
        writer.save(str(table))


def rows_of(table: Path) -> int:
    files = read_active_files(str(table), read_delta_log(str(table)).latest_version)
    return sum(file.rows or 0 for file in files)


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _judge(what: str, seconds: float, bar: float) -> bool:
    print(f"{what}  {seconds:.1f} s (bar {bar:.0f} s)  {'yes' if seconds <= bar else 'NO'}")
    return seconds <= bar


if __name__ == "__main__":
    sys.exit(main())
