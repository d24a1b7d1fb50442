"""How many Spark tasks a tiny batch costs, from the event log: a bar that no busy machine moves.

With Delta's defaults a tiny append costs 55 tasks and a tiny MERGE 113; the settings and the sinks keep it far below.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.event_log import BatchTasks, event_log_confs, read_batch_tasks

from sensor_pipeline.stages import build_stages
from surestart.checkpoint.snapshot import read_checkpoint
from surestart.environment import Environment, environment_from_settings
from surestart.runner import run_stage
from surestart.session import applied
from tests.foundation.rows import land

# What the session of the tests has and a user's has not.
AS_USERS_HAVE_IT = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


@contextmanager
def event_log(spark: Any, folder: Path) -> Iterator[None]:
    """The session writes its events into the folder: as with spark.eventLog.enabled, for as long as this lasts."""
    context, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
    conf = context.getConf()
    for key, value in event_log_confs(folder).items():
        conf.set(key, value)
    place = jvm.java.net.URI.create(folder.as_uri())
    log = jvm.org.apache.spark.scheduler.EventLoggingListener("tasks", jvm.scala.Option.empty(), place, conf)
    log.start()
    context.addSparkListener(log)
    try:
        yield
        context.listenerBus().waitUntilEmpty()
    finally:
        context.removeSparkListener(log)
        log.stop()


@pytest.fixture(scope="module")
def batches(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, list[BatchTasks]]:
    """2,000 records, then twice ten more, each a batch of its own."""
    root = tmp_path_factory.mktemp("tasks")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    with event_log(spark, root / "events"), applied(spark, AS_USERS_HAVE_IT):
        for readings in (2000, 10, 10):
            land(environment, readings, per_file=2000)
            for stage in build_stages({"max_files_per_trigger": "1"}):
                run_stage(spark, environment, stage)
    return environment, read_batch_tasks(root / "events")


@pytest.mark.parametrize(("stage", "most"), [("raw-ingest", 6), ("merge-gold", 22)])
def test_a_tiny_batch_costs_few_tasks(batches: tuple[Environment, list[BatchTasks]], stage: str, most: int) -> None:
    environment, measured = batches
    query_id = read_checkpoint(environment.checkpoint(stage)).query_id

    tiny = [batch for batch in measured if batch.query_id == query_id and batch.batch > 0]

    assert [batch.batch for batch in tiny] == [1, 2]
    assert {batch.batch: batch.tasks for batch in tiny if batch.tasks > most} == {}, [batch.job_names for batch in tiny]
