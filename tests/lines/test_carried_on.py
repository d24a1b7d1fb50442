"""A pipeline that one line of Spark began is carried on by the next, killed in mid-batch before each change; and the
way back is refused or exact, as the doctor says beforehand. `make test-lines`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sensor_pipeline.count import count_rows, read_landed
from surestart.environment import environment_from_settings
from surestart.spark.spark_lines import NAMES

ROOT = Path(__file__).parents[2]
STAGES = ("raw-ingest", "deserialize", "merge-gold")
# Each line dies somewhere else: before and after the sink's commit, so that the next one meets batches of both kinds.
DIES = {"3.5": "append.after_commit", "4.0": "merge.before_commit", "4.1": "merge.after_commit", "4.2": ""}
pytestmark = [pytest.mark.lines, pytest.mark.timeout(3600)]


def surestart(line: str, root: Path, *words: str, dies_at: str = "") -> subprocess.CompletedProcess[str]:
    """The command line of that line's environment. dies_at: where the whole run is killed."""
    python = ROOT / f".venv-{line}" / "bin" / "python"
    variables = {**os.environ, "SURESTART_FAILPOINT": dies_at}
    command = [str(python), "-m", "surestart", "--traceback", *words, "--root", str(root)]
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, check=False, cwd=ROOT, start_new_session=True
    )


def add_readings(line: str, root: Path, readings: int) -> None:
    python = ROOT / f".venv-{line}" / "bin" / "python"
    command = [str(python), "-m", "sensor_pipeline.simulate", "--readings", str(readings), "--root", str(root)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def verdicts(line: str, root: Path, spark: str) -> dict[str, str]:
    done = surestart(line, root, "doctor", "--json", "--spark", spark)
    stages = json.loads(done.stdout)["stages"]
    return {stage["stage"]: stage["checkpoint"]["verdict"] for stage in stages}


def assert_exact(root: Path, readings: int) -> None:
    """Counted in plain Python, from the landed files and the tables' own files."""
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    counts = count_rows(environment, read_landed(environment.landing))
    assert (counts.produced, counts.lost, counts.duplicated) == (readings, 0, 0)


def test_each_line_carries_on_what_the_one_before_it_left_in_mid_batch(tmp_path: Path) -> None:
    readings = 0
    for line in NAMES:
        add_readings(line, tmp_path, 400)
        readings += 400
        done = surestart(line, tmp_path, "run", "all")
        assert done.returncode == 0, f"{line}: {done.stderr[-6000:]}"
        assert_exact(tmp_path, readings)
        if DIES[line]:
            add_readings(line, tmp_path, 300)
            readings += 300
            killed = surestart(line, tmp_path, "run", "all", dies_at=DIES[line])
            assert killed.returncode < 0, f"{line} did not die: {killed.stderr[-6000:]}"
    for older in reversed(NAMES[:-1]):
        readings = goes_back(NAMES[-1], older, tmp_path, readings)


def test_what_the_newest_line_began_goes_back_or_is_refused(tmp_path: Path) -> None:
    """Tables and checkpoints that no older line has ever seen, with a batch in flight."""
    newest, readings = NAMES[-1], 0
    for older in NAMES[:-1]:
        root = tmp_path / older
        add_readings(newest, root, 400)
        done = surestart(newest, root, "run", "all")
        assert done.returncode == 0, done.stderr[-6000:]
        add_readings(newest, root, 300)
        killed = surestart(newest, root, "run", "all", dies_at="merge.before_commit")
        assert killed.returncode < 0, killed.stderr[-6000:]
        readings = goes_back(newest, older, root, 700)
    assert readings == 900


def goes_back(newest: str, older: str, root: Path, readings: int) -> int:
    """Each stage is run by the older line, as its doctor said beforehand; then the newest line ends exact. Returns how
    many readings there are."""
    said = verdicts(newest, root, older)
    add_readings(older, root, 200)
    for stage in STAGES:
        done = surestart(older, root, "run", stage)
        print(f"{older} after {newest}, {stage}: {said[stage]}, exit {done.returncode}")
        if said[stage] in ("safe", "attention"):
            assert done.returncode == 0, f"{older} {stage} was called {said[stage]}: {done.stderr[-6000:]}"
        else:
            assert done.returncode in (3, 4), f"{older} {stage} was called {said[stage]}: {done.stderr[-6000:]}"
    done = surestart(newest, root, "run", "all")
    assert done.returncode == 0, done.stderr[-6000:]
    assert_exact(root, readings + 200)
    return readings + 200
