"""How many Spark tasks a tiny batch costs, from the event log: a bar that no busy machine moves.

With Delta's defaults a tiny append costs 55 tasks and a tiny MERGE 113; the settings and the sinks keep it far below.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.event_log import BatchTasks, read_batch_tasks

from surestart.checkpoint.snapshot import read_checkpoint
from surestart.environment import Environment, environment_from_settings
from tests.foundation.rows import land

PROGRAM = """
import sys
from pathlib import Path
from benchmarks.event_log import event_log_confs
from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.runner import run_stage
from surestart.session import local_session
from tests.foundation.rows import land

root = sys.argv[1]
environment = environment_from_settings("local", "sensor", {"root": root}, environ={})
spark = local_session("tasks", confs=event_log_confs(Path(root) / "events"))
for _ in range(3):
    for stage in build_stages({"max_files_per_trigger": "1"}):
        run_stage(spark, environment, stage)
    land(environment, 10)
spark.stop()
"""


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, list[BatchTasks]]:
    """2,000 records, then twice ten more, each a batch of its own."""
    root = tmp_path_factory.mktemp("tasks")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, 2000, per_file=2000)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root)],
        cwd=Path(__file__).parents[2],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return environment, read_batch_tasks(root / "events")


@pytest.mark.parametrize(("stage", "most"), [("raw-ingest", 6), ("merge-gold", 22)])
def test_a_tiny_batch_costs_few_tasks(batches: tuple[Environment, list[BatchTasks]], stage: str, most: int) -> None:
    environment, measured = batches
    query_id = read_checkpoint(environment.checkpoint(stage)).query_id

    tiny = [batch for batch in measured if batch.query_id == query_id and batch.batch > 0]

    assert [batch.batch for batch in tiny] == [1, 2]
    assert {batch.batch: batch.tasks for batch in tiny if batch.tasks > most} == {}, [batch.job_names for batch in tiny]
