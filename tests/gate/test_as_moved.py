"""A checkpoint that a remedy has moved is no other one; one that somebody else has moved is."""

from __future__ import annotations

from surestart.history.run_record import REMEDY, RunRecord
from surestart.runs.judge_start import as_moved


def run(number: int, checkpoint: str, event: str = "ended") -> RunRecord:
    batch = None if event == REMEDY else number
    said = {"checkpoint": checkpoint, "stage": "orders"}
    return RunRecord(str(number), event, checkpoint=checkpoint, declaration=said, started_at=number, last_batch=batch)


def places(*runs: RunRecord) -> list[str]:
    return [one["declaration"]["checkpoint"] for one in as_moved(runs)]


def test_a_run_before_a_remedy_is_at_the_place_that_the_remedy_left() -> None:
    assert places(run(1, "/a"), run(2, "/a"), run(3, "/b", REMEDY)) == ["/b", "/b"]
    assert places(run(1, "/a"), run(3, "/b", REMEDY), run(4, "/b"), run(5, "/a", REMEDY)) == ["/a", "/a"]


def test_a_run_since_is_where_it_was() -> None:
    assert places(run(1, "/a"), run(2, "/b")) == ["/a", "/b"]
    assert places(run(3, "/b", REMEDY), run(4, "/c")) == ["/c"]
