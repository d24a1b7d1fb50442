"""`make test` is short and keeps a test of every protection; the slices of `make chaos` are even and complete."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path, PurePosixPath

import pytest

from tests.conftest import COLLECTED, LEFT_OUT
from tests.order.costs import as_text, cost_of, function_of, read_costs, read_durations
from tests.order.progress import Progress
from tests.order.slices import MINUTES, PROCESSES, SLICES, cut, minutes_of, slice_of_day

ROOT = Path(__file__).resolve().parents[2]
# Of the six minutes that `make test` may take; the rest is for collecting, and for a slower day.
SECONDS_OF_MAKE_TEST = 310


def marks_of(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()} & set(LEFT_OUT)


def named_by(item: pytest.Item) -> str:
    """What stands for it in `make test`: beside it, or in another file below tests/."""
    mark = item.get_closest_marker("long")
    named = str(mark.kwargs.get("instead", "")) if mark else ""
    return f"tests/{named}" if "::" in named else f"{item.nodeid.split('::', 1)[0]}::{named}"


def unprotected(long: dict[str, str], kept: Iterable[str], files: set[str]) -> dict[str, str]:
    """Long tests for which no test stands in `make test`, and what they name; what lies in files that were not
    collected is not known."""
    standing = {function_of(test) for test in kept}
    return {test: named for test, named in long.items() if named.split("::", 1)[0] in files and named not in standing}


@pytest.fixture
def items(request: pytest.FixtureRequest) -> list[pytest.Item]:
    return request.config.stash[COLLECTED]


def test_what_make_test_leaves_out_names_a_test_that_it_runs(items: list[pytest.Item]) -> None:
    marks = {item.nodeid: marks_of(item) for item in items}
    kept = [test for test, found in marks.items() if not found]
    long = {item.nodeid: named_by(item) for item in items if marks[item.nodeid] == {"long"}}

    assert unprotected(long, kept, {test.split("::", 1)[0] for test in marks}) == {}


def test_a_protection_without_a_test_is_seen() -> None:
    files = {"tests/a/test_b.py"}
    long = {"tests/a/test_b.py::test_c[1]": "tests/a/test_b.py::test_d", "tests/a/test_b.py::test_e": ""}

    assert unprotected(long, ["tests/a/test_b.py::test_d[2]"], files) == {}
    assert unprotected(long, ["tests/a/test_b.py::test_c[2]"], files) == {
        "tests/a/test_b.py::test_c[1]": "tests/a/test_b.py::test_d"
    }


def test_make_test_takes_no_longer_than_it_may(items: list[pytest.Item]) -> None:
    rooms: dict[str, float] = {}
    for item in items:
        if not marks_of(item):
            room = str(PurePosixPath(item.nodeid.split("::", 1)[0]).parent)
            rooms[room] = rooms.get(room, 0.0) + cost_of(item.nodeid)

    assert sum(rooms.values()) / PROCESSES <= SECONDS_OF_MAKE_TEST, rooms
    # A room stays in one process.
    assert max(rooms.values()) <= SECONDS_OF_MAKE_TEST, rooms


def test_every_chaos_test_is_in_one_slice_and_none_takes_longer_than_it_may(items: list[pytest.Item]) -> None:
    chaos = [item.nodeid for item in items if "chaos" in marks_of(item)]
    slices = cut(chaos)

    assert slices.keys() == set(chaos)
    assert cut(reversed(chaos)) == slices
    assert max(minutes_of(chaos).values()) <= MINUTES, minutes_of(chaos)


LATE = """
import threading

def test_in_time(): ...

def test_over_the_end(): threading.Event().wait(60)

def test_behind_the_end(): ...
"""
HOOKS = """
import tests.conftest as house
from tests.conftest import *

house.GRACE_SECONDS, house.HANGS_SECONDS = 0.3, {hangs}
"""


@pytest.mark.parametrize(
    ("hangs", "outcomes"),
    [
        (300.0, "1 passed, 2 skipped"),
        pytest.param(
            0.1,
            "1 failed, 1 passed, 1 skipped",
            marks=pytest.mark.long(instead="test_a_slice_stops_in_time_and_says_what_it_left_out"),
        ),
    ],
)
def test_a_slice_stops_in_time_and_says_what_it_left_out(tmp_path: Path, hangs: float, outcomes: str) -> None:
    (tmp_path / "test_late.py").write_text(LATE)
    (tmp_path / "conftest.py").write_text(HOOKS.format(hangs=hangs))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:playwright",
        "--minutes",
        "0.02",
    ]

    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcomes in done.stdout, done.stdout + done.stderr
    assert "not begun, 0.02 minutes are over: test_late.py::test_behind_the_end" in done.stdout
    assert ("stopped after" in done.stdout) == (hangs > 1), done.stdout


def test_each_slice_has_its_day_over_the_end_of_a_year_too() -> None:
    days = [*range(1, 366), *range(1, 366)]
    for begin in range(len(days) - 2 * SLICES):
        assert {slice_of_day(day) for day in days[begin : begin + 2 * SLICES]} == set(range(1, SLICES + 1))
    assert {slice_of_day(day) for day in range(1, SLICES + 1)} == set(range(1, SLICES + 1))


def test_each_line_of_the_table_is_of_a_test(items: list[pytest.Item]) -> None:
    tests = {item.nodeid for item in items}
    functions, files = set(map(function_of, tests)), {test.split("::", 1)[0] for test in tests}

    known = [name for name in read_costs() if name.removeprefix("~").split("::", 1)[0] in files]
    assert [name for name in known if name not in tests and name.removeprefix("~") not in functions] == []


def test_durations_are_those_of_all_phases_of_a_test() -> None:
    log = ["1.50s setup    tests/a.py::test_b[x y]", "2.50s call     tests/a.py::test_b[x y]", "...  [ 5%]"]
    found = read_durations([*log, "0.50s call     tests/a.py::test_c", "2.00s call     tests/a.py::test_b[z]"])

    assert found == {"tests/a.py::test_b[x y]": 4.0, "tests/a.py::test_b[z]": 2.0, "tests/a.py::test_c": 0.5}
    assert as_text(found) == "4.0 tests/a.py::test_b[x y]\n2.0 tests/a.py::test_b[z]\n"


def test_a_test_that_nobody_has_measured_costs_little_unless_it_is_chaos() -> None:
    believed = next(name for name in read_costs() if name.startswith("~"))

    assert cost_of("tests/new.py::test_new") < 1 < cost_of("tests/new.py::test_new", chaos=True)
    assert cost_of(f"{believed[1:]}[new]") < cost_of(f"{believed[1:]}[new]", chaos=True) == read_costs()[believed]


def test_the_line_says_how_far_it_is_by_what_tests_cost() -> None:
    screen = StringIO()
    progress = Progress(screen.write, terminal=False, now=1000.0)
    long = max(read_costs(), key=lambda name: read_costs()[name])
    progress.expect([long, *(f"tests/new.py::test_{number}" for number in range(10))])
    progress.count("tests/new.py::test_0", failed=False)
    assert progress.line(1003.0) == "  0%  1 of 11 tests  0 min 03 s"

    progress.count(long, failed=True)
    line = progress.line(1100.0)
    assert "2 of 11 tests, 1 FAILED  1 min 40 s, about 0 min 0" in line
    progress.show(1100.0)
    assert screen.getvalue() == f"{line}\n"
    # In a log half a minute goes by until the next.
    progress.show(1110.0)
    assert screen.getvalue().count("\n") == 1
