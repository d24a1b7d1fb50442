"""The checkpoint as one value: batches, holes, leftovers, faults, the writer's version, what was not read."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from surestart.facts.checkpoint.batch_logs import guess_writer_version
from surestart.facts.checkpoint.log_file import EMPTY, NOT_A_FILE, STALE_CRC, TORN
from surestart.facts.checkpoint.snapshot import read_checkpoint
from tests.checkpoint.checkpoint_maker import (
    CONFS,
    QUERY_ID,
    add_crcs,
    commit_text,
    files,
    kafka,
    make_checkpoint,
    offsets_text,
    write_with_crc,
)


def test_a_whole_checkpoint(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path)))
    assert (checkpoint.query_id, checkpoint.latest_planned, checkpoint.latest_committed) == (QUERY_ID, 4, 4)
    assert (checkpoint.in_flight, checkpoint.next_batch) == (None, 5)
    assert checkpoint.formats == {"offsets": 1, "commits": 1}
    assert checkpoint.confs == CONFS
    assert (checkpoint.faults, checkpoint.strange, checkpoint.leftovers, checkpoint.sampled) == ((), (), (), ())
    assert checkpoint.files == 12
    assert checkpoint.size == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())


def test_a_source_shows_where_the_newest_batch_begins_and_ends(tmp_path: Path) -> None:
    (source,) = read_checkpoint(str(make_checkpoint(tmp_path))).sources
    assert source.start is not None
    assert source.end is not None
    assert (source.start.describe(), source.end.describe()) == ("orders 0@130, 1@55", "orders 0@140, 1@60")


def test_the_batch_in_flight_is_the_next_one(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path, committed=range(4))))
    assert (checkpoint.in_flight, checkpoint.next_batch) == (4, 4)


def test_a_purged_checkpoint_begins_where_its_files_begin(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path, planned=range(900, 1001), committed=range(900, 1000))))
    assert (checkpoint.offsets_folder.first, checkpoint.latest_planned, checkpoint.in_flight) == (900, 1000, 1000)
    assert checkpoint.offsets_folder.holes == ()


def test_holes_are_ranges(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path, planned=(0, 1, 3, 4, 8), committed=range(9))))
    assert checkpoint.offsets_folder.holes == ((2, 2), (5, 7))


def test_nothing_there_is_a_value_too(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(tmp_path / "nowhere"))
    assert (checkpoint.exists, checkpoint.query_id, checkpoint.next_batch) == (False, None, 0)


def test_a_file_in_the_folders_place_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "ck").write_text("x")
    assert [fault.kind for fault in read_checkpoint(str(tmp_path / "ck")).faults] == [NOT_A_FILE]


@pytest.mark.parametrize(
    ("content", "kind"), [("", EMPTY), ('{"id":"', TORN), ("{}", TORN), ('{"id":"hello"}', TORN), ("[]", TORN)]
)
def test_damaged_metadata_is_a_fault_and_no_id(tmp_path: Path, content: str, kind: str) -> None:
    root = make_checkpoint(tmp_path)
    (root / "metadata").write_text(content)
    checkpoint = read_checkpoint(str(root))
    assert checkpoint.query_id is None
    assert checkpoint.metadata_fault is not None
    assert checkpoint.metadata_fault.kind == kind


def test_torn_entries_stand_beside_whole_ones(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    (root / "offsets/4").write_text("v1")
    (root / "commits/2").write_text("")
    checkpoint = read_checkpoint(str(root))
    assert [(fault.path, fault.kind) for fault in checkpoint.faults] == [("offsets/4", TORN), ("commits/2", EMPTY)]


def test_leftovers_checksums_and_strange_files_are_told_apart(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    add_crcs(root)
    (root / "offsets/.5.9e3b0cd7-9b7c-4b0e-8b7a-0b6f0b0e8f33.tmp").write_text("v1")
    (root / "offsets/4.bak").write_text("v1")
    (root / "offsets/.9.crc").write_bytes(b"crc\x00")
    (root / "notes.txt").write_text("do not touch")
    checkpoint = read_checkpoint(str(root))
    assert checkpoint.leftovers == ("offsets/.5.9e3b0cd7-9b7c-4b0e-8b7a-0b6f0b0e8f33.tmp",)
    assert checkpoint.strange == ("notes.txt", "offsets/4.bak")
    assert checkpoint.offsets_folder.crcs == {0, 1, 2, 3, 4, 9}
    assert checkpoint.latest_planned == 4


@pytest.mark.parametrize("path", ["metadata", "offsets/4", "offsets/3", "commits/4"])
def test_a_file_changed_behind_its_checksum_is_found(tmp_path: Path, path: str) -> None:
    root = make_checkpoint(tmp_path)
    add_crcs(root)
    assert read_checkpoint(str(root)).crc_faults == {}
    (root / path).write_bytes((root / path).read_bytes() + b" ")
    assert [(fault.path, fault.kind) for fault in read_checkpoint(str(root)).crc_faults.values()] == [(path, STALE_CRC)]


def test_a_long_file_is_checked_chunk_by_chunk(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    confs = {f"spark.sql.key{number}": "value" for number in range(100)}
    data = offsets_text(kafka(4), confs=confs).encode()
    write_with_crc(root / "offsets/4", data)
    assert read_checkpoint(str(root)).crc_faults == {}
    (root / "offsets/4").write_bytes(data[:-1] + b"~")
    assert list(read_checkpoint(str(root)).crc_faults) == ["offsets/4"]


def test_a_folder_in_a_logs_place_does_not_count_as_a_batch(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    (root / "offsets/5").mkdir()
    checkpoint = read_checkpoint(str(root))
    assert (checkpoint.latest_planned, checkpoint.offsets_folder.blocked) == (4, (5,))


def test_names_that_java_takes_for_numbers_are_kept_apart(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    for name in ("+9", "007", "-1"):
        (root / "offsets" / name).write_text("v1")
    folder = read_checkpoint(str(root)).offsets_folder
    assert folder.last == 4
    assert folder.misread == (("-1", -1), ("007", 7), ("+9", 9))


def test_what_was_not_read_is_said(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, planned=range(300), committed=range(300))
    checkpoint = read_checkpoint(str(root))
    assert len(checkpoint.offsets) == 128
    assert checkpoint.sampled[0] == "offsets/: 128 newest of 300 files read, the rest by name only"
    assert len(read_checkpoint(str(root), entries=5).commits) == 5


def test_two_sources_keep_their_places(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    for batch in range(5):
        (root / "offsets" / str(batch)).write_text(offsets_text(kafka(batch), "-"))
    checkpoint = read_checkpoint(str(root))
    assert [(source.id, source.kind) for source in checkpoint.sources] == [("0", "kafka"), ("1", "none yet")]


def test_commits_of_version_2_bring_the_state_ids(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    (root / "commits/4").write_text(commit_text(2, stateUniqueIds={"0": [["a"]]}))
    assert read_checkpoint(str(root)).formats["commits"] == 2


def test_the_value_cannot_be_changed(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path, source=files)))
    with pytest.raises(FrozenInstanceError):
        checkpoint.query_id = "another"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("keys", "version"),
    [
        ((), None),
        (("spark.sql.shuffle.partitions",), "2.1-2.3"),
        (("spark.sql.streaming.aggregation.stateFormatVersion",), "2.4"),
        (("spark.sql.streaming.statefulOperator.useStrictDistribution",), "3.3-3.5"),
        (("spark.sql.streaming.stateStore.encodingFormat",), "4.0-4.1"),
        (("spark.sql.streaming.stateStore.rowChecksum.enabled",), "4.2"),
        (("spark.sql.streaming.stateStore.encodingFormat", "spark.databricks.x"), "4.0-4.1 (Databricks)"),
    ],
)
def test_the_pinned_settings_tell_which_spark_wrote_them(keys: tuple[str, ...], version: str | None) -> None:
    assert guess_writer_version(dict.fromkeys(keys, "1")) == version
