"""A part of `make test-serverless` in `make test-all`: the client is refused, and a MERGE is killed before its pair."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = "tests/serverless"
PART = (
    f"{HERE}/test_refusals.py::test_the_client_is_refused",
    f"{HERE}/test_stages.py::test_a_worker_killed_in_mid_batch_leaves_nothing_lost_or_doubled[merge.before_pair:1]",
)


@pytest.mark.long(instead="test_house.py::test_classic_only_spark_calls_stay_in_one_module")
def test_a_part_of_the_twins_tests_passes() -> None:
    command = [sys.executable, "-m", "tests.connect.with_server", "--twin", sys.executable, "-m", "pytest", "-q"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-m", "serverless", *PART],
        cwd=Path(__file__).parents[2],
        env=alone,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 passed" in done.stdout
