"""What a certificate says, without Spark: verdicts, 80 columns, the next command; and how far a checkpoint has come."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.cli.apply import exit_code
from surestart.errors import CannotTell
from surestart.facts.checkpoint.file_list import read_listed_files
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.stage_progress import (
    StageProgress,
    TableProgress,
    progress_in_table,
    read_stage_progress,
)
from surestart.remedies.count.certificate import Certificate
from surestart.remedies.count.counts import DATABASE, KEYS, CountedPlace, Counts, Gap, StageCount
from surestart.report.text.certificate import command_after_count, render_certificate, summarize_certificate

HEALTHY = Counts(input=10, rows=10, distinct=10)


def certificate(*counts: Counts, problem: str = "", places: int = 2) -> Certificate:
    stages = tuple(
        StageCount(
            stage=f"stage-{number}",
            kind="positions",
            input="/data/landing",
            outputs={"/data/tables/sensor_raw": 7},
            counts=one,
            places=tuple(CountedPlace(f"file:/{'x' * 90}/{n}.jsonl", 0, 0, 9, one) for n in range(places)),
            place_count=places,
            gaps=tuple(Gap(f"stage-{number}", f"file:/{n}", 0, 2 * n, 2 * n, 1) for n in range(one.lost)),
            problem=problem,
        )
        for number, one in enumerate(counts)
    )
    return Certificate("sensor", "local", "2026-11-18T16:00:00+00:00", True, stages)


@pytest.mark.parametrize(
    ("counts", "verdict", "lost", "duplicated"),
    [
        (HEALTHY, "exact", 0, 0),
        (replace(HEALTHY, pending=3, gone=4), "exact", 0, 0),
        (replace(HEALTHY, lost=2), "not exact", 2, 0),
        (replace(HEALTHY, wrong=2, lost=1), "not exact", 3, 0),
        (replace(HEALTHY, duplicated=2, in_both=1), "not exact", 0, 3),
        (replace(HEALTHY, from_nowhere=1), "not exact", 0, 0),
        (replace(HEALTHY, undecided=1), "cannot tell", 0, 0),
        (replace(HEALTHY, undecided=1, lost=1), "not exact", 1, 0),
    ],
)
def test_each_number_has_its_verdict(counts: Counts, verdict: str, lost: int, duplicated: int) -> None:
    found = certificate(HEALTHY, counts)
    body = json.loads(json.dumps(found.as_dict()))

    assert (found.verdict, found.lost, found.duplicated) == (verdict, lost, duplicated)
    assert (body["verdict"], body["exact"], body["lost"]) == (verdict, verdict == "exact", lost)
    assert summarize_certificate(body).startswith(verdict.upper() + " ")


def test_a_problem_is_never_exact() -> None:
    found = certificate(HEALTHY, problem="no topic")

    assert found.verdict == "cannot tell"
    assert "no topic" in summarize_certificate(found.as_dict())


@pytest.mark.parametrize("places", [0, 2, 25])
def test_lines_fit_80_columns_whatever_the_numbers(places: int) -> None:
    huge = Counts(*[10**10] * 11)
    shown = render_certificate(certificate(replace(huge, lost=12), HEALTHY, places=places, problem="p " * 90).as_dict())

    lines = [line for line in shown.splitlines() if not line.startswith("Next:")]
    assert [line for line in lines if len(line) > 80] == []
    assert ("25 files or partitions" in shown) == (places == 25)
    assert "7 more runs" in shown


def test_the_next_command_follows_the_fault() -> None:
    def told(counts: Counts) -> str:
        return render_certificate(certificate(HEALTHY, counts).as_dict(), ("--root", "/r")).splitlines()[-1]

    assert told(replace(HEALTHY, lost=1)) == "Next: surestart plan backfill stage-1 -e local --root /r -o plan.json"
    assert told(replace(HEALTHY, duplicated=1)) == "Next: surestart plan reset stage-1 -e local --root /r -o plan.json"
    assert told(replace(HEALTHY, pending=1)) == "Next: surestart run all -e local --root /r"
    assert told(replace(HEALTHY, undecided=1)) == "Next: surestart doctor -e local --root /r"
    assert told(HEALTHY) == "Next: surestart status -e local --root /r"


@pytest.mark.parametrize(
    ("below", "remedy"), [(HEALTHY, "backfill"), (replace(HEALTHY, from_nowhere=1), "reset")], ids=["gone", "below"]
)
@pytest.mark.parametrize("kind", ["positions", KEYS])
def test_rows_that_the_stage_below_has_are_not_filled_in_above_it(below: Counts, remedy: str, kind: str) -> None:
    """It would read them again; one with keys would keep the times of the former ones."""
    stages = (
        StageCount("raw", "positions", "landing", {"sensor_raw": 7}, replace(HEALTHY, lost=1)),
        StageCount("readings", kind, "sensor_raw", {"sensor_readings": 3}, below),
    )
    body = Certificate("sensor", "local", "now", True, stages).as_dict()
    assert str(command_after_count(body)) == f"surestart plan {remedy} raw -e local -o plan.json"


@pytest.mark.parametrize(
    ("counts", "gaps", "remedy"),
    [
        (replace(HEALTHY, lost=1, wrong=1), 2, "backfill"),
        # Of a table without positions nobody knows what to write again.
        (replace(HEALTHY, lost=1), 0, "reset"),
        # A backfill removes no row.
        (replace(HEALTHY, wrong=1, from_nowhere=1), 1, "reset"),
        (replace(HEALTHY, lost=1, duplicated=1), 1, "reset"),
    ],
)
@pytest.mark.parametrize("kind", [KEYS, DATABASE])
def test_of_keys_a_backfill_is_named_where_it_can_help(kind: str, counts: Counts, gaps: int, remedy: str) -> None:
    found = tuple(Gap("gold", "file:/a", 0, number, number, 1) for number in range(gaps))
    count = StageCount("gold", kind, "readings", {"gold": 1}, counts, gaps=found)
    body = Certificate("sensor", "local", "now", True, (count,)).as_dict()
    assert str(command_after_count(body)) == f"surestart plan {remedy} gold -e local -o plan.json"


@pytest.mark.parametrize(
    ("version", "index", "initial", "reach"),
    [
        (6, -1, False, TableProgress("everything")),
        (9, -1, False, TableProgress("everything")),
        (5, -1, False, TableProgress("up to", 4)),
        (5, 3, False, TableProgress("up to", 4, partly=True)),
        (0, -1, False, TableProgress("nothing")),
        (5, 3, True, TableProgress("nothing", partly=True)),
    ],
)
def test_the_position_tells_which_version_was_read(
    version: int, index: int, initial: bool, reach: TableProgress
) -> None:
    position = DeltaPosition("id", version, index, initial)

    assert progress_in_table(StageProgress("ck", 1, 1, delta=position), "id", 5) == reach


@pytest.mark.parametrize(
    ("certificate", "wanted"),
    [
        (None, 0),
        ({"exact": True, "verdict": "exact"}, 0),
        ({"exact": False, "verdict": "not exact"}, 1),
        ({"exact": False, "verdict": "cannot tell"}, 4),
    ],
)
def test_a_remedy_ends_with_what_its_count_said(certificate: dict[str, object] | None, wanted: int) -> None:
    assert exit_code(certificate) == wanted


def test_what_the_position_cannot_tell() -> None:
    position = DeltaPosition("id", 6, -1, initial_snapshot=False)

    assert progress_in_table(StageProgress("ck", 1, 1, delta=position), "another", 5).how == "unknown"
    assert progress_in_table(StageProgress("ck", 1, 1), "id", 5).how == "unknown"
    assert progress_in_table(StageProgress("ck", problem="torn"), "id", 5) == TableProgress("unknown", problem="torn")
    assert progress_in_table(StageProgress("ck", 0, None), "id", 5) == TableProgress("nothing")


def test_a_batch_in_flight_does_not_count_as_read(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"0b7c0f4e-9a0f-4f6e-8f0e-6d1f1d1a5a01"}')
    for folder, batches in (("offsets", (0, 1)), ("commits", (0,))):
        (tmp_path / folder).mkdir()
        for batch in batches:
            body = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{}}}}\n{{"logOffset":{batch}}}'
            (tmp_path / folder / str(batch)).write_text(
                body if folder == "offsets" else 'v1\n{"nextBatchWatermarkMs":0}'
            )

    found = read_stage_progress(str(tmp_path))
    assert (found.planned, found.committed, found.files, found.in_flight) == (1, 0, 0, True)

    (tmp_path / "offsets" / "0").write_text("")
    assert "batch 0 is damaged" in read_stage_progress(str(tmp_path)).problem
    assert read_stage_progress(str(tmp_path / "none")).committed is None


def test_the_list_of_files_is_read_across_a_compaction(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    folder.mkdir(parents=True)

    def line(name: str, batch: int) -> str:
        return json.dumps({"path": f"file:///in/{name}", "timestamp": 1, "batchId": batch})

    (folder / "8").write_text("v1\n" + line("z", 8))
    (folder / "9.compact").write_text("v1\n" + "\n".join([line("a%20b", 0), line("c+d", 9)]))
    (folder / "10").write_text("v1\n" + line("e", 10))
    (folder / "11").write_text("v1\n" + line("f", 11))
    (folder / ".11.crc").write_text("crc")

    assert read_listed_files(str(tmp_path), 10) == {"file:/in/a b", "file:/in/c+d", "file:/in/e"}

    (folder / "10").write_text("v1\n{")
    with pytest.raises(CannotTell, match="list of files"):
        read_listed_files(str(tmp_path), 10)
