"""An owner stopped by SIGSTOP in mid-batch, taken over, and woken up afterwards writes nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.history.claim_file import claims_folder, read_claim
from surestart.history.describe_run import is_paused
from surestart.history.run_table import read_runs
from surestart.runs.find_owner import OWNER_PAUSED
from surestart.runs.runner import run_stage
from tests.foundation.rows import account, land
from tests.gate.tree_bytes import bytes_of

RAW = build_stages({"max_files_per_trigger": "1"})[0]
FILES = 4


def until(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never came"
        # Another process is waited for, by its files: asking without a pause takes the core that it needs.
        time.sleep(0.005)


def pause_and_take_over(spark: Any, environment: Environment, delay: float) -> None:
    land(environment, FILES * 10, per_file=10)
    checkpoint = Path(environment.checkpoint("raw-ingest"))
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.foundation.drive", environment.root, "raw-ingest", "1"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: (checkpoint / "offsets" / "1").exists() or driver.poll() is not None)
        # Where in the batch it is caught shall differ from run to run.
        caught = time.monotonic() + delay
        until(lambda: time.monotonic() >= caught)
        os.killpg(driver.pid, signal.SIGSTOP)
        until(lambda: is_paused(driver.pid))
        assert not (checkpoint / "commits" / str(FILES - 1)).exists(), "it had ended before it was paused"

        before = bytes_of(environment)
        with pytest.raises(CannotTell) as held:
            run_stage(spark, environment, RAW)
        assert bytes_of(environment) == before
        assert held.value.code == OWNER_PAUSED
        assert f"process {driver.pid}" in held.value.what

        run_stage(spark, environment, RAW, accept=(OWNER_PAUSED,))
        assert raw_faults(environment) == set()
    finally:
        os.killpg(driver.pid, signal.SIGCONT)
        try:
            driver.wait(timeout=120)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()

    assert raw_faults(environment) == set()
    # Nor has it spoilt what the next start goes by.
    land(environment, 10)
    run_stage(spark, environment, RAW)
    assert raw_faults(environment) == set()
    took_over = [run for run in read_runs(environment) if run.taken_over]
    assert f"process {driver.pid}" in took_over[0].taken_over
    assert took_over[0].accepted == (OWNER_PAUSED,)
    folder = claims_folder(environment)
    assert folder is not None
    assert read_claim(folder / "sensor-raw-ingest.lock").record is None


def raw_faults(environment: Environment) -> set[str]:
    counted = account(environment)
    assert counted.raw > 0
    return {fault for fault in counted.faults if fault.startswith("raw")}


@pytest.mark.long(
    instead="gate/test_claim_file.py::test_the_claim_of_a_paused_owner_is_seized_once_and_stays_seized_when_it_wakes"
)
def test_a_paused_owner_that_wakes_after_a_takeover_writes_nothing_twice(spark: Any, environment: Environment) -> None:
    pause_and_take_over(spark, environment, delay=0.0)


@pytest.mark.chaos
@pytest.mark.parametrize("number", range(20))
def test_wherever_it_was_paused(spark: Any, environment: Environment, number: int) -> None:
    pause_and_take_over(spark, environment, delay=number * 0.04)
