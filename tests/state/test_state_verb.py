"""`surestart state`: what it prints of whole checkpoints, of damaged ones, and of what is not there."""

from __future__ import annotations

import importlib.util
import json
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from surestart.cli.main import main
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from tests.state import fixtures

SCHEMA = json.loads((Path(__file__).parents[2] / "src/surestart/report/state.schema.json").read_text())


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["state", *map(str, arguments), "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.fixture
def own(checkpoints: Path, tmp_path: Path) -> Any:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(checkpoints / name / "checkpoint", tmp_path / name))

    return copy


@pytest.mark.parametrize("name", [name for name in fixtures.PACKED if not name.startswith("transform")])
def test_all_of_it_as_one_object(checkpoints: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, checkpoints / name / "checkpoint", "--limit", 0)
    newest = max(read["batch"] for read in fixtures.reads_of(checkpoints / name))
    wanted = {
        read["store"]: len(read["rows"]) for read in fixtures.reads_of(checkpoints / name) if read["batch"] == newest
    }
    assert {store["store"]: store["shown"] for store in found["stores"]} == wanted
    assert (found["batch"], found["version"]) == (newest, newest + 1)


def test_a_join_is_four_stores_with_their_own_columns(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(checkpoints / "join-hdfs" / "checkpoint")]) == 0
    said = capsys.readouterr().out
    assert "store left-keyToNumValues\n  key(field0 int) value(value bigint)" in said
    assert "value(rk string, rg int, rts timestamp, aa array<struct<p:string,q:bigint>>, matched boolean)" in said
    assert "5 rows, and there are more: --limit 0 shows all" in said
    assert "watermark     2026-01-01 00:18 UTC, " in said


