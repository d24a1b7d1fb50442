"""A cut of a checkpoint: what of Spark's entries belongs to it, as a value and as written, without Spark."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from surestart.facts.checkpoint.cut import CannotCut, Cut, CutStorage, read_cut
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.storage.open_storage import LocalStorage
from surestart.remedies.basis.cut_checkpoint import forget_cut, is_placed, place_cut, scratch_folder, write_cut
from surestart.remedies.loss.loss import Loss
from surestart.remedies.planning.plan_rewind import describe_loss
from surestart.remedies.planning.rewind_table import (
    file_not_looked_for,
    find_fault,
    kept_batches,
    newest_whole,
    unread_files,
)
from surestart.verdict.inspection import inspect_checkpoint
from surestart.verdict.shapes import diagnose_checkpoint

HERE = Path(__file__).parent
NEW = "11111111-2222-4333-8444-555555555555"
ROCKSDB = ("plain", "log", "v2")
LINES = [
    (line, name)
    for line in ("3.5", "4.0", "4.1", "4.2")
    for name in ("files", "deduplication", "aggregation", "join", "rocksdb", "format-v2")
    if (line, name) != ("3.5", "format-v2")
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    for archive in ("checkpoints.zip", "rocksdb.zip"):
        with zipfile.ZipFile(HERE / archive) as file:
            file.extractall(folder / archive.removesuffix(".zip"))
    return folder


def storage(place: Path) -> LocalStorage:
    return LocalStorage(str(place))


def shown(place: Path, cut: Cut) -> list[str]:
    found = inspect_checkpoint(str(place), sinks=("none",), storage=CutStorage(storage(place), cut))
    return [f"{one.code}: {one.evidence}" for one in found.findings if one.severity.value in ("unsafe", "cannot tell")]


@pytest.mark.parametrize(("line", "name"), LINES)
def test_the_first_batch_of_each_line_and_kind_of_state_can_be_gone_back_to(
    unpacked: Path, line: str, name: str
) -> None:
    place = unpacked / "checkpoints" / line / name
    cut = read_cut(storage(place), 0, NEW)
    assert shown(place, cut) == []
    found = read_checkpoint(str(place), CutStorage(storage(place), cut))
    assert (found.query_id, found.latest_planned, found.latest_committed) == (NEW, 0, 0)
    assert not [path for path in cut.copied if path.startswith("state") and path.rpartition("/")[2].startswith("2")]


@pytest.mark.parametrize("kind", ROCKSDB)
def test_every_batch_has_the_files_that_its_snapshot_names_and_no_others(unpacked: Path, kind: str) -> None:
    place = unpacked / "rocksdb" / kind
    sizes = []
    for batch in kept_batches(read_checkpoint(str(place))):
        cut = read_cut(storage(place), batch, NEW)
        assert shown(place, cut) == [], batch
        sizes.append(sum(path.endswith(".sst") for path in cut.copied))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_what_is_written_is_what_was_shown(unpacked: Path, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    shutil.copytree(unpacked / "rocksdb" / "log", place)
    before = read_manifest(place)
    cut = read_cut(storage(place), 5, NEW)
    scratch = scratch_folder(place, "query", "digest")
    written = write_cut(place, cut, scratch)
    assert read_manifest(place) == before
    assert written.files.keys() == {*cut.copied, "metadata"}
    assert all(written.files[name] == before.files[name] for name in cut.copied)
    assert json.loads((scratch / "metadata").read_text()) == {"id": NEW}
    shutil.rmtree(place)
    assert place_cut(scratch, place) == written
    assert is_placed(scratch, place)
    forget_cut(scratch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


def test_a_cut_half_placed_is_placed_on(unpacked: Path, tmp_path: Path) -> None:
    """As where a file system cannot rename: the folder is there, and some of the files."""
    origin, place = unpacked / "rocksdb" / "log", tmp_path / "checkpoint"
    scratch = scratch_folder(place, "query", "digest")
    written = write_cut(origin, read_cut(storage(origin), 5, NEW), scratch)
    name = next(iter(written.files))
    (place / name).parent.mkdir(parents=True)
    shutil.copyfile(scratch / name, place / name)
    assert not is_placed(scratch, place)
    assert place_cut(scratch, place) == written
    assert read_manifest(place) == written


@pytest.fixture
def listed(unpacked: Path, tmp_path: Path) -> Path:
    """A stream of files after twelve batches whose list was compacted at entry 9; older entries are gone."""
    place = tmp_path / "checkpoint"
    for folder in ("offsets", "commits", "sources/0"):
        (place / folder).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000001"}')
    lines = []
    for batch in range(12):
        offsets = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{batch + 1},"conf":{{}}}}\n{{"logOffset":{batch}}}'
        (place / "offsets" / str(batch)).write_text(offsets)
        (place / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        lines.append(f'{{"path":"file:///landing/{batch}.json","timestamp":{batch},"batchId":{batch}}}')
        if batch > 9:
            (place / "sources/0" / str(batch)).write_text(f"v1\n{lines[-1]}")
    (place / "sources/0/9.compact").write_text("\n".join(["v1", *lines[:10]]))
    return place


@pytest.mark.parametrize("batch", [9, 10])
def test_a_list_of_files_is_taken_as_it_is_from_its_compaction_on(listed: Path, batch: int) -> None:
    cut = read_cut(storage(listed), batch, NEW)
    assert cut.shortened == {}
    assert {path for path in cut.copied if path.startswith("sources")} == {
        "sources/0/9.compact",
        *[f"sources/0/{number}" for number in range(10, batch + 1)],
    }


def test_a_list_whose_entries_are_gone_is_shortened_from_the_next_compaction(listed: Path, tmp_path: Path) -> None:
    cut = read_cut(storage(listed), 4, NEW)
    assert shown(listed, cut) == []
    scratch = tmp_path / "scratch"
    write_cut(listed, cut, scratch)
    given = (listed / "sources/0/9.compact").read_text().split("\n")
    assert (scratch / "sources/0/4.compact").read_text().split("\n") == given[:6]
    assert [path.name for path in (scratch / "sources/0").iterdir()] == ["4.compact"]
    found = read_checkpoint(str(scratch))
    assert found.sources[0].folder is not None
    assert found.sources[0].folder.file_log is not None
    assert found.sources[0].folder.file_log.files_seen == 5
    assert not found.faults


def write_auto_loader(place: Path) -> None:
    (place / "sources/0/rocksdb/logs").mkdir(parents=True)


def write_schema_log(place: Path) -> None:
    log = place / "sources/0/_schema_log_abc"
    log.mkdir()
    for number in range(2):
        (log / str(number)).write_text("v1\n{}")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "not committed": (lambda place: (place / "commits/5").unlink(), "commits/5 is not kept"),
    "not planned": (lambda place: (place / "offsets/5").unlink(), "offsets/5 is not kept"),
    "the one before": (lambda place: (place / "offsets/4").unlink(), "offsets/4 is not kept, which a start"),
    "Auto Loader": (write_auto_loader, "only Databricks"),
    "another schema": (write_schema_log, "schema has changed"),
    "a list that ends": (lambda place: (place / "sources/0/9.compact").unlink(), "no later file holds"),
    "a strange source": (lambda place: (place / "sources/0/notes").write_text("x"), "is not known"),
    "strange state": (lambda place: make(place / "state/0/0/archive.bin"), "is not known"),
}


def make(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_is_neither_left_out_nor_taken_along(listed: Path, case: str) -> None:
    damage, why = REFUSED[case]
    assert read_cut(storage(listed), 5, NEW)
    damage(listed)
    with pytest.raises(CannotCut, match=why):
        read_cut(storage(listed), 5, NEW)


def test_the_newest_batch_whose_state_is_whole_is_found(unpacked: Path, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    shutil.copytree(unpacked / "rocksdb" / "log", place)
    batches = kept_batches(read_checkpoint(str(place)))
    assert newest_whole(storage(place), batches) == 11
    for path in place.glob("state/0/0/1[12].*"):
        path.unlink()
    assert "STATE" in find_fault(storage(place), 11)
    assert newest_whole(storage(place), batches) == 9


def test_of_files_in_a_cloud_store_it_is_not_said_that_they_are_still_there(unpacked: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(unpacked / "checkpoints/4.0/files", tmp_path / "own"))
    newest = kept_batches(read_checkpoint(str(place)))[-1]
    for file in (place / "sources/0").glob("[0-9]*"):
        file.write_text(re.sub(r'"path":"file:/+', '"path":"s3a://bucket/', file.read_text()))

    found = read_checkpoint(str(place))
    assert list(unread_files(storage(place), found, 0)) == []
    file = file_not_looked_for(storage(place), found, 0)
    assert file.startswith("s3a://bucket/")
    assert f"files are still there, such as {file}:" in describe_loss(Loss(), False, file)
    assert "still reaches back" in describe_loss(Loss(), False)
    assert file_not_looked_for(storage(place), found, newest) == ""


def test_state_that_is_gone_is_a_fault_also_where_the_start_is_not_known(unpacked: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(unpacked / "checkpoints/4.0/deduplication", tmp_path / "own"))
    for file in (place / "offsets").glob("[0-9]*"):
        text = file.read_text()
        file.write_text(f"{text}\n{text.splitlines()[-1]}")
    for crc in (place / "offsets").glob(".*.crc"):
        crc.unlink()
    assert "START_NOT_KNOWN" in [one.code for one in diagnose_checkpoint(read_checkpoint(str(place)))]
    assert find_fault(storage(place), 0) == ""

    (place / "state/0/0/1.delta").unlink()
    assert find_fault(storage(place), 0).startswith("STATE_MISSING: state/0/0 ")
