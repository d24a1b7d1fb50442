"""sources/K of every source: Kafka's zero byte, the file list with its compacted entries, rate, Delta, Auto "
"Loader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surestart.facts.checkpoint.log_file import EMPTY, FORGETFUL, TORN
from surestart.facts.checkpoint.snapshot import CheckpointSource, read_checkpoint
from surestart.facts.checkpoint.source_folder import SourceFolder
from tests.checkpoint.checkpoint_maker import compact, files, kafka, make_checkpoint, rate, write_file_log


def only_source(root: Path) -> CheckpointSource:
    (source,) = read_checkpoint(str(root)).sources
    return source


def folder_of(root: Path) -> SourceFolder:
    folder = only_source(root).folder
    assert folder is not None
    return folder


def test_kafkas_initial_offsets_are_read_behind_their_zero_byte(tmp_path: Path) -> None:
    folder = folder_of(make_checkpoint(tmp_path, source=kafka))
    assert folder.kind == "kafka"
    assert folder.initial is not None
    assert folder.initial.partitions == {"orders": {0: 90, 1: 35}}


def test_kafkas_initial_offsets_of_spark_2_1_have_neither_zero_byte_nor_version(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, source=kafka)
    (root / "sources/0/0").write_text(kafka(-1))
    assert folder_of(root).initial is not None


def test_torn_initial_offsets_are_a_fault(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, source=kafka)
    (root / "sources/0/0").write_bytes(b'\x00v1\n{"orders":{"0"')
    assert [fault.kind for fault in folder_of(root).faults] == [TORN]


@pytest.mark.parametrize(("last", "compacted"), [(4, None), (9, 9), (13, 9), (24, 19)])
def test_the_file_list_is_counted_from_its_last_compacted_entry(
    tmp_path: Path, last: int, compacted: int | None
) -> None:
    root = make_checkpoint(tmp_path, planned=range(last + 1), committed=range(last + 1), source=files)
    log = folder_of(root).file_log
    assert log is not None
    assert (log.last, log.compact, log.files_seen, log.exact, log.missing) == (last, compacted, last + 1, True, ())
    assert log.last_path == f"file:///landing/part-{last}-0.json"
    assert only_source(root).kind == "files"


def test_an_entry_may_hold_many_files(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, source=files)
    write_file_log(root / "sources/0", range(5), per_entry=40)
    log = folder_of(root).file_log
    assert log is not None
    assert log.files_seen == 200


def test_entries_before_the_last_compacted_one_may_be_gone(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, planned=range(14), committed=range(14), source=files)
    for number in range(9):
        (root / "sources/0" / str(number)).unlink()
    log = folder_of(root).file_log
    assert log is not None
    assert (log.first, log.missing, log.files_seen) == (9, (), 14)


def test_a_missing_entry_behind_the_compacted_one_is_named(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, planned=range(14), committed=range(14), source=files)
    (root / "sources/0/11").unlink()
    log = folder_of(root).file_log
    assert log is not None
    assert log.missing == (11,)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", EMPTY),
        (b'v1\n{"path":"file:///a', TORN),
        (b"x", TORN),
        (b"v1", FORGETFUL),
        (b"v1\n" + b"[" * 100_000, TORN),
    ],
)
def test_a_cut_entry_is_a_fault_and_no_count_is_given(tmp_path: Path, content: bytes, kind: str) -> None:
    root = make_checkpoint(tmp_path, source=files)
    (root / "sources/0/4").write_bytes(content)
    folder = folder_of(root)
    assert [fault.kind for fault in folder.faults] == [kind]
    assert folder.file_log is not None
    assert folder.file_log.files_seen is None


def test_the_rate_source_keeps_its_start_time(tmp_path: Path) -> None:
    source = only_source(make_checkpoint(tmp_path, source=rate))
    assert source.kind == "rate"
    assert source.folder is not None
    assert source.folder.start_ms == 1531991874513
    assert source.end is not None
    assert source.end.describe() == "1440 s after the first start"


def test_a_bare_number_over_a_file_list_is_a_file_source_of_spark_2_1(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, source=str)
    write_file_log(root / "sources/0", range(5))
    assert only_source(root).kind == "files"


def test_delta_schema_tracking_is_read(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    log = root / "sources/0/_schema_log_11111111-2222-4333-8444-555555555555"
    log.mkdir()
    entry = {"tableId": "11111111-2222-4333-8444-555555555555", "sourceMetadataPath": "/old/place/sources/0"}
    (log / "0").write_text("v1\n" + compact(entry))
    (log / "1").write_text("v1\n" + compact(entry | {"sourceMetadataPath": "/new/place/sources/0"}))
    (schema_log,) = read_checkpoint(str(root)).schema_logs
    assert (schema_log.last, schema_log.source_path) == (1, "/new/place/sources/0")
    assert schema_log.table_id.startswith("11111111")


def test_auto_loaders_store_is_named_and_not_opened(tmp_path: Path) -> None:
    position = '{"seqNum":12,"sourceVersion":1}'
    root = make_checkpoint(tmp_path, source=lambda batch: position)
    store = root / "sources/0/rocksdb"
    store.mkdir()
    os.mkfifo(store / "000001.sst")
    source = only_source(root)
    assert source.kind == "auto-loader"
    assert source.end is not None
    assert "12 files discovered" in source.end.describe()


def test_a_source_folder_without_an_offset_still_shows(tmp_path: Path) -> None:
    source = only_source(make_checkpoint(tmp_path, planned=(), committed=(), source=kafka))
    assert (source.kind, source.end) == ("kafka", None)
