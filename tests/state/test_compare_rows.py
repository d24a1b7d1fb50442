"""What a stream that goes back gives up of its state: rows now and then, and how many differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from surestart.facts.checkpoint.cut import CutStorage, read_cut
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.state.compare_rows import Allowance, RowsGivenUp, compare_state
from surestart.facts.storage.open_storage import LocalStorage
from tests.state import fixtures

HDFS = [name for name in fixtures.PACKED if "rocks" not in name]
ROCKS = [name for name in fixtures.PACKED if "rocks" in name and not name.startswith("transform")]


def older(root: Path, batch: int) -> Checkpoint:
    storage = LocalStorage(str(root))
    return read_checkpoint(str(root), CutStorage(storage, read_cut(storage, batch, "an-id")))


def compared(root: Path, batch: int, allowance: Allowance | None = None) -> dict[str, RowsGivenUp]:
    now = read_checkpoint(str(root))
    found = compare_state(LocalStorage(str(root)), "orders", now, older(root, batch), allowance)
    return {one.store: one for one in found}


def by_key(read: dict[str, Any]) -> dict[str, str]:
    return {json.dumps([key, partition]): json.dumps(value) for key, value, partition in read["rows"]}


@pytest.mark.parametrize("name", HDFS)
def test_rows_that_differ_are_those_that_spark_s_own_reader_sees_differ(checkpoints: Path, name: str) -> None:
    reads = list(fixtures.reads_of(checkpoints / name))
    newest, batch = max(one["batch"] for one in reads), min(one["batch"] for one in reads)
    assert batch < newest
    found = compared(checkpoints / name / "checkpoint", batch)
    stores = {one["store"] for one in reads}
    assert set(found) == stores
    for store in stores:
        now, then = (
            by_key(next(one for one in reads if (one["store"], one["batch"]) == (store, number)))
            for number in (newest, batch)
        )
        one = found[store]
        assert (one.rows, one.then, one.batch) == (len(now), len(then), batch)
        assert one.came == len(now.keys() - then.keys())
        assert one.back == len(then.keys() - now.keys())
        assert one.changed == sum(now[key] != value for key, value in then.items() if key in now)


@pytest.mark.parametrize("name", ROCKS)
def test_of_rocksdb_it_is_the_snapshot_of_just_that_version_or_not_counted(checkpoints: Path, name: str) -> None:
    reads = list(fixtures.reads_of(checkpoints / name))
    batches = sorted({one["batch"] for one in reads})
    for store, one in compared(checkpoints / name / "checkpoint", batches[0]).items():
        assert (one.came, one.changed, one.back) == (None, None, None)
        for batch, said in ((batches[-1], one.rows), (batches[0], one.then)):
            rows = [len(read["rows"]) for read in reads if (read["store"], read["batch"]) == (store, batch)]
            assert said is None or not rows or [said] == rows
        if name.endswith("rocks"):
            assert None not in (one.rows, one.then)


@pytest.mark.parametrize("left", [Allowance(records=3), Allowance(bytes=10)])
def test_more_than_is_allowed_is_not_counted_and_is_not_none(checkpoints: Path, left: Allowance) -> None:
    (one,) = compared(checkpoints / "dedup-hdfs" / "checkpoint", 1, left).values()
    assert (one.rows, one.then, one.came) == (None, None, None)


@pytest.mark.parametrize("lost", ["state/0/1/2.delta", "state/0/1"])
def test_what_is_torn_or_gone_is_not_counted(checkpoints: Path, tmp_path: Path, lost: str) -> None:
    root = Path(shutil.copytree(checkpoints / "dedup-hdfs" / "checkpoint", tmp_path / "own"))
    path = root / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.write_bytes(path.read_bytes()[:-30])
    (one,) = compared(root, 1).values()
    assert (one.rows, one.then, one.came) == (None, None, None)
