"""`surestart state --check`: each state file is read to its end, and what is damaged takes its versions away."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-60])


def other_size(path: Path) -> None:
    path.with_name(f"{path.name}.crc").write_text('{"algorithm":"CRC32C","value":1,"mainFileSize":7}')


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
    assert [one["path"] for one in operator["damaged"]] == [file]
    assert operator["stores"][0]["whole_versions"] == whole
    assert main(["state", str(path), "--check"]) == 1
    assert f"\n  {file}: " in capsys.readouterr().out


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
