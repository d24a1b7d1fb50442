"""Two real drivers, each with its own JVM, start one query at any offset: one runs, and every row is there once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from surestart.environment import Environment, environment_from_settings
from surestart.history.run_table import read_runs
from tests.foundation.rows import account, land

ROWS = 30
Driver = subprocess.Popen[str]


@pytest.fixture(scope="module")
def drivers() -> Iterator[tuple[Driver, Driver]]:
    command = [sys.executable, "-m", "tests.gate.racing_driver"]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(2)
    ]
    try:
        for driver in started:
            assert answer(driver) == {}
        yield started[0], started[1]
    finally:
        for driver in started:
            driver.kill()
            driver.wait()


def answer(driver: Driver) -> dict[str, object]:
    assert driver.stdout is not None
    return dict(json.loads(driver.stdout.readline()))


def race(drivers: tuple[Driver, Driver], environment: Environment, offset_ms: int) -> list[dict[str, object]]:
    at = time.time_ns() + 700_000_000
    for driver, when in zip(drivers, (at, at + offset_ms * 1_000_000), strict=True):
        assert driver.stdin is not None
        driver.stdin.write(json.dumps({"root": environment.root, "at": when}) + "\n")
        driver.stdin.flush()
    return [answer(driver) for driver in drivers]


def judge(environment: Environment, answers: list[dict[str, object]]) -> None:
    assert sorted(answers, key=str) == [{"refused": "OWNER_RUNNING"}, {"rows": ROWS}]
    counted = account(environment)
    assert (counted.raw, {fault for fault in counted.faults if fault.startswith("raw")}) == (ROWS, set())
    assert [run.rows for run in read_runs(environment)] == [ROWS]


@pytest.mark.long(instead="gate/test_claim_file.py::test_of_two_starts_exactly_one_runs")
@pytest.mark.parametrize("offset", [0])
def test_of_two_drivers_exactly_one_runs(drivers: tuple[Driver, Driver], environment: Environment, offset: int) -> None:
    land(environment, ROWS)
    judge(environment, race(drivers, environment, offset))


@pytest.mark.chaos
@pytest.mark.parametrize("offset", range(-500, 501, 20))
def test_of_two_drivers_at_any_offset_exactly_one_runs(
    drivers: tuple[Driver, Driver], tmp_path: Path, offset: int
) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path / "root")}, environ={})
    land(environment, ROWS)
    judge(environment, race(drivers, environment, offset))
