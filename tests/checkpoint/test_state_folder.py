"""state/: operators, stores, partitions, providers, the versions there and the versions that a batch needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from surestart.facts.checkpoint.log_file import EMPTY, STALE_CRC
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.checkpoint.state_folder import StateFolder
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.facts.checkpoint.store_files import HDFS, ROCKSDB, StoreVersions
from surestart.verdict.next_start import Outcome
from surestart.verdict.restart import predict_next_start
from tests.checkpoint.checkpoint_maker import QUERY_ID, add_crcs, commit_text, compact, make_checkpoint, make_state

JOIN = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")


def state_of(root: Path) -> StateFolder:
    return read_checkpoint(str(root)).state


def test_a_stateless_query_has_no_state(tmp_path: Path) -> None:
    state = state_of(make_checkpoint(tmp_path))
    assert (state.exists, state.operators, state.provider) == (False, (), None)


def test_operators_stores_partitions_and_versions(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    make_state(root, range(1, 6), operator=1, partitions=3, stores=JOIN, name="symmetricHashJoin")
    state = state_of(root)
    first, second = state.operators
    assert (state.provider, first.name, first.partitions, first.store_names) == (HDFS, "dedupe", 2, ("default",))
    assert (second.name, second.partitions, second.store_names) == ("symmetricHashJoin", 3, JOIN)
    assert second.stores[2, "left-keyToNumValues"].latest == 5
    assert len(second.stores) == 12


def test_the_newest_metadata_of_version_2_counts(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    newer = root / "state/0/_metadata/v2"
    newer.mkdir()
    for batch, name in ((0, "old"), (12, "transformWithStateExec")):
        store = {
            "storeName": "default",
            "numPartitions": 2,
            "stateSchemaFilePaths": ["/elsewhere/state/0/_stateSchema/x"],
        }
        info = {"operatorInfo": {"operatorId": 0, "operatorName": name}, "stateStoreInfo": [store]}
        (newer / str(batch)).write_text("v2\n" + compact(info))
    (operator,) = state_of(root).operators
    assert operator.name == "transformWithStateExec"
    assert operator.schema_paths == ("/elsewhere/state/0/_stateSchema/x",)


def test_the_schema_file_is_read_where_it_is_readable(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))

    def struct(*columns: tuple[str, str]) -> bytes:
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
        text = compact({"type": "struct", "fields": fields}).encode()
        return (1).to_bytes(4, "big") + len(text).to_bytes(2, "big") + text

    schema = b"\x00\x02v2" + struct(("device", "string"), ("at", "timestamp")) + struct(("count", "long"))
    (root / "state/0/0/_metadata").mkdir()
    (root / "state/0/0/_metadata/schema").write_bytes(schema)
    assert state_of(root).operators[0].schema == "key(device string, at timestamp) value(count bigint)"


@pytest.mark.parametrize(
    ("full", "steps", "version", "provider", "missing"),
    [
        ((), (1, 2, 3), 3, HDFS, ""),
        ((), (1, 3), 3, HDFS, "version 2"),
        ((2,), (3, 4), 4, HDFS, ""),
        ((2,), (4,), 4, HDFS, "version 3"),
        ((4,), (), 4, ROCKSDB, ""),
        ((3,), (), 4, ROCKSDB, "snapshot 4.zip"),
        ((3,), (4,), 4, ROCKSDB, ""),
        ((), (), 0, HDFS, ""),
        ((5,), (6,), 4, HDFS, "version 1"),
    ],
)
def test_a_version_needs_a_snapshot_or_every_step_since_one(
    full: tuple[int, ...], steps: tuple[int, ...], version: int, provider: str, missing: str
) -> None:
    assert StoreVersions(frozenset(full), frozenset(steps)).missing_for(version, provider) == missing


def test_format_v2_is_recognised_by_its_names(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, (), suffix="zip")
    (root / "state/0/0/5_502abf89-6c11-49e0-b008-5e2f90008d17.changelog").write_text("x")
    state = state_of(root)
    assert (state.format_v2, state.provider) == (True, ROCKSDB)
    assert state.operators[0].stores[0, "default"].ids == {5: frozenset({"502abf89-6c11-49e0-b008-5e2f90008d17"})}


def test_an_empty_state_file_does_not_count_as_a_version(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    (root / "state/0/1/5.delta").write_bytes(b"")
    state = state_of(root)
    assert state.operators[0].stores[1, "default"].latest == 4
    assert [(fault.path, fault.kind) for fault in state.faults] == [("state/0/1/5.delta", EMPTY)]


def test_a_changed_state_file_does_not_count_where_a_checksum_tells(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    add_crcs(root)
    (root / "state/0/1/3.delta").write_bytes(b"other bytes altogether")
    state = state_of(root)
    assert state.operators[0].stores[1, "default"].missing_for(5, HDFS) == "version 3"
    assert [fault.kind for fault in state.faults] == [STALE_CRC]


def test_the_checksum_files_of_spark_4_1_tell_the_version_that_wrote_them(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    assert read_checkpoint(str(root)).spark_version == "4.0-4.1"
    (root / "state/0/0/5.delta.crc").write_text('{"algorithm":"CRC32C","value":1,"mainFileSize":20}')
    assert read_checkpoint(str(root)).spark_version == "4.1"
    assert state_of(root).operators[0].stores[0, "default"].latest == 5


@pytest.mark.parametrize("note", ['{"algorithm":"CRC32C","value":1,"mainFileSize":120}', '{"algor', "{}"])
def test_a_state_file_of_another_size_than_spark_has_noted_is_damaged(tmp_path: Path, note: str) -> None:
    """Left where the hidden files were not copied along: the start ends in it, whichever line it is of."""
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    (root / "state/0/1/5.delta.crc").write_text(note)
    assert predict_next_start(read_checkpoint(str(root)), "4.1").outcome is Outcome.FAILS


def test_damaged_metadata_of_an_operator_is_a_fault_and_the_folders_still_count(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    (root / "state/0/_metadata/metadata").write_text('v1\n{"operatorInfo":{}}')
    state = state_of(root)
    assert state.operators[0].partitions == 2
    assert [fault.path for fault in state.faults] == ["state/0/_metadata/metadata"]


def test_a_store_of_a_join_that_is_gone_from_every_partition_is_missed(tmp_path: Path) -> None:
    """Spark 3.5 writes nowhere which stores an operator has."""
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6), stores=JOIN, name="symmetricHashJoin")
    shutil.rmtree(root / "state/0/_metadata")
    assert predict_next_start(read_checkpoint(str(root)), "3.5").outcome is Outcome.STARTS
    for partition in range(2):
        shutil.rmtree(root / f"state/0/{partition}" / JOIN[2])
    missing = find_missing_state(read_checkpoint(str(root)), 5)
    assert missing is not None
    assert missing.path == f"state/0/0/{JOIN[2]}"


def test_an_operator_that_the_commit_names_is_missed(tmp_path: Path) -> None:
    """The last one: no later one shows that there is a gap."""
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6))
    ids = {str(operator): [[QUERY_ID]] for operator in range(2)}
    (root / "commits/4").write_text(commit_text(2, stateUniqueIds=ids))
    missing = find_missing_state(read_checkpoint(str(root)), 5)
    assert missing is not None
    assert (missing.path, missing.unclear) == ("state/1", False)


@pytest.mark.parametrize("named", [{}, {"stateUniqueIds": {}}])
def test_state_whose_files_have_ids_is_not_found_by_a_commit_that_names_none(
    tmp_path: Path, named: dict[str, object]
) -> None:
    """Spark looks for files without an id."""
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6), suffix="zip")
    for file in (root / "state").rglob("*.zip"):
        file.rename(file.with_name(f"{file.stem}_{QUERY_ID}.zip"))
    (root / "commits/4").write_text(commit_text(2, **named))
    missing = find_missing_state(read_checkpoint(str(root)), 5)
    assert missing is not None
    assert missing.detail.startswith("state/0/0 lacks version 5 without an id")
