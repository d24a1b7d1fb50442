"""What only Spark Connect does: the rest of `make test-connect` are the tests of the other rooms, on a server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.runs.runner import BatchProgress, processing_time, run_stage, run_stages
from surestart.spark.session import is_connect, stream_session
from tests.foundation.rows import account, land, run_all

pytestmark = [
    pytest.mark.connect,
    pytest.mark.skipif(not os.environ.get("SPARK_REMOTE"), reason="no SPARK_REMOTE: run by make test-connect"),
]


def test_the_tests_here_do_run_through_connect(spark: Any) -> None:
    assert is_connect(spark)
    # One client or the other: they own the same files.
    assert _is_installed("databricks-connect") != _is_installed("pyspark")


def test_the_three_stages_are_exact_in_turn_and_over_two_runs(spark: Any, environment: Environment) -> None:
    for _ in range(2):
        land(environment, 300, per_file=100)
        run_all(spark, environment, max_files_per_trigger="1")
    assert account(environment).is_exact


def test_side_by_side_each_stream_has_a_session_and_every_row_is_there_once(
    spark: Any, environment: Environment
) -> None:
    land(environment, 300, per_file=50)
    rows: Counter[str] = Counter()

    def until_all(progress: BatchProgress) -> None:
        rows[progress.stage] += progress.rows
        if account_is_exact(environment):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_stages(
            spark,
            environment,
            build_stages({"max_files_per_trigger": "1"}),
            trigger=processing_time("1 seconds"),
            on_progress=until_all,
        )

    assert account(environment).is_exact
    assert rows["raw-ingest"] == 300


def account_is_exact(environment: Environment) -> bool:
    try:
        return account(environment).is_exact
    except FileNotFoundError:
        return False


def test_a_query_whose_driver_was_killed_goes_on_and_a_new_start_leaves_it_alone(
    spark: Any, environment: Environment
) -> None:
    land(environment, 40)
    checkpoint = Path(environment.checkpoint("raw-ingest"))
    command = [sys.executable, "-m", "surestart", "run", "raw-ingest", "--root", environment.root]
    driver = subprocess.Popen([*command, "--trigger", "1 seconds"], stderr=subprocess.DEVNULL)
    try:
        wait_for(checkpoint / "commits" / "0", driver)
    finally:
        driver.kill()
        driver.wait()

    with pytest.raises(Refused) as refused:
        run_stage(spark, environment, build_stages({})[0])
    assert refused.value.code == "QUERY_ACTIVE"
    # It is left as it was: what lands now, it writes, once.
    land(environment, 10)
    wait_for(checkpoint / "commits" / "1")
    counted = account(environment)
    assert (counted.raw, {fault for fault in counted.faults if fault.startswith("raw")}) == (50, set())


def wait_for(path: Path, driver: subprocess.Popen[bytes] | None = None) -> None:
    until = time.monotonic() + 90
    while not path.exists():
        assert time.monotonic() < until, f"{path.parent.name}/{path.name} never came"
        assert driver is None or driver.poll() is None, "the driver ended"
        # A server and another process are at work; their files are all that tells.
        time.sleep(0.1)


def test_two_streams_have_two_sessions(spark: Any) -> None:
    key = "spark.databricks.delta.write.txnVersion"
    with stream_session(spark) as one, stream_session(spark) as other:
        assert len({spark.session_id, one.session_id, other.session_id}) == 3
        one.conf.set(key, "7")
        assert other.conf.get(key, None) is None
        assert spark.conf.get(key, None) is None


def _is_installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
