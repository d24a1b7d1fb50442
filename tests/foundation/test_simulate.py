"""The simulator is deterministic, atomic and honest about what it planted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sensor_pipeline.count import judge
from sensor_pipeline.simulate import Simulation, iter_records, main, read_truth, write_files
from surestart.errors import UsageError

BAD = {"malformed", "violation", "implausible"}


def landed(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("part-*.jsonl")))


def test_the_same_seed_gives_the_same_bytes_however_they_are_cut_into_files(tmp_path: Path) -> None:
    write_files(tmp_path / "a", tmp_path / "a.json", 3000, per_file=1000)
    write_files(tmp_path / "b", tmp_path / "b.json", 1700, per_file=700)
    write_files(tmp_path / "b", tmp_path / "b.json", 1300, per_file=700)

    assert landed(tmp_path / "a") == landed(tmp_path / "b")
    assert read_truth(tmp_path / "a.json") == read_truth(tmp_path / "b.json")


def test_another_seed_gives_other_readings() -> None:
    one, other = (list(iter_records(Simulation(seed=seed), 0, 100)) for seed in (1, 2))

    assert [record.payload for record in one] != [record.payload for record in other]


def test_exactly_the_planted_faults_are_bad() -> None:
    records = list(iter_records(Simulation(), 0, 20_000))

    wrongly_judged = [record for record in records if (judge(record.payload) is None) != (record.kind in BAD)]

    assert wrongly_judged == []
    assert set(Counter(record.kind for record in records)) == {
        "plain", "duplicate", "correction", "early", "late", *BAD
    }  # fmt: skip


def test_no_draft_is_left_and_none_has_a_name_that_a_reader_takes(tmp_path: Path) -> None:
    write_files(tmp_path / "landing", tmp_path / "truth.json", 10, per_file=4)

    names = sorted(path.name for path in (tmp_path / "landing").iterdir())

    assert names == ["part-000000000000.jsonl", "part-000000000004.jsonl", "part-000000000008.jsonl"]


def test_two_simulations_are_not_mixed(tmp_path: Path) -> None:
    write_files(tmp_path / "landing", tmp_path / "truth.json", 10, Simulation(seed=1))

    with pytest.raises(UsageError, match="was made with seed 1"):
        write_files(tmp_path / "landing", tmp_path / "truth.json", 10, Simulation(seed=2))

    assert read_truth(tmp_path / "truth.json").records == 10  # type: ignore[union-attr]


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    assert main(["--readings", "25", "--per-file", "10", "--root", str(tmp_path)]) == 0

    assert len(list((tmp_path / "landing").glob("*.jsonl"))) == 3
