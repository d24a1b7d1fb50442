"""`surestart state --check`: each state file is read to its end, and what is damaged takes its versions away."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-60])


def other_size(path: Path) -> None:
    path.with_name(f"{path.name}.crc").write_text('{"algorithm":"CRC32C","value":1,"mainFileSize":7}')


def with_crc(path: Path) -> bytes:
    """Its bytes, after Hadoop's checksum of them was put beside it."""
    data = path.read_bytes()
    sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0\x00\x00\x02\x00" + sums)
    return data


def manifest_flipped(path: Path) -> None:
    """What Java's unpacking compares, and no reader of the list of files."""
    with zipfile.ZipFile(path) as archive:
        info = next(one for one in archive.infolist() if one.filename.startswith("MANIFEST"))
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + 5] ^= 1
    path.write_bytes(data)


def packed_otherwise(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def packed_otherwise_and_flipped(path: Path) -> None:
    packed_otherwise(path)
    data = path.read_bytes()
    path.write_bytes(data[:60] + bytes(byte ^ 255 for byte in data[60:160]) + data[160:])


@pytest.mark.parametrize("name", ["join-hdfs", "transform-rockslog", "within-rocksv2", "dedup-zstd"])
def test_what_spark_left_is_whole(checkpoints: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(checkpoints / name / "checkpoint"), "--check", "--json"]) == 0
    (operator,) = json.loads(capsys.readouterr().out)["operators"]
    assert operator["damaged"] == operator["unknown"] == []
    assert all(store["whole_versions"][0] == 1 for store in operator["stores"])
    assert operator["files"] > 8


@pytest.mark.parametrize(
    ("name", "file", "damage", "whole"),
    [
        ("dedup-hdfs", "state/0/1/4.delta", cut, [1, 2, 3]),
        ("dedup-hdfs", "state/0/1/4.delta", other_size, [1, 2, 3]),
        ("within-rocks", "state/0/0/3.zip", cut, [1, 2, 4, 5]),
        ("within-rocks", "state/0/0/3.zip", other_size, [1, 2, 4, 5]),
        ("within-rocks", "state/0/0/3.zip", manifest_flipped, [1, 2, 4, 5]),
        # Each start reads it, whichever version it loads.
        ("within-rocks", "state/0/0/_metadata/schema", cut, [1, 2, 3, 4, 5]),
        ("aggregate-rockslog", "state/0/0/5.changelog", cut, [1, 2, 3, 4]),
    ],
)
def test_a_damaged_file_takes_its_versions_away(
    checkpoints: Path,
    tmp_path: Path,
    name: str,
    file: str,
    damage: Callable[[Path], Any],
    whole: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(shutil.copytree(checkpoints / name / "checkpoint", tmp_path / "own"))
    damage(path / file)

    assert main(["state", str(path), "--check", "--json"]) == 1
    (operator,) = json.loads(capsys.readouterr().out)["operators"]
    damaged = [one["path"] for one in operator["damaged"]]
    # Where the next batch needs it, what that partition lacks is named too.
    assert damaged in ([file], [file, file.rpartition("/")[0]])
    assert operator["stores"][0]["whole_versions"] == whole
    assert main(["state", str(path), "--check"]) == 1
    assert f"\n  {file}: " in capsys.readouterr().out


CUT_OFF = [
    ("dedup-hdfs", "state/0/1/4.delta"),
    ("join-hdfs", "state/0/1/left-keyToNumValues/3.snapshot"),
    ("aggregate-rockslog", "state/0/0/5.changelog"),
    ("within-rocksv2", "state/0/0/5_*.changelog"),
    ("dedup-zstd", "state/0/0/4.delta"),
    ("dedup-snappy", "state/0/0/4.delta"),
    ("groups-lzf", "state/0/0/4.delta"),
]


@pytest.mark.parametrize(("name", "file"), CUT_OFF)
def test_a_file_that_is_cut_off_and_has_no_checksum_is_seen_wherever_it_is_cut(
    checkpoints: Path, tmp_path: Path, name: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer rows would look like rows that were never there."""
    root = Path(shutil.copytree(checkpoints / name / "checkpoint", tmp_path / "own"))
    assert not list(root.rglob("*.crc"))
    whole = read_checkpoint(str(root))
    assert whole.latest_committed is not None
    assert find_missing_state(whole, whole.latest_committed + 1) is None
    rows = rows_said(root, capsys)
    path = next(root.glob(file))
    data = path.read_bytes()
    unseen = []
    for size in sorted({*range(1, 30), *range(30, len(data), 97), *range(len(data) - 25, len(data))}):
        path.write_bytes(data[:size])
        found = read_checkpoint(str(root))
        missing = find_missing_state(found, whole.latest_committed + 1)
        if missing is None:
            unseen.append(size)
        else:
            assert path.name in " ".join([missing.detail, *(fault.path for fault in found.state.faults)])
    # What is cut off behind the last row and its mark, Spark does not read either.
    for size in unseen:
        path.write_bytes(data[:size])
        assert rows_said(root, capsys) == rows
    assert all(size > len(data) - 25 for size in unseen)
    path.write_bytes(data[: len(data) // 2])
    assert main(["state", str(root), "--check"]) == 1
    assert main(["state", str(root), "--limit", "0"]) == 4
    assert "StateNotReadable: " in capsys.readouterr().err


def rows_said(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["state", str(root), "--limit", "0"]) == 0
    return capsys.readouterr().out.splitlines()[4:]


@pytest.mark.parametrize("damage", [packed_otherwise, packed_otherwise_and_flipped])
def test_a_snapshot_that_is_packed_as_java_packs_none_is_neither_whole_nor_damaged(
    checkpoints: Path, tmp_path: Path, damage: Callable[[Path], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each way of packing has a library, and errors, of its own."""
    path = Path(shutil.copytree(checkpoints / "within-rocks" / "checkpoint", tmp_path / "own"))
    damage(path / "state/0/0/5.zip")

    assert main(["state", str(path), "--check"]) == 4
    assert main(["state", str(path)]) == 4
    assert capsys.readouterr().err.count("a way that Java does not know") == 2


def test_a_flipped_byte_in_an_sst_is_seen_where_hadoop_has_a_checksum_of_it(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(checkpoints / "within-rocks" / "checkpoint", tmp_path / "own"))
    sst = min((path / "state/0/0/SSTs").glob("*.sst"))
    data = with_crc(sst)
    assert main(["state", str(path), "--check"]) == 0
    sst.write_bytes(data[:700] + bytes([data[700] ^ 1]) + data[701:])

    assert main(["state", str(path), "--check"]) == 1
    assert f"SSTs/{sst.name}: " in capsys.readouterr().out


def test_an_sst_that_is_gone_takes_every_version_that_names_it(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(checkpoints / "within-rocks" / "checkpoint", tmp_path / "own"))
    for sst in (path / "state/0/0/SSTs").iterdir():
        sst.unlink()

    assert main(["state", str(path), "--check"]) == 1
    said = capsys.readouterr().out
    assert "is not there" in said
    assert "left by batches 0 to 4" not in said
