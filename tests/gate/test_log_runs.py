"""The history's log is read whole once, and from its summary on afterwards; that says no more than the log."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.errors import CannotTell
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.storage.read_budget import BYTES, NAMES, ReadBudget
from surestart.history.log_runs import FOLD, SUMMARY, fold_log_runs, read_log_runs
from surestart.history.run_record import ENDED, FINISHED, NOTE, RunRecord

BASE = RunRecord("r", ENDED, environment="prod", query="q", place="/ck/q", query_id="a", outcome=FINISHED, last_batch=1)


def commit(table: Path, version: int, *runs: RunRecord) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info = {"timestamp": version, "operation": "WRITE", "userMetadata": json.dumps({NOTE: [r.as_note() for r in runs]})}
    (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")


def run(number: int, **values: object) -> RunRecord:
    return replace(BASE, run_id=f"r{number}", started_at=number, **values)  # type: ignore[arg-type]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One run of `q`, and behind it 400 of another query."""
    place = tmp_path / "surestart_runs"
    commit(place, 0, run(0))
    for version in range(1, 401):
        commit(place, version, run(version, query="other", place="/ck/other"))
    return place


def own(table: Path) -> list[str]:
    return [found.run_id for found in read_log_runs(str(table)).runs if found.query == "q"]


def test_a_run_behind_any_number_of_commits_is_found(table: Path) -> None:
    assert own(table) == ["r0"]
    assert read_log_runs(str(table)).behind == 401
    fold_log_runs(str(table))
    assert own(table) == ["r0"]
    assert read_log_runs(str(table)).behind == 0
    commit(table, 401, run(401))
    assert own(table)[-1] == "r401"
    assert read_log_runs(str(table)).behind == 1


def test_it_is_folded_when_it_has_grown_and_not_before(table: Path) -> None:
    fold_log_runs(str(table))
    made = (table / SUMMARY).read_text()
    for version in range(401, 400 + FOLD):
        commit(table, version, run(version))
    fold_log_runs(str(table))
    assert (table / SUMMARY).read_text() == made
    commit(table, 400 + FOLD, run(400 + FOLD))
    fold_log_runs(str(table))
    assert json.loads((table / SUMMARY).read_text())["version"] == 400 + FOLD


def test_a_log_longer_than_one_look_is_folded_by_the_next_start(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a lost summary of a long history would refuse every start from then on."""
    monkeypatch.setattr(ReadBudget.__init__, "__defaults__", (BYTES, NAMES, 5_000))
    with pytest.raises(CannotTell, match="was not read to its end"):
        read_log_runs(str(table))
    fold_log_runs(str(table))
    assert own(table) == ["r0"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 400}',
        '{"version": "x", "sha256": "", "runs": []}',
        '{"version": 1e400}',
        "[" * 9_000,
    ],
)
def test_a_torn_summary_is_passed_over(table: Path, text: str) -> None:
    fold_log_runs(str(table))
    (table / SUMMARY).write_text(text)
    assert (own(table), read_log_runs(str(table)).behind) == (["r0"], 401)


def test_what_is_no_summary_is_not_read(table: Path) -> None:
    """A pipe would be waited for, a device or a sparse file of gigabytes held in memory."""
    for put in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), make_sparse):
        put(table / SUMMARY)
        tracemalloc.start()
        assert own(table) == ["r0"]
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
        tracemalloc.stop()
        (table / SUMMARY).unlink()


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def test_a_summary_of_another_log_is_passed_over(table: Path) -> None:
    """The table was put back to an earlier copy, or made anew, and has as many commits by now."""
    fold_log_runs(str(table))
    shutil.rmtree(table / "_delta_log")
    with pytest.raises(NoDeltaLog):
        read_log_runs(str(table))
    for version in range(500):
        commit(table, version, run(version, query="new"))
    assert own(table) == []
    shutil.rmtree(table / "_delta_log")
    commit(table, 0, run(7))
    assert own(table) == ["r7"]


def test_a_hole_in_the_log_is_no_end_of_it(table: Path) -> None:
    """Commits before it are gone and no checkpoint has them: what they said cannot be told."""
    fold_log_runs(str(table))
    for version in range(401, 420):
        commit(table, version, run(version))
    (table / "_delta_log" / f"{410:020d}.json").unlink()
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version": 415, "size": 1}')
    with pytest.raises(CannotTell):
        read_log_runs(str(table))


def test_a_damaged_commit_is_not_passed_over(table: Path) -> None:
    (table / "_delta_log" / f"{3:020d}.json").write_text("not a commit")
    with pytest.raises(CannotTell):
        read_log_runs(str(table))
    fold_log_runs(str(table))
    assert not (table / SUMMARY).exists()
