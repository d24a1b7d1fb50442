"""SIGSTOP, a remedy, SIGCONT: the woken driver writes nothing under the identity that the stage has by then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.history.describe_run import is_paused
from surestart.runs.find_owner import OWNER_PAUSED
from surestart.runs.runner import run_stage
from tests.foundation.rows import account, land, run_all
from tests.gate.held_driver import FEW
from tests.remedies.remedy import apply, reset

CODE = "RunReplaced"


@contextmanager
def paused(root: Path, module: str, names: Sequence[str], *words: str) -> Iterator[Any]:
    """A driver that is stopped by a signal in a batch of each of these stages. The block gets a function that wakes it
    and returns how its runs ended."""
    command = [sys.executable, "-m", module, str(root), *words]
    log = (root / "driver.log").open("w+")
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    held = root / "held"
    try:
        try:
            until(lambda: all((held / name).exists() for name in names) or driver.poll() is not None)
        except AssertionError:
            came = sorted(path.name for path in held.glob("*"))
            pytest.fail(f"only {came} came:\n{(root / 'driver.log').read_text()[-3000:]}")
        if driver.poll() is not None:
            pytest.fail(f"it ended with {driver.communicate()[0]}\n{(root / 'driver.log').read_text()[-3000:]}")
        os.killpg(driver.pid, signal.SIGSTOP)
        until(lambda: is_paused(driver.pid))

        def wake() -> Mapping[str, Mapping[str, str]]:
            (held / "go").touch()
            os.killpg(driver.pid, signal.SIGCONT)
            said, _ = driver.communicate(timeout=120)
            assert said, (root / "driver.log").read_text()[-3000:]
            return dict(json.loads(said.splitlines()[-1]))

        yield wake
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        log.close()


def until(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never came"
        # Another process is waited for, by its files: asking without a pause takes the core that it needs.
        time.sleep(0.02)


def assert_stopped(ended: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> None:
    assert {name: one["code"] for name, one in ended.items()} == dict.fromkeys(names, CODE), ended
    for one in ended.values():
        assert [line.split(":")[0] for line in one["text"].splitlines()[1:]] == ["Meaning", "Next", "Do not"]


@pytest.mark.chaos
@pytest.mark.usefixtures("classic_only")
def test_a_driver_that_wakes_after_a_reset_writes_nothing_and_says_why(spark: Any, environment: Environment) -> None:
    """An append, a split and a merge, each in the middle of a batch that the new identity has not used yet."""
    raw, deserialize, gold = build_stages(FEW)
    for stages in ((raw, deserialize, gold), (raw, deserialize), (raw,), ()):
        land(environment, 10, per_file=10)
        for stage in stages:
            run_stage(spark, environment, stage)
    waiting = {"raw-ingest": 3, "deserialize": 2, "merge-gold": 1}
    words = [f"{name}={batch}" for name, batch in waiting.items()]
    with paused(Path(environment.root), "tests.gate.held_driver", list(waiting), *words) as wake:
        for stage in (raw, deserialize, gold):
            run_stage(spark, environment, stage, accept=(OWNER_PAUSED,))
        assert account(environment).is_exact
        apply(spark, environment, reset(spark, environment, "raw-ingest"))
        # One batch each, number 0: those that the driver waits in are free.
        run_all(spark, environment, max_files_per_trigger="100")
        assert account(environment).is_exact

        ended = wake()

    assert_stopped(ended, list(waiting))
    assert account(environment).is_exact
    # Had it used a pair of the new identity, the batch of that number would be dropped here.
    for _ in range(3):
        land(environment, 10, per_file=10)
        run_all(spark, environment, **FEW)
    assert account(environment).is_exact
