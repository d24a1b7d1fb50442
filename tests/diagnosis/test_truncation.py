"""Every file of a checkpoint cut at every byte, and fourteen mutations: no crash, nothing damaged called safe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.spark.spark_lines import NAMES
from surestart.verdict.next_start import Outcome
from surestart.verdict.restart import predict_next_start
from surestart.verdict.shapes import diagnose_checkpoint
from surestart.words.finding import Verdict, verdict_of
from tests.checkpoint.checkpoint_maker import delta, files, kafka, make_checkpoint, make_state, offsets_text, rate
from tests.checkpoint.memory_storage import MemoryStorage

SOURCES: dict[str, Callable[[int], str]] = {"kafka": kafka, "files": files, "delta": delta, "rate": rate}


def verdict(storage: MemoryStorage, spark: str = "4.0") -> Verdict:
    return verdict_of(diagnose_checkpoint(read_checkpoint("/memory", storage), spark=spark))


def whole(tmp_path: Path, kind: str, committed: int) -> MemoryStorage:
    return MemoryStorage.of(make_checkpoint(tmp_path / "ck", source=SOURCES[kind], committed=range(committed)))


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("committed", [5, 4], ids=["idle", "in flight"])
def test_a_file_cut_at_any_byte_is_never_safe(tmp_path: Path, kind: str, committed: int) -> None:
    storage = whole(tmp_path, kind, committed)
    assert verdict(storage) is Verdict.SAFE
    listed = "sources/0/4" if kind == "files" else "sources/0/0"
    paths = ["metadata", "offsets/4", "offsets/3", f"commits/{committed - 1}", *([listed] if kind != "delta" else [])]
    cases = 0
    for path in paths:
        data = storage.files[path]
        for length in range(len(data)):
            # The rate source's start time is a number of any length: a shorter one is a time too, and no row is lost.
            if kind == "rate" and path == listed and length > 3:
                continue
            assert verdict(storage.with_file(path, data[:length])) is not Verdict.SAFE, (path, length)
            cases += 1
    assert cases > 750


def test_a_commit_cut_to_its_version_line_starts_and_is_mentioned(tmp_path: Path) -> None:
    """Measured: Spark counts it as a whole commit. The one cut that does not stop a start."""
    storage = whole(tmp_path, "kafka", 5).with_file("commits/4", b"v1")
    assert verdict(storage) is Verdict.ATTENTION
    assert predict_next_start(read_checkpoint("/memory", storage)).outcome is Outcome.STARTS


def test_older_entries_do_not_decide_the_next_start(tmp_path: Path) -> None:
    storage = whole(tmp_path, "kafka", 5).with_file("offsets/1", b"").with_file("commits/1", b"v")
    assert verdict(storage) is Verdict.ATTENTION
    assert predict_next_start(read_checkpoint("/memory", storage)).batch == 5


MUTATIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "zero-filled": lambda data: bytes(len(data)),
    "twice": lambda data: data + data,
    "twice, on a new line": lambda data: data + b"\n" + data,
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "version 9": lambda data: data.replace(b"v1", b"v9", 1),
    "not UTF-8": lambda data: data + b"\xff\xfe",
    "another query's": lambda data: offsets_text('{"logOffset":3}', '{"other":{"0":1}}').encode(),
    "negative": lambda data: data.replace(b'"0":', b'"0":-'),
    "huge": lambda data: data.replace(b'"0":', b'"0":' + b"9" * 5000),
    "floating": lambda data: data.replace(b'"0":1', b'"0":1.5'),
    "markup": lambda data: b"<html><body>503 Service Unavailable</body></html>",
    "a gigabyte's head": lambda data: data + b" " * 9_000_000,
    "brackets": lambda data: b"v1\n{}\n" + b"[" * 200_000,
}
# Batch 0 alone begins at Kafka's initial offsets, and what follows their JSON is not read.
HARMLESS = {("sources/0/0", name) for name in ("twice", "twice, on a new line", "version 9", "not UTF-8", "negative")}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("path", ["metadata", "offsets/4", "offsets/3", "commits/4", "sources/0/0"])
def test_a_mutated_file_is_never_safe_unless_it_reads_the_same(tmp_path: Path, path: str, name: str) -> None:
    storage = whole(tmp_path, "kafka", 5)
    changed = MUTATIONS[name](storage.files[path])
    found = verdict(storage.with_file(path, changed))
    if changed == storage.files[path] or (path, name) in HARMLESS:
        return
    assert found is not Verdict.SAFE


@pytest.mark.parametrize("path", ["metadata", "offsets/4", "offsets/3", "commits/4"])
def test_a_folder_in_a_files_place_is_never_safe(tmp_path: Path, path: str) -> None:
    storage = whole(tmp_path, "kafka", 5).without(path)
    assert verdict(MemoryStorage(storage.files, (*storage.folders, path))) is Verdict.UNSAFE


@pytest.mark.parametrize("version", range(1, 6))
@pytest.mark.parametrize("partition", [0, 1])
def test_any_missing_state_version_stops_the_next_batch(tmp_path: Path, version: int, partition: int) -> None:
    root = make_checkpoint(tmp_path / "ck")
    make_state(root, range(1, 6))
    storage = MemoryStorage.of(root)
    assert verdict(storage) is Verdict.SAFE
    for spark in NAMES:
        assert verdict(storage.without(f"state/0/{partition}/{version}.delta"), spark) is Verdict.UNSAFE
