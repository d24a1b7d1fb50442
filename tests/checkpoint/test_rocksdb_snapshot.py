"""A RocksDB snapshot is whole when every file that it names is there: held against checkpoints that Spark wrote.

What Spark does with each of them is measured in tests/diagnosis/test_rocksdb_restarts.py.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.verdict.next_start import Outcome
from surestart.verdict.restart import predict_next_start
from tests.checkpoint.make_rocksdb import ARCHIVE, DAMAGES, KINDS

# In format 2 a version is made of those that its own changelog names; else of any of their numbers.
WHOLE = {
    "plain": ("whole", "older rows deleted", "only changes", "of another attempt", "commit without ids"),
    "log": ("whole", "older rows deleted", "only changes", "of another attempt", "commit without ids"),
    "v2": ("whole", "older rows deleted"),
}


@pytest.fixture(params=KINDS)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith(f"{request.param}/")])
    return tmp_path / request.param


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_that_the_snapshot_names_are_missed_and_no_others(checkpoint: Path, damage: str) -> None:
    DAMAGES[damage](checkpoint)

    start = predict_next_start(read_checkpoint(str(checkpoint)))

    whole = damage in WHOLE[checkpoint.name]
    assert start.outcome is (Outcome.STARTS if whole else Outcome.FAILS), start.why
    assert whole or "rows" not in damage or "SSTs/" in start.why


def test_an_attempt_that_was_given_up_need_not_be_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("v2/")])
    for kind in ("zip", "changelog"):
        (tmp_path / f"v2/state/0/0/12_11111111-2222-4333-8444-555555555555.{kind}").write_bytes(b"torn")
    assert predict_next_start(read_checkpoint(str(tmp_path / "v2"))).outcome is Outcome.STARTS


def test_rows_count_in_the_size_of_their_partition(checkpoint: Path) -> None:
    (operator,) = read_checkpoint(str(checkpoint)).state.operators
    for (partition, _), versions in operator.stores.items():
        there = sum(path.stat().st_size for path in checkpoint.glob(f"state/0/{partition}/**/*") if path.is_file())
        schema = checkpoint / f"state/0/{partition}/_metadata"
        notes = sum(path.stat().st_size for path in schema.glob("*")) if schema.exists() else 0
        assert versions.size == there - notes


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive", b"PK\x05\x06" + bytes(18)])
def test_a_snapshot_that_is_no_archive_is_missed(checkpoint: Path, content: bytes) -> None:
    newest = max(checkpoint.glob("state/0/0/*.zip"), key=lambda path: int(path.stem.partition("_")[0]))
    newest.write_bytes(content)
    newest.with_name(f".{newest.name}.crc").unlink()

    assert predict_next_start(read_checkpoint(str(checkpoint))).outcome is Outcome.FAILS or not content


@pytest.mark.parametrize("metadata", [None, "v2\n{}", 'v1\n{"files":[]}', 'v7\n{"sstFiles":[]}'])
def test_a_snapshot_of_another_writers_form_is_not_called_broken_and_not_whole(
    checkpoint: Path, metadata: str | None
) -> None:
    """A vendor's own engine may write more than Spark does: whether such a stream is healthy is not known here."""
    newest = max(checkpoint.glob("state/0/0/*.zip"), key=lambda path: int(path.stem.partition("_")[0]))
    with zipfile.ZipFile(newest, "w") as archive:
        archive.writestr("CURRENT", "MANIFEST-000005")
        if metadata is not None:
            archive.writestr("metadata", metadata)
    newest.with_name(f".{newest.name}.crc").unlink()

    assert predict_next_start(read_checkpoint(str(checkpoint))).outcome is Outcome.CANNOT_TELL


def test_a_snapshot_of_format_2_names_its_files_in_the_same_form(checkpoint: Path) -> None:
    """As Spark 4.0 writes it in a JVM whose first query with RocksDB had checkpointFormatVersion 2."""
    newest = max(checkpoint.glob("state/0/0/*.zip"), key=lambda path: int(path.stem.partition("_")[0]))
    with zipfile.ZipFile(newest) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(newest, "w") as archive:
        for name, content in {**kept, "metadata": kept["metadata"].replace(b"v1\n", b"v2\n", 1)}.items():
            archive.writestr(name, content)
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)

    assert predict_next_start(read_checkpoint(str(checkpoint))).outcome is not Outcome.CANNOT_TELL
