"""What a stream passes over follows from the journal, the table's log and where its checkpoint stands; how it begins
from the newest remedy that stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, Table
from surestart.errors import Refused
from surestart.facts.delta.commit_notes import note_of
from surestart.journal.commit_once import PassOverNote
from surestart.journal.journal import BEGUN, DONE, FINISHED, UNDOING, UNDONE, WITHDRAWN, Journal, JournalEntry
from surestart.journal.stage_start import StageStart, find_start, next_reading
from surestart.journal.taken_back import InputStand as Stand
from surestart.journal.taken_back import PassedOver, TakenBack, find_passed_over, find_unnoted, read_stand
from tests.deltalog.handmade import add, create, info, remove, write_commit

STAGE, RAW = "deserialize", "sensor_raw"
FIRST, SECOND = "1" * 64, "2" * 64
QUERY = "00000000-0000-0000-0000-000000000001"


def journal(digest: str, *states: str, at: int = 0, facts: dict[str, object] | None = None) -> Journal:
    """DONE said how the stage begins; UNDONE put raw back."""
    told = {DONE: {"starts": {STAGE: StageStart(digest, STAGE).as_dict()}}, UNDONE: facts or {}}
    steps = {DONE: "start", UNDONE: f"clear:{RAW}"}
    entries = [
        JournalEntry(digest, number, state, steps.get(state, ""), at=at + number, facts=told.get(state, {}))
        for number, state in enumerate(states)
    ]
    return Journal(tuple(entries))


STANDS, TAKEN_BACK = (BEGUN, DONE, FINISHED), (BEGUN, DONE, FINISHED, UNDOING, UNDONE, WITHDRAWN)


def test_the_journals_order_decides_and_no_clock() -> None:
    """The first remedy was applied from a machine whose clock was ten minutes fast."""
    both = journal(FIRST, *STANDS, at=600_000), journal(SECOND, *STANDS, at=0)
    assert find_start(both, STAGE) == StageStart(SECOND, STAGE)


@pytest.mark.parametrize("states", [TAKEN_BACK, TAKEN_BACK[:4], TAKEN_BACK[:5]])
def test_a_remedy_that_is_undone_or_being_undone_has_no_say(states: tuple[str, ...]) -> None:
    undone = journal(SECOND, *states)
    assert find_start([journal(FIRST, *STANDS), undone], STAGE) == StageStart(FIRST, STAGE)
    assert find_start([undone], STAGE) is None


def test_a_remedy_whose_undo_was_given_up_stands() -> None:
    given_up = journal(SECOND, *STANDS, UNDOING, FINISHED)
    assert find_start([journal(FIRST, *STANDS), given_up], STAGE) == StageStart(SECOND, STAGE)


def test_what_a_former_version_wrote_into_the_start_is_no_hindrance() -> None:
    former = journal(FIRST, *STANDS)
    body = {
        **StageStart(FIRST, STAGE, version=7).as_dict(),
        "windows": [{"until": 3, "column": "", "first": 0, "last": -1}],
    }
    entries = [replace(one, facts={"starts": {STAGE: body}}) if one.state == DONE else one for one in former.entries]
    assert find_start([Journal(tuple(entries))], STAGE) == StageStart(FIRST, STAGE, version=7)


UNDONE_RESET = journal(FIRST, *TAKEN_BACK, facts={"restored": 1, "version": 5})


def tables(place: Path, marked: bool = False) -> Table:
    """Version 2 clears the table, 3 and 4 add to it, 5 puts version 1 back. marked: 4 says so, and not 5 itself."""
    table = place / RAW
    write_commit(table, 0, *create())
    write_commit(table, 1, info("WRITE"), add("day=1/a.parquet"))
    write_commit(table, 2, info("DELETE"), remove("day=1/a.parquet"))
    write_commit(table, 3, info("WRITE"), add("day=1/b%2C.parquet"), add("day=2/c.parquet"))
    write_commit(table, 4, info("OPTIMIZE"), add("day=2/d.parquet", dataChange=False))
    restored = info("RESTORE", userMetadata=note_of(FIRST, f"undo:clear:{RAW}"))
    if marked:
        marker = info("WRITE", userMetadata=note_of(FIRST, f"marker:clear:{RAW}", 1))
        write_commit(table, 4, marker, add("day=2/d.parquet"))
        restored = info("RESTORE", operationParameters={"version": "1"})
    write_commit(table, 5, restored, remove("day=2/d.parquet"), add("day=1/a.parquet"))
    write_commit(table, 6, info("WRITE"), add("day=2/e.parquet"))
    return Table(RAW, path=str(table))


def passed_over(
    environment: Environment, table: Table, stand: Stand | None, noted: Journal = UNDONE_RESET, **options: str
) -> PassedOver:
    return find_passed_over(None, environment, [noted], STAGE, table, options, stand)


def test_a_stream_before_it_passes_over_its_commits_and_files_and_over_nothing_else(
    environment: Environment, tmp_path: Path
) -> None:
    found = passed_over(environment, tables(tmp_path), Stand(2, 2))
    assert found == PassedOver((TakenBack(FIRST, f"clear:{RAW}", 1, 5),), ("b%2C.parquet", "c.parquet"))
    options = found.options({"maxFilesPerTrigger": "3", "excludeRegex": "tmp$"})
    assert (options["skipChangeCommits"], options["maxFilesPerTrigger"]) == ("true", "3")
    names = ["day=1/a.parquet", "day=1/b%2C.parquet", "c.parquet", "day=2/e.parquet", "xc.parquet", "some.tmp"]
    kept = [name for name in names if not re.search(options["excludeRegex"], name)]
    assert kept == ["day=1/a.parquet", "day=2/e.parquet", "xc.parquet"]


def test_a_restore_is_known_by_the_mark_in_front_of_it_and_by_its_version(
    environment: Environment, tmp_path: Path
) -> None:
    table = tables(tmp_path, marked=True)
    assert passed_over(environment, table, Stand(2, 2)).files == ("b%2C.parquet", "c.parquet", "d.parquet")
    for stand in (Stand(4, 4), Stand(5, 5)):
        with pytest.raises(Refused) as refused:
            passed_over(environment, table, stand)
        assert refused.value.code == "ReadWhatWasUndone"
    write_commit(Path(table.path), 5, info("RESTORE", operationParameters={"version": "0"}), remove("day=2/d.parquet"))
    assert passed_over(environment, table, Stand(2, 2)) == PassedOver()


def test_a_file_that_comes_back_in_between_is_read_where_it_was_added_first(
    environment: Environment, tmp_path: Path
) -> None:
    """Another remedy was applied and undone while the first one stood; file a was not its own."""
    table = tables(tmp_path)
    again = info("RESTORE", userMetadata=note_of(SECOND, f"undo:clear:{RAW}"))
    write_commit(Path(table.path), 4, again, remove("day=2/c.parquet"), add("day=1/a.parquet"))
    assert passed_over(environment, table, Stand(1, 1)).files == ("b%2C.parquet", "c.parquet")


@pytest.mark.parametrize("stand", [None, Stand(6, 6), Stand(6, 7)])
def test_a_stream_behind_it_or_without_a_position_passes_over_nothing(
    environment: Environment, tmp_path: Path, stand: Stand | None
) -> None:
    found = passed_over(environment, tables(tmp_path), stand)
    assert found.options({"maxFilesPerTrigger": "3"}) == {"maxFilesPerTrigger": "3"}


def test_its_newest_batch_is_passed_over_again(environment: Environment, tmp_path: Path) -> None:
    """Everything is read: Spark looks at the batch that led past it once more all the same."""
    assert passed_over(environment, tables(tmp_path), Stand(2, 7)).taken_back


@pytest.mark.parametrize("stand", [Stand(2, 4), Stand(2, 5), Stand(4, 7)])
def test_a_stream_that_has_read_some_of_it_is_refused(environment: Environment, tmp_path: Path, stand: Stand) -> None:
    with pytest.raises(Refused) as refused:
        passed_over(environment, tables(tmp_path), stand)
    assert refused.value.code == "ReadWhatWasUndone"


NOTED = replace(UNDONE_RESET, passed=(PassOverNote(FIRST, f"clear:{RAW}", "Q"),))


@pytest.mark.parametrize("stand", [Stand(2, 4, ("Q",)), Stand(4, 5, ("Q", "begin")), Stand(4, 7, ("R", "Q"))])
def test_a_stream_whose_batch_has_ended_among_it_goes_on(
    environment: Environment, tmp_path: Path, stand: Stand
) -> None:
    """Delta counts the files that it leaves out, so a batch may end behind one of them."""
    table = tables(tmp_path)
    assert passed_over(environment, table, stand, NOTED).taken_back
    for other in (replace(stand, streams=("R",)), replace(stand, streams=())):
        with pytest.raises(Refused, match="among what the undo"):
            passed_over(environment, table, other, NOTED)


def test_who_stands_before_it_is_noted_once_and_nobody_else(environment: Environment, tmp_path: Path) -> None:
    (back,) = passed_over(environment, tables(tmp_path), Stand(2, 2)).taken_back
    assert find_unnoted(Stand(2, 2, ("Q",)), [back]) == NOTED.passed
    among, behind, unknown = Stand(2, 4, ("Q",)), Stand(2, 7, ("Q",)), Stand(0, 0)
    assert [find_unnoted(stand, [back]) for stand in (among, behind, unknown, None)] == [()] * 4
    assert find_unnoted(Stand(2, 2, ("Q",)), [replace(back, passed=frozenset({"Q"}))]) == ()


def test_another_table_of_the_same_name_has_nothing_to_be_passed_over(environment: Environment, tmp_path: Path) -> None:
    table = tables(tmp_path)
    write_commit(Path(table.path), 5, info("WRITE"), add("f.parquet"))
    assert passed_over(environment, table, Stand(2, 2)) == PassedOver()


def test_a_commit_of_somebody_else_that_removes_rows_is_not_passed_over_with_it(
    environment: Environment, tmp_path: Path
) -> None:
    table = tables(tmp_path)
    write_commit(Path(table.path), 7, info("MERGE"), remove("day=1/a.parquet"), add("day=1/g.parquet"))
    with pytest.raises(Refused, match=r"version 7 of sensor_raw \(MERGE, 2023") as refused:
        passed_over(environment, table, Stand(2, 2))
    assert refused.value.code == "InputChanged"
    assert passed_over(environment, table, Stand(2, 2), skipChangeCommits="true").taken_back


def write_batches(place: Path, *positions: tuple[int, int, bool], committed: int) -> str:
    """(version, index, initial snapshot) of each planned batch."""
    for kind in ("offsets", "commits"):
        (place / kind).mkdir(parents=True)
    for number, (version, index, initial) in enumerate(positions):
        body = {"sourceVersion": 1, "reservoirId": "T", "reservoirVersion": version, "index": index}
        head = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
        lines = ["v1", json.dumps(head), json.dumps({**body, "isStartingVersion": initial})]
        (place / "offsets" / str(number)).write_text("\n".join(lines))
        if number < committed:
            (place / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (place / "metadata").write_text(json.dumps({"id": QUERY}))
    return str(place)


CASES: dict[str, tuple[Callable[[Path], str], int | None, Stand | None]] = {
    "none": (lambda place: str(place / "none"), None, None),
    "none, to begin at a version": (lambda place: str(place / "none"), 4, Stand(4, 4)),
    "inside its first snapshot": (lambda place: write_batches(place, (3, 8, True), committed=1), None, Stand(4, 4)),
    "its first snapshot is read": (lambda place: write_batches(place, (4, -1, False), committed=1), None, Stand(4, 4)),
    "first batch, begun at a version": (
        lambda place: write_batches(place, (9, -1, False), committed=1), 4, Stand(4, 9)
    ),
    "all committed": (
        lambda place: write_batches(place, (4, -1, False), (6, -1, False), (9, 2, False), committed=3), 1, Stand(6, 10)
    ),
    "one in flight": (lambda place: write_batches(place, (4, 1, False), (6, -1, False), committed=1), 1, Stand(4, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_where_a_stage_stands_is_where_its_newest_batch_begins(tmp_path: Path, name: str) -> None:
    made, begins_at, wanted = CASES[name]
    assert read_stand(made(tmp_path), begins_at) == wanted


def test_a_position_that_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    place = write_batches(tmp_path, (2, -1, False), (4, -1, False), committed=2)
    assert read_stand(place, None, "begin") == Stand(2, 4)
    assert getattr(read_stand(place, None, "begin"), "streams", None) == (QUERY, "begin")
    (tmp_path / "offsets" / "1").write_text("v1")
    assert getattr(read_stand(place, None, "begin"), "streams", None) == ()


@pytest.mark.parametrize(("reached", "has_read"), [(2, False), (4, True), (6, False)])
def test_the_doctor_passes_over_what_the_start_does(environment: Environment, reached: int, has_read: bool) -> None:
    """At version 4 the stage is among it, and its start is refused, unless it is noted that it passes over it."""
    write_batches(Path(environment.checkpoint(STAGE)), (2, -1, False), (reached, -1, False), committed=2)
    noted = replace(UNDONE_RESET, passed=(PassOverNote(FIRST, f"clear:{RAW}", QUERY),))
    for journal, wanted in ((UNDONE_RESET, has_read), (noted, False)):
        reading = next_reading(environment, build_stages({})[1], [journal])
        assert reading is not None
        assert [(one.before, one.last, one.has_read) for one in reading.passed] == [(1, 5, wanted)]
