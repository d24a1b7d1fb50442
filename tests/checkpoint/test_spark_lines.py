"""checkpoints.zip: what pyspark 3.5, 4.0, 4.1 and 4.2 wrote, without state and with each kind, read without Spark."""

from __future__ import annotations

import calendar
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Severity, Verdict
from tests.checkpoint.test_read_only import RECORDED, fingerprint

ARCHIVE = Path(__file__).parent / "checkpoints.zip"
WITH_STATE = {
    "deduplication": ("hdfs", "dedupe"),
    "aggregation": ("hdfs", "stateStoreSave"),
    "join": ("hdfs", "symmetricHashJoin"),
    "rocksdb": ("rocksdb", "stateStoreSave"),
    "format-v2": ("rocksdb", "dedupeWithinWatermark"),
}
WRITTEN = [
    (line, name)
    for line in ("3.5", "4.0", "4.1", "4.2")
    for name in ("files", *WITH_STATE)
    if (line, name) != ("3.5", "format-v2")  # came with 4.0
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
        for entry in archive.infolist():
            # When Spark wrote it (the archive was made in UTC): the doctor calls files of a later time a copy.
            written = calendar.timegm((*entry.date_time, 0, 0, 0))
            os.utime(folder / entry.filename, (written, written))
    return folder


def test_the_archive_holds_these_and_no_others(unpacked: Path) -> None:
    found = {(path.parent.name, path.name) for path in unpacked.glob("*/*")}
    assert found == set(WRITTEN)


@pytest.mark.parametrize(("line", "name"), WRITTEN)
def test_a_checkpoint_of_this_line_is_read_whole(unpacked: Path, line: str, name: str) -> None:
    folder = str(unpacked / line / name)
    found = read_checkpoint(folder)
    assert (found.faults, found.latest_planned, found.latest_committed) == ((), 1, 1)
    assert found.query_id is not None
    assert found.spark_version is not None
    first, last = (float(part) for part in (*found.spark_version.split("-"), *found.spark_version.split("-"))[:2])
    assert first <= float(line) <= last
    assert {source.kind for source in found.sources} == {"files"}
    assert len(found.sources) == (2 if name == "join" else 1)
    seen = {source.folder.file_log.files_seen for source in found.sources if source.folder and source.folder.file_log}
    assert seen == {2}

    if name == "files":
        assert not found.state.operators
    else:
        provider, operator_name = WITH_STATE[name]
        (operator,) = found.state.operators
        # The operator's name stands in the state's own metadata, which came with 4.0.
        assert (found.state.provider, operator.name) == (provider, None if line == "3.5" else operator_name)
        assert operator.partitions == 2
        assert len(operator.stores) == (8 if name == "join" else 2)
        assert {versions.latest for versions in operator.stores.values()} == {2}
        assert operator.schema.startswith("key(")
    assert found.state.format_v2 == (name == "format-v2")
    assert found.formats == {"offsets": 1, "commits": 2 if name == "format-v2" else 1}

    answer = inspect_checkpoint(folder, sinks=("none",))
    assert answer.verdict is Verdict.SAFE
    assert {finding.severity for finding in answer.findings} <= {Severity.INFO}


def test_a_version_that_the_next_batch_needs_is_missed_in_each_line(unpacked: Path) -> None:
    """Else the stores above are only counted."""
    for line in ("3.5", "4.0", "4.1", "4.2"):
        folder = unpacked / line / "deduplication"
        version = folder / "state/0/1/2.delta"
        kept = version.read_bytes()
        version.unlink()
        answer = inspect_checkpoint(str(folder), sinks=("none",))
        version.write_bytes(kept)
        assert answer.verdict is Verdict.UNSAFE, line


@pytest.mark.parametrize("line", ["3.5", "4.0", "4.1", "4.2"])
def test_reading_them_changes_nothing(unpacked: Path, line: str) -> None:
    root = unpacked / line
    before = fingerprint(root)
    command = [sys.executable, "-c", RECORDED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (unpacked / "probe").unlink()
    assert fingerprint(root) == before