def test_one_key_of_one_store(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoints / "within-hdfs" / "checkpoint"
    for key in ("sensor-29 ünï", "k=sensor-29 ünï"):
        (store,) = as_json(capsys, path, "--key", key, "--key", "g=4")["stores"]
        assert [row["key"] for row in store["rows"]] == [{"k": "sensor-29 ünï", "g": 4}]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["device=a"], "StateNotThere: {path} has no key column device; it has k string, g int\n"),
        (["a=b=c"], "has no key column a; it has k string, g int"),
        (["g=sensor-29 ünï"], "KeyNotOfColumn: --key: 'sensor-29 ünï' is no value of g int"),
        (["k=x", "g=1.5"], "'1.5' is no value of g int"),
    ],
)
def test_a_key_that_no_row_can_have_is_an_error_and_no_empty_answer(
    checkpoints: Path, keys: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoints / "within-hdfs" / "checkpoint"
    assert main(["state", str(path), *(word for key in keys for word in ("--key", key))]) == 2
    caught = capsys.readouterr()
    assert said.format(path=path) in caught.err
    assert "Next: surestart state " in caught.err
    assert caught.out == ""


def test_a_key_column_that_one_store_of_four_has_shows_that_store(
    checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoints / "join-hdfs" / "checkpoint"
    found = as_json(capsys, path, "--key", "index=00")["stores"]
    assert [store["store"] for store in found] == ["left-keyWithIndexToValue", "right-keyWithIndexToValue"]
    assert all(row["key"]["index"] == 0 for store in found for row in store["rows"])
    assert any(store["rows"] for store in found)
    assert main(["state", str(path), "--key", "nothing=0"]) == 2
    assert "it has field0 int, index bigint" in capsys.readouterr().err


def test_a_limit_and_a_partition_and_a_batch(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoints / "dedup-hdfs" / "checkpoint"
    (store,) = as_json(capsys, path, "--limit", 3, "--partition", 1, "--batch", 1)["stores"]
    assert (store["shown"], store["more"], {row["partition"] for row in store["rows"]}) == (3, True, {1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--operator", "7"], "no operator 7; it has 0"),
        (["--store", "left"], "no store left in operator 0; it has left-keyToNumValues, left-keyWithIndexToValue"),
        (["--partition", "2"], "no partition 2 of operator 0; it has 0, 1"),
        (["--variable", "x"], "no variable x in operator 0; it has default"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(
    checkpoints: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", str(checkpoints / "join-hdfs" / "checkpoint"), *options]) == 2
    caught = capsys.readouterr()
    assert caught.err.startswith("StateNotThere: ")
    assert said in caught.err
    assert caught.out == ""


def test_a_batch_whose_files_are_gone(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("dedup-hdfs")
    for first in path.glob("state/0/*/1.delta"):
        first.unlink()
    assert main(["state", str(path), "--batch", "0"]) == 4
    caught = capsys.readouterr()
    assert "StateNotReadable: 0 rows of operator 0 were read" in caught.err
    assert "which version 1 is made of" in caught.err


def test_a_batch_of_any_number_takes_no_memory(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(checkpoints / "dedup-hdfs" / "checkpoint"), "--batch", str(10**20)]) == 2
    assert f"has no batch {10**20} yet; it has batches up to" in capsys.readouterr().err


def test_a_batch_that_is_long_past_has_its_files_by_its_own_commit(
    own: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Format 2, and more batches since than are read at once."""
    path = own("within-rocksv2")
    wanted = as_json(capsys, path, "--batch", 1, "--limit", 0)
    for batch in range(5, 140):
        for log in ("offsets", "commits"):
            shutil.copy(path / log / "4", path / log / str(batch))
    assert as_json(capsys, path, "--batch", 1, "--limit", 0)["stores"] == wanted["stores"]


def test_no_state_and_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "offsets").mkdir()
    for path in (tmp_path, tmp_path / "nowhere"):
        assert main(["state", str(path)]) == 4
        assert "StateNotThere" in capsys.readouterr().err


def test_a_torn_file_is_said_behind_the_rows_before_it(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("dedup-hdfs")
    newest = path / "state/0/1/4.delta"
    newest.write_bytes(newest.read_bytes()[:60])

    (store,) = as_json(capsys, path, "--limit", 0, code=4)["stores"]
    assert store["shown"] > 0
    assert {row["partition"] for row in store["rows"]} == {0}
    assert store["not_read"].startswith("state/0/1/4.delta is torn: it ends within the LZ4 block at byte 0")
    assert main(["state", str(path), "--limit", "0"]) == 4
    caught = capsys.readouterr()
    assert "StateNotReadable: " in caught.err
    assert "then it cannot be read: state/0/1/4.delta is torn" in caught.out


def test_rows_of_another_store_are_not_taken_for_ours(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is whole, and of other columns than the schema has."""
    path = own("join-hdfs")
    store = path / "state/0/0"
    for name in ("left-keyToNumValues", "left-keyWithIndexToValue"):
        shutil.rmtree(path / f"state/0/1/{name}")
    shutil.copy(store / "left-keyToNumValues/5.delta", store / "left-keyWithIndexToValue/5.delta")

    found = as_json(capsys, path, "--store", "left-keyWithIndexToValue", code=4)
    assert "is not of the store's columns" in found["stores"][0]["not_read"]


def test_a_schema_that_cannot_be_read_gives_spark_s_own_call(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("within-hdfs")
    (path / "state/0/0/_metadata/schema").write_bytes(b"\x00\x02v7 and more")

    assert main(["state", str(path)]) == 4
    said = capsys.readouterr().err
    assert "StateFormUnknown" in said
    assert (
        'Next: in the code: spark.read.format("statestore").option("operatorId", "0").option("batchId", "4")'
        f'.load("{path}").show()'
    ) in said


def test_a_hostile_name_is_not_printed_as_it_is(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("totals-hdfs")
    notes = path / "state/0/_metadata/metadata"
    notes.write_text(notes.read_text().replace("stateStoreSave", "\\u001b[31mred"))

    assert main(["state", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_each_variable_of_transform_with_state_is_shown(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoints / "transform-rockslog" / "checkpoint"
    found = as_json(capsys, path, "--limit", 0)
    shown = {store["variable"]: store["shown"] for store in found["stores"]}
    assert shown == {
        "$procTimers_keyToTimestamp": 5, "$procTimers_timestampToKey": 5, "$rowCounter_seen": 5, "$ttl_brief": 5,
        "brief": 5, "by_y": 36, "count": 5, "seen": 48,
    }  # fmt: skip
    (store,) = as_json(capsys, path, "--variable", "$procTimers_timestampToKey", "--key", "key.g=3")["stores"]
    assert [row["key"] for row in store["rows"]] == [{"expiryTimestampMs": 4_000_000_000_003, "key": {"g": 3}}]
    assert main(["state", str(path), "--variable", "counts"]) == 2
    assert "no variable counts in operator 0; it has $procTimers" in capsys.readouterr().err


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(100, len(data) - 200, 40):
        data[place] ^= 0xFF
    path.write_bytes(data)


def flipped_in_a_row(path: Path) -> None:
    """RocksDB opens it, and its walk ends there as it does behind the last row."""
    data = bytearray(path.read_bytes())
    data[20] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-60])


def renamed_inside(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["metadata"] = members["metadata"].replace(b'"localFileName":"0', b'"localFileName":"../../0')
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("name", "pattern", "damage", "said"),
    [
        ("within-rocks", "state/0/0/5.zip", cut, "5.zip is not a whole snapshot"),
        ("within-rocks", "state/0/0/SSTs/*.sst", cut, "bytes of"),
        ("within-rocks", "state/0/0/SSTs/*.sst", Path.unlink, "is not there"),
        ("within-rocks", "state/0/0/SSTs/*.sst", flipped, "RocksDB says of its files"),
        ("within-rocks", "state/0/0/SSTs/*.sst", flipped_in_a_row, "RocksDB says of its files"),
        ("within-rocks", "state/0/0/5.zip", renamed_inside, "names a file '../../0"),
        ("aggregate-rockslog", "state/0/0/5.changelog", cut, "5.changelog is torn"),
        ("aggregate-rockslog", "state/0/0/5.changelog", Path.unlink, "5.zip or 5.changelog, which version 5 is made"),
        ("within-rocksv2", "state/0/0/5_*.changelog", cut, "is torn"),
    ],
)
def test_damage_to_rocksdb_is_named(
    own: Any, name: str, pattern: str, damage: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own(name)
    for found in sorted(path.glob(pattern)):
        damage(found)

    assert main(["state", str(path), "--limit", "0", "--partition", "0"]) == 4
    caught = capsys.readouterr()
    assert caught.err.startswith("StateNotReadable: ")
    assert said in caught.err


@pytest.mark.parametrize("batch", [0, 1])
def test_changes_of_families_that_no_snapshot_names_are_not_passed_over(
    own: Any, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own("transform-rockslog")
    for partition in (0, 1):
        (path / f"state/0/{partition}/1.zip").unlink()

    stores = as_json(capsys, path, "--batch", batch, code=4)["stores"]
    assert all("that names the column family" in store["not_read"] for store in stores)


def test_without_the_library_it_says_what_to_install(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "rocksdict" else find(name))

    assert main(["state", str(checkpoints / "within-rocks" / "checkpoint")]) == 4
    said = capsys.readouterr().err
    assert "StateReaderNotInstalled: " in said
    assert "-m pip install 'rocksdict" in said


def test_nothing_of_a_rocksdb_store_is_written(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("transform-rocks")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}

    assert main(["state", str(path), "--limit", "0"]) == 0
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["dedup-hdfs", "aggregate-rockslog"])
@pytest.mark.parametrize("emptied", [True, False])
def test_a_partition_that_is_gone_is_no_partition_without_rows(
    own: Any, name: str, emptied: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own(name)
    shutil.rmtree(path / "state/0/1")
    if emptied:
        (path / "state/0/1").mkdir()

    (store,) = as_json(capsys, path, "--limit", 0, code=4)["stores"]
    assert {row["partition"] for row in store["rows"]} == {0}
    assert "state/0/1/" in store["not_read"]
    for options in (["--partition", "1"], ["--check"]):
        assert main(["state", str(path), *options]) == (1 if options == ["--check"] else 4)
        caught = capsys.readouterr()
        assert "state/0/1" in caught.out + caught.err


def test_a_store_that_is_gone_is_no_store_without_rows(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("join-hdfs")
    for partition in (0, 1):
        shutil.rmtree(path / f"state/0/{partition}/right-keyToNumValues")

    assert main(["state", str(path)]) == 4
    caught = capsys.readouterr()
    assert "store right-keyToNumValues\n" in caught.out
    assert "right-keyToNumValues" in caught.err


def newest_of(path: Path) -> int:
    return max(int(one.name) for one in (path / "commits").glob("[0-9]"))


def test_a_global_aggregation_has_one_partition_whatever_it_declares(
    checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoints / "totals-hdfs" / "checkpoint"
    assert '"numPartitions":2' in (path / "state/0/_metadata/metadata").read_text()
    (store,) = as_json(capsys, path)["stores"]
    assert (store["shown"], store["partitions"]) == (1, [0])
    assert main(["state", str(path), "--check"]) == 0
    assert find_missing_state(read_checkpoint(str(path)), newest_of(path) + 1) is None


@pytest.mark.parametrize("batch", ["-1", "-5", "99"])
def test_no_batch_is_before_the_first_or_after_the_newest(
    checkpoints: Path, batch: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", str(checkpoints / "dedup-hdfs" / "checkpoint"), "--batch", batch]) == 2
    caught = capsys.readouterr()
    assert f"no batch {batch}" in caught.err
    assert caught.out == ""


def test_a_flipped_byte_that_zstd_does_not_see_is_seen_by_hadoop_s_checksum(
    own: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own("dedup-zstd")
    file = path / "state/0/0/3.snapshot"
    data = file.read_bytes()
    pieces = [data[at : at + 512] for at in range(0, len(data), 512)]
    sums = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
    file.with_name(".3.snapshot.crc").write_bytes(b"crc\x00" + (512).to_bytes(4, "big") + sums)
    assert main(["state", str(path), "--limit", "0"]) == 0
    capsys.readouterr()

    for place in range(0, len(data), 37):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert main(["state", str(path), "--limit", "0"]) == 4, place
        assert "3.snapshot is torn" in capsys.readouterr().err


def test_settings_are_those_of_the_newest_offsets_that_can_be_read(
    own: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own("aggregate-hdfs")
    newest = max((path / "offsets").glob("[0-9]"))
    for offsets in (path / "offsets").glob("[0-9]"):
        text = offsets.read_text()
        offsets.write_text(
            text.replace('"conf":{', '"conf":{"spark.sql.streaming.stateStore.rowChecksum.enabled":"true",')
        )
    assert main(["state", str(path)]) == 4
    said = capsys.readouterr().err
    newest.write_text('v1\n{"ba')
    assert main(["state", str(path)]) == 4
    assert capsys.readouterr().err == said
