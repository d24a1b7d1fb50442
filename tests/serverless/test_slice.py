"""Of `make test-serverless` in `make test`: what a client is refused, and what surestart makes of it, without a server;
in `make test-all`, with one: a MERGE is killed before its pair."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connect.with_server import client_variables
from tests.serverless import twin
from tests.serverless.test_refusals import KEY, REFUSED

HERE = "tests/serverless"
PART = (
    f"{HERE}/test_refusals.py::test_the_client_is_refused",
    f"{HERE}/test_stages.py::test_a_worker_killed_in_mid_batch_leaves_nothing_lost_or_doubled[merge.before_pair:1]",
)


def test_the_client_is_refused_and_surestart_goes_on_without(tmp_path: Path) -> None:
    # What a server's address in the environment would make of the session, none may.
    variables = client_variables(tmp_path, "", as_twin=True)
    del variables["SPARK_REMOTE"]
    variables["SPARK_CONNECT_MODE_ENABLED"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.serverless.without_server"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    triggers = dict.fromkeys(("trigger", "start"), twin.NOT_WITHOUT_END)
    assert said["refused"] == {**{what: REFUSED[what] for what in said["refused"] if what not in triggers}, **triggers}
    assert said["made of it"] == {
        "left as they are": [KEY],
        "read": None,
        "rows are kept": False,
        "a MERGE carries its pair": False,
    }


@pytest.mark.long(instead="test_the_client_is_refused_and_surestart_goes_on_without")
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
