"""Iceberg as a sink: which batches it knows, by its metadata file alone. What Spark's writer makes of each was seen by
restarting (`make matrix`, tests/diagnosis/stream_to_iceberg); here the shapes that no writer makes on request."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.facts.evidence.iceberg_sink import read_iceberg_sink
from surestart.facts.storage.open_storage import LocalStorage
from surestart.facts.storage.storage import FolderEntry
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Acceptance, Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, make_checkpoint
from tests.fleet.make_iceberg import ARCHIVE

OTHER = "0a0a0a0a-0000-4000-8000-000000000000"
Snapshot = dict[str, Any]


def list_of(number: int) -> str:
    return f"snap-{number}-1-0a0a0a0a-0000-4000-8000-000000000000.avro"


def snapshot(number: int, parent: int | None, summary: dict[str, str]) -> Snapshot:
    one = {"snapshot-id": number, "timestamp-ms": 1_700_000_000_000 + number, "summary": summary}
    one["manifest-list"] = f"s3://lake/t/metadata/{list_of(number)}"
    return one if parent is None else {**one, "parent-snapshot-id": parent}


def batch(number: int, epoch: int, query: str = QUERY_ID, parent: int | None = -1) -> Snapshot:
    said = {"operation": "append", "added-records": "10", "total-records": "10", "added-data-files": "1"}
    said |= {"spark.sql.streaming.queryId": query, "spark.sql.streaming.epochId": str(epoch)}
    return snapshot(number, (number - 1 or None) if parent == -1 else parent, said)


def write_table(table: Path, snapshots: list[Snapshot], name: str = "v7.metadata.json", **more: object) -> Path:
    folder = table / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    current = snapshots[-1]["snapshot-id"] if snapshots else -1
    body = {"format-version": 2, "table-uuid": "T", "location": str(table), "current-snapshot-id": current}
    data = json.dumps({**body, "snapshots": snapshots, **more}).encode()
    (folder / name).write_bytes(gzip.compress(data) if ".gz" in name else data)
    for one in snapshots:
        (folder / list_of(one["snapshot-id"])).touch()
    return table


FIVE = [batch(number, number - 1) for number in range(1, 6)]


def answer(tmp_path: Path, **checkpoint: Any) -> tuple[Acceptance, Verdict, list[str]]:
    make_checkpoint(tmp_path / "ck", **checkpoint)
    found = inspect_checkpoint(str(tmp_path / "ck"), sinks=(f"iceberg+alone:{tmp_path / 't'}",))
    return found.acceptance, found.verdict, [one.code for one in found.findings]


@pytest.mark.parametrize(
    "name", ["v7.metadata.json", "v7.gz.metadata.json", "00007-0a0a0a0a-0000-4000-8000-000000000000.metadata.json"]
)
def test_a_stream_at_rest_is_accepted_however_its_metadata_is_named(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / "t", FIVE, name)
    assert answer(tmp_path)[:2] == (Acceptance.ACCEPTS, Verdict.SAFE)


def test_the_folder_alone_is_seen_to_be_iceberg(tmp_path: Path) -> None:
    write_table(tmp_path / "t", FIVE)
    make_checkpoint(tmp_path / "ck")
    assert inspect_checkpoint(str(tmp_path / "ck"), sinks=(str(tmp_path / "t"),)).verdict is Verdict.SAFE


def test_a_replay_is_recognised_and_a_rewound_checkpoint_is_skipped(tmp_path: Path) -> None:
    write_table(tmp_path / "t", FIVE)
    make_checkpoint(tmp_path / "flight", committed=range(4))
    make_checkpoint(tmp_path / "rewound", planned=range(3), committed=range(3))
    sink = (f"iceberg:{tmp_path / 't'}",)

    flight, rewound = (inspect_checkpoint(str(tmp_path / name), sinks=sink) for name in ("flight", "rewound"))

    assert flight.sinks[0].replay_recognised
    assert (rewound.acceptance, rewound.verdict) == (Acceptance.SKIPS, Verdict.UNSAFE)


def test_the_newest_epoch_counts_and_not_the_highest_as_for_the_writer(tmp_path: Path) -> None:
    write_table(tmp_path / "t", [*FIVE, batch(6, 2)])
    assert read_iceberg_sink(str(tmp_path / "t")).transactions[QUERY_ID].version == 2


def test_what_was_rolled_back_is_not_held(tmp_path: Path) -> None:
    write_table(tmp_path / "t", FIVE, **{"current-snapshot-id": 3})
    assert "SINK_BEHIND_CHECKPOINT" in answer(tmp_path)[2]


def test_snapshots_that_were_expired_leave_it_open_where_none_of_ours_is_left(tmp_path: Path) -> None:
    others = snapshot(6, 5, {"operation": "append", "added-records": "1", "total-records": "51"})
    write_table(tmp_path / "t", [others])
    assert answer(tmp_path, committed=range(4))[:2] == (Acceptance.CANNOT_TELL, Verdict.CANNOT_TELL)


def test_snapshots_that_were_expired_do_no_harm_where_our_newest_is_left(tmp_path: Path) -> None:
    write_table(tmp_path / "t", FIVE[-1:])
    assert answer(tmp_path)[:2] == (Acceptance.ACCEPTS, Verdict.SAFE)


def test_a_branch_is_not_judged_by_the_main_one(tmp_path: Path) -> None:
    refs = {"main": {"snapshot-id": 1, "type": "branch"}, "audit": {"snapshot-id": 3, "type": "branch"}}
    first = snapshot(1, None, {"operation": "append", "total-records": "1"})
    write_table(tmp_path / "t", [first, batch(2, 3), batch(3, 4)], refs=refs, **{"current-snapshot-id": 1})
    acceptance, verdict, codes = answer(tmp_path)
    assert (acceptance, verdict, codes[0]) == (Acceptance.CANNOT_TELL, Verdict.CANNOT_TELL, "SINK_UNREADABLE")


def test_two_queries_of_one_table_are_told_apart(tmp_path: Path) -> None:
    both = [one for number in range(5) for one in (batch(2 * number + 1, number), batch(2 * number + 2, number, OTHER))]
    write_table(tmp_path / "t", both)
    assert read_iceberg_sink(str(tmp_path / "t")).transactions.keys() == {QUERY_ID, OTHER}
    make_checkpoint(tmp_path / "ck")
    sinks = (f"iceberg+shared:{tmp_path / 't'}",)
    assert inspect_checkpoint(str(tmp_path / "ck"), sinks=sinks).verdict is Verdict.SAFE


def cut(table: Path) -> None:
    path = table / "metadata/v7.metadata.json"
    path.write_bytes(path.read_bytes()[:-40])


def current_gone(table: Path) -> None:
    write_table(table, FIVE[:-1], **{"current-snapshot-id": 5})


def only_the_hint(table: Path) -> None:
    (table / "metadata/v7.metadata.json").unlink()
    (table / "metadata/version-hint.text").write_text("7")


def behind_its_hint(table: Path) -> None:
    (table / "metadata/version-hint.text").write_text("8")


def no_metadata(table: Path) -> None:
    (table / "metadata/v7.metadata.json").unlink()


def a_pipe_of_gzip(table: Path) -> None:
    (table / "metadata/v8.gz.metadata.json").write_bytes(gzip.compress(b"{}" * 1000)[:-9])


@pytest.mark.parametrize("damage", [cut, current_gone, only_the_hint, behind_its_hint, no_metadata, a_pipe_of_gzip])
@pytest.mark.parametrize("committed", [5, 4])
def test_ignorance_never_reassures(tmp_path: Path, damage: Any, committed: int) -> None:
    write_table(tmp_path / "t", FIVE)
    damage(tmp_path / "t")
    acceptance, verdict, codes = answer(tmp_path, committed=range(committed))
    assert (acceptance, verdict) == (Acceptance.CANNOT_TELL, Verdict.CANNOT_TELL), codes


def test_a_listing_that_lacks_the_newest_file_is_no_older_table(tmp_path: Path) -> None:
    """A rewound checkpoint over a table whose listing was cut off: its newest file is looked for by its name."""

    class Cut(LocalStorage):
        def list_folder(self, path: str) -> Iterator[FolderEntry]:
            return (entry for entry in super().list_folder(path) if entry.name != "v7.metadata.json")

    write_table(tmp_path / "t", FIVE[:3], "v6.metadata.json")
    write_table(tmp_path / "t", FIVE)

    held = read_iceberg_sink(str(tmp_path / "t"), storage=Cut(str(tmp_path / "t")))

    assert "v7.metadata.json is there, and the listing of the folder lacks it" in held.problem


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """What Spark 4.0.5 and Iceberg 1.10.0 have written: a query of its own sink, one of a function that appends."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def drop(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink()
        parent, _, last = name.rpartition("/")
        (folder / parent / f".{last}.crc").unlink(missing_ok=True)


def in_flight(folder: Path) -> None:
    drop(folder, "checkpoint/commits/4")


def not_written(folder: Path) -> None:
    in_flight(folder)
    drop(folder, "out/metadata/v6.metadata.json")
    (folder / "out/metadata/version-hint.text").write_text("5")


def rewound(folder: Path) -> None:
    drop(folder, *(f"checkpoint/{log}/{number}" for log in ("offsets", "commits") for number in (3, 4)))


@pytest.mark.parametrize(
    ("damage", "own", "function"),
    [
        (lambda folder: None, Verdict.SAFE, Verdict.SAFE),
        (in_flight, Verdict.SAFE, Verdict.UNSAFE),
        (not_written, Verdict.SAFE, Verdict.SAFE),
        (rewound, Verdict.UNSAFE, Verdict.UNSAFE),
    ],
)
def test_what_spark_has_written_is_judged_as_its_restart_came_out(
    real: Path, damage: Any, own: Verdict, function: Verdict
) -> None:
    for name, expected in (("own", own), ("function", function)):
        damage(real / name)
        found = inspect_checkpoint(str(real / name / "checkpoint"), sinks=(f"iceberg+alone:{real / name / 'out'}",))
        assert found.verdict is expected, (name, [one.code for one in found.findings])
