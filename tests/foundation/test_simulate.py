"""The simulator is deterministic, atomic and honest about what it planted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sensor_pipeline.count import judge
from sensor_pipeline.simulate import Simulation, iter_records, land_file, main, read_truth, write_files
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


def test_the_planted_kinds_have_the_shares_that_the_module_names() -> None:
    number = 100_000
    kinds = Counter(record.kind for record in iter_records(Simulation(), 0, number))

    # A duplicate or correction of a record that is none of the plain ones stays plain itself: about one in twelve.
    shares = {"malformed": 1, "violation": 0.5, "implausible": 0.5, "late": 1}
    repeated = {"duplicate": 2 * 0.92, "correction": 2 * 0.92, "early": 1 * 0.92}
    for kind, percent in (shares | repeated).items():
        assert kinds[kind] == pytest.approx(number * percent / 100, rel=0.1), kind
    assert 0.92 < kinds["plain"] / number < 0.94


def test_what_is_planted_is_true_in_every_year() -> None:
    """One device says a reading a minute: from record 525,600 on it is 2027."""
    records = list(iter_records(Simulation(devices=1), 525_000, 20_000))

    assert b'"reading_time":"2027-' in records[-1].payload
    assert [record for record in records if (judge(record.payload) is None) != (record.kind in BAD)] == []


def killed_between_file_and_truth(root: Path, landed_lines: int) -> bytes:
    """A file has landed; the truth file does not know it yet."""
    write_files(root / "landing", root / "truth.json", 300, per_file=100)
    before = (root / "truth.json").read_bytes()
    write_files(root / "landing", root / "truth.json", landed_lines, per_file=landed_lines)
    (root / "truth.json").write_bytes(before)
    return (root / "landing" / "part-000000000300.jsonl").read_bytes()


def test_a_file_that_landed_before_a_kill_is_counted_and_never_written_again(tmp_path: Path) -> None:
    content = killed_between_file_and_truth(tmp_path, 100)

    assert main(["--readings", "20", "--root", str(tmp_path)]) == 0

    assert (tmp_path / "landing" / "part-000000000300.jsonl").read_bytes() == content
    write_files(tmp_path / "whole", tmp_path / "whole.json", 420)
    assert landed(tmp_path / "landing") == landed(tmp_path / "whole")
    assert read_truth(tmp_path / "truth.json") == read_truth(tmp_path / "whole.json")


@pytest.mark.parametrize("there", [b"", b"somebody else's\n"])
def test_a_landed_file_with_other_content_is_refused(
    tmp_path: Path, there: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_between_file_and_truth(tmp_path, 100)
    path = tmp_path / "landing" / "part-000000000300.jsonl"
    path.write_bytes(there)

    assert main(["--readings", "20", "--root", str(tmp_path)]) == 2

    assert "is there already" in capsys.readouterr().err
    assert path.read_bytes() == there
    assert read_truth(tmp_path / "truth.json").records == 300  # type: ignore[union-attr]


def test_two_simulators_do_not_overwrite_each_other(tmp_path: Path) -> None:
    path = tmp_path / "part-0.jsonl"
    path.write_bytes(b"theirs\n")

    with pytest.raises(UsageError, match="landed by somebody else"):
        land_file(path, b"ours\n")

    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("part-0.jsonl", b"theirs\n")]


def test_endless_goes_on_until_it_is_interrupted_and_its_truth_is_true(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sensor_pipeline.simulate", "--endless", "--pause", "0", "--per-file", "10"]
    with subprocess.Popen([*command, "--root", str(tmp_path)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(3)]
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 130

    assert [re.findall(r"^\d+|\d+(?= in all$)", line) for line in said] == [["10", "10"], ["10", "20"], ["10", "30"]]
    # Interrupted between a file and the truth file, the next call counts that file.
    assert main(["--readings", "10", "--per-file", "10", "--root", str(tmp_path)]) == 0
    files = sorted((tmp_path / "landing").glob("part-*.jsonl"))
    assert read_truth(tmp_path / "truth.json").records == 10 * len(files) >= 40  # type: ignore[union-attr]


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    assert main(["--readings", "25", "--per-file", "10", "--root", str(tmp_path)]) == 0

    assert len(list((tmp_path / "landing").glob("*.jsonl"))) == 3
