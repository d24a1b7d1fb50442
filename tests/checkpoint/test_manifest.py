"""A checkpoint's files by their bytes: what is not read again has not changed."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from surestart.errors import CannotTell
from surestart.facts.checkpoint import manifest
from surestart.facts.checkpoint.manifest import read_manifest, sha256_of


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_hashed", {})


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_that_was_just_written_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "1.delta"
    for content in (b"one", b"two", b"six"):
        path.write_bytes(content)
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert sha256_of(path) == sha(content)
    assert manifest._hashed == {}


def test_a_file_that_has_settled_is_read_once_and_again_after_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "written" / "1.delta"
    path.parent.mkdir()
    path.write_bytes(b"one")
    later = time.time_ns() + 5_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert sha256_of(path) == sha(b"one")
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: pytest.fail("it was read again"))
    assert sha256_of(path) == sha(b"one")
    # Put in another's place, as the folder of a checkpoint is.
    other = path.parent.rename(tmp_path / "placed") / path.name
    assert sha256_of(other) == sha(b"one")
    monkeypatch.undo()
    # The same size and the same time of change, as somebody who hides it would have it.
    times = other.stat()
    other.write_bytes(b"two")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sha256_of(other) == sha(b"two")
    assert read_manifest(other.parent).files == {"1.delta": (3, sha(b"two"))}


def test_what_is_renamed_while_it_is_read_is_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark writes a snapshot of state as `.8.zip.<uuid>.tmp` and renames it, long after the query has ended."""
    (tmp_path / ".8.zip.tmp").write_bytes(b"snapshot")

    def finished(path: Path) -> str:
        if path.suffix == ".tmp":
            path.rename(tmp_path / "8.zip")
        return sha256_of(path)

    monkeypatch.setattr(manifest, "sha256_of", finished)

    assert read_manifest(tmp_path).files == {"8.zip": (8, sha(b"snapshot"))}


def test_a_checkpoint_that_never_rests_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0.tmp").write_bytes(b"")

    def written(path: Path) -> str:
        path.rename(path.with_name(f"{int(path.stem) + 1}.tmp"))
        return sha256_of(path)

    monkeypatch.setattr(manifest, "sha256_of", written)

    with pytest.raises(CannotTell, match=r"come and go while they are read, 10 times now; .* is .*9\.tmp") as said:
        read_manifest(tmp_path)
    assert said.value.code == "CheckpointChanges"
