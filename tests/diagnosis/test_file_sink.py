"""A file sink knows its batches by number alone: `_spark_metadata` is read and held against the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.facts.evidence.file_sink import read_file_sink
from surestart.facts.evidence.sink_evidence import FileBatches
from surestart.verdict.inspection import Inspection, inspect_checkpoint
from surestart.words.finding import Acceptance, Verdict
from tests.checkpoint.checkpoint_maker import compact, make_checkpoint, write_with_crc
from tests.deltalog.handmade import write_table


def make_folder(root: Path, last: int, interval: int = 10) -> Path:
    """An output folder as Spark 4.0 leaves it: a file of rows and a file of the log for each batch."""
    log = root / "_spark_metadata"
    log.mkdir(parents=True)
    lines = []
    for batch in range(last + 1):
        path = root / f"part-{batch}.parquet"
        path.write_bytes(b"PAR1")
        status = {"path": path.as_uri(), "size": 4, "isDir": False, "modificationTime": 1, "blockReplication": 1}
        lines.append(compact({**status, "blockSize": 33554432, "action": "add"}))
        if (batch + 1) % interval:
            (log / str(batch)).write_text(f"v1\n{lines[-1]}")
        else:
            (log / f"{batch}.compact").write_text("\n".join(["v1", *lines]))
    return root


def inspect(tmp_path: Path, batches: int, sink: str, committed: int | None = None) -> Inspection:
    done = range(batches if committed is None else committed)
    checkpoint = make_checkpoint(tmp_path / "sensor-files", planned=range(batches), committed=done)
    return inspect_checkpoint(str(checkpoint), sinks=(sink,))


def test_the_log_is_read_with_its_compact_files(tmp_path: Path) -> None:
    assert read_file_sink(str(make_folder(tmp_path / "a", 12))).batches == FileBatches(12, (9,))
    assert read_file_sink(str(make_folder(tmp_path / "b", 3))).batches == FileBatches(3)


@pytest.mark.parametrize(
    ("last", "planned", "committed", "acceptance", "verdict"),
    [
        (4, 5, 5, Acceptance.ACCEPTS, Verdict.SAFE),
        (12, 13, 13, Acceptance.ACCEPTS, Verdict.SAFE),
        (4, 5, 4, Acceptance.ACCEPTS, Verdict.SAFE),  # in flight and in the folder already
        (3, 5, 4, Acceptance.ACCEPTS, Verdict.SAFE),  # in flight and not in the folder
        (9, 4, 4, Acceptance.SKIPS, Verdict.UNSAFE),
        (9, 0, 0, Acceptance.SKIPS, Verdict.UNSAFE),  # the checkpoint is new, the folder is not
        (4, 3, 2, Acceptance.SKIPS, Verdict.UNSAFE),
        (2, 6, 6, Acceptance.ACCEPTS, Verdict.UNSAFE),
    ],
)
def test_what_the_folder_does_with_the_next_batch(
    tmp_path: Path, last: int, planned: int, committed: int, acceptance: Acceptance, verdict: Verdict
) -> None:
    found = inspect(tmp_path, planned, f"parquet:{make_folder(tmp_path / 'out', last)}", committed)

    assert (found.acceptance, found.verdict) == (acceptance, verdict)


def test_a_folder_that_is_not_there_is_no_folder_that_holds_the_batches(tmp_path: Path) -> None:
    found = inspect(tmp_path, 5, f"parquet:{tmp_path / 'no/such/folder'}")

    assert found.verdict is Verdict.UNSAFE
    assert next(finding.code for finding in found.findings) == "SINK_MISSING"


@pytest.mark.parametrize("sink", ["foreach:http://sink.example/rows", "jdbc:public.gold"])
def test_a_sink_that_nobody_can_ask_is_never_safe(tmp_path: Path, sink: str) -> None:
    at_rest, in_flight = inspect(tmp_path / "a", 5, sink), inspect(tmp_path / "b", 5, sink, 4)

    assert (at_rest.verdict, at_rest.acceptance) == (Verdict.CANNOT_TELL, Acceptance.CANNOT_TELL)
    assert [finding.code for finding in at_rest.findings] == ["SINK_NOT_ASKED"]
    assert in_flight.verdict is Verdict.CANNOT_TELL


def test_a_folder_of_each_batch_keeps_no_record_and_is_not_missing(tmp_path: Path) -> None:
    """A function that overwrites `out/batch=N`: each has the mark of a batch write, and `out` has none."""
    for batch in range(3):
        (tmp_path / f"out/batch={batch}").mkdir(parents=True)
        (tmp_path / f"out/batch={batch}/part-0.parquet").write_bytes(b"PAR1")
    # Partitions of a file sink whose log is gone look like this.
    assert inspect(tmp_path / "a", 5, f"parquet:{tmp_path / 'out'}").verdict is Verdict.UNSAFE
    (tmp_path / "out/batch=1/_SUCCESS").touch()
    assert inspect(tmp_path / "b", 5, f"parquet:{tmp_path / 'out'}").verdict is Verdict.CANNOT_TELL


def test_a_torn_or_missing_file_of_the_log_is_told(tmp_path: Path) -> None:
    whole = make_folder(tmp_path / "out", 4)
    newest = whole / "_spark_metadata/4"
    for damage in (b"", b"v1", newest.read_bytes()[:-3], b"\x00\x01"):
        newest.write_bytes(damage)
        found = inspect(tmp_path / f"ck-{len(damage)}", 5, f"parquet:{whole}")
        # A version line alone is what an empty batch leaves.
        assert found.verdict is (Verdict.SAFE if damage == b"v1" else Verdict.CANNOT_TELL), damage
    hole = make_folder(tmp_path / "hole", 4)
    (hole / "_spark_metadata/2").unlink()
    assert inspect(tmp_path / "ck-hole", 5, f"parquet:{hole}").verdict is Verdict.CANNOT_TELL


def test_without_its_log_a_folder_of_files_holds_no_batch(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/part-0.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty").mkdir()

    assert inspect(tmp_path / "a", 5, f"parquet:{tmp_path / 'files'}").verdict is Verdict.UNSAFE
    assert inspect(tmp_path / "b", 0, f"parquet:{tmp_path / 'files'}").acceptance is Acceptance.CANNOT_TELL
    assert inspect(tmp_path / "c", 0, f"parquet:{tmp_path / 'empty'}").acceptance is Acceptance.ACCEPTS


@pytest.mark.parametrize("name", ["9.compact", "10", "11"])
@pytest.mark.parametrize("damage", ["empty", "cut", "crc"])
def test_every_file_that_the_next_compaction_reads_is_looked_at(tmp_path: Path, name: str, damage: str) -> None:
    """Batch 13 is written all the same; batch 19, which folds them, fails at every start, and so does every reader."""
    path = make_folder(tmp_path / "out", 12) / "_spark_metadata" / name
    whole = path.read_bytes()
    if damage == "crc":
        write_with_crc(path, whole + b" ")
    path.write_bytes(b"" if damage == "empty" else whole[:-3] if damage == "cut" else whole)

    assert inspect(tmp_path, 13, f"parquet:{tmp_path / 'out'}").verdict is Verdict.CANNOT_TELL


@pytest.mark.parametrize("name", ["009", "+9", "1\u0667", "09.compact", "0" * 30 + "9", "1" + "0" * 18])
def test_a_number_that_only_java_reads_is_not_passed_over(tmp_path: Path, name: str) -> None:
    (make_folder(tmp_path / "out", 4) / "_spark_metadata" / name).write_text("v1")

    assert inspect(tmp_path, 5, f"parquet:{tmp_path / 'out'}").verdict is Verdict.CANNOT_TELL


def test_a_batch_that_cannot_be_opened_counts(tmp_path: Path) -> None:
    (make_folder(tmp_path / "out", 4) / "_spark_metadata/9").symlink_to("/etc/hostname")

    assert inspect(tmp_path, 5, f"parquet:{tmp_path / 'out'}").verdict is Verdict.UNSAFE


def test_a_compact_file_of_years_is_read(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "out", 9) / "_spark_metadata/9.compact"
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *lines * 10_000]))

    assert inspect(tmp_path, 10, f"parquet:{tmp_path / 'out'}").verdict is Verdict.SAFE


def test_what_another_kind_of_writer_left_is_not_taken_for_lost(tmp_path: Path) -> None:
    """Healthy streams, asked in the wrong way: a function's own files, a Delta table, a file sink named by its path."""
    function, table = tmp_path / "function", write_table(tmp_path / "table", 5)
    function.mkdir()
    for name in ("_SUCCESS", "part-0.parquet"):
        (function / name).touch()
    sink = make_folder(tmp_path / "sink", 4)
    asked = {
        f"parquet:{function}": Verdict.CANNOT_TELL,
        str(function): Verdict.CANNOT_TELL,
        f"foreach-batch:{function}": Verdict.CANNOT_TELL,
        f"parquet:{table}": Verdict.CANNOT_TELL,
        f"delta-builtin:{sink}": Verdict.CANNOT_TELL,
        str(sink): Verdict.SAFE,
        str(sink / "part-0.parquet"): Verdict.CANNOT_TELL,
    }
    for number, (name, verdict) in enumerate(asked.items()):
        assert inspect(tmp_path / str(number), 5, name).verdict is verdict, name
    assert inspect(tmp_path / "ahead", 3, str(sink)).verdict is Verdict.UNSAFE
