"""How many Spark tasks a tiny batch costs, from the event log: a bar that no busy machine moves; and which
batches Spark compiles.

With Delta's defaults a tiny append costs 55 tasks and a tiny MERGE 113; the settings and the sinks keep it far below.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.event_log import BatchTasks, event_log_confs, read_batch_tasks

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.runs.runner import run_stage
from surestart.sinks.delta import append as delta_append
from surestart.spark.session import applied
from tests.conftest import AS_USERS_HAVE_IT
from tests.foundation.rows import account, land

MODE = "spark.sql.codegen.factoryMode"
STAGES = ("raw-ingest", "deserialize")
# What reaches a session; here is what it is good for.
SETTINGS = "foundation/test_session.py::test_a_local_session_has_this_python_and_the_heap_of_the_settings"


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


@dataclass(frozen=True)
class Ran:
    """compiled: of each append, its stage, its batch and whether Spark compiled its plan."""

    environment: Environment
    tasks: list[BatchTasks]
    compiled: list[tuple[str, int, bool]]


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run of 2,000 records in one batch, then one of twice ten, each a batch of its own."""
    root = tmp_path_factory.mktemp("tasks")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    compiled: list[tuple[str, int, bool]] = []
    append_once = delta_append.append_once

    def noting(rows: Any, table: Any, context: Any, query_id: str, batch_id: int, step: str = "") -> None:
        compiled.append((context.stage, batch_id, rows.sparkSession.conf.get(MODE) != "NO_CODEGEN"))
        append_once(rows, table, context, query_id, batch_id, step)

    with pytest.MonkeyPatch.context() as patch, event_log(spark, root / "events"), applied(spark, AS_USERS_HAVE_IT):
        patch.setattr(delta_append, "append_once", noting)
        patch.setattr("surestart.sinks.delta.split.append_once", noting)
        for readings, per_file in ((2000, 2000), (20, 10)):
            land(environment, readings, per_file=per_file)
            for stage in build_stages({"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"}):
                run_stage(spark, environment, stage)
    return Ran(environment, read_batch_tasks(root / "events"), compiled)


@pytest.mark.long(instead=SETTINGS)
@pytest.mark.parametrize(("stage", "most"), [("raw-ingest", 6), ("merge-gold", 22)])
def test_a_tiny_batch_costs_few_tasks(ran: Ran, stage: str, most: int) -> None:
    query_id = read_checkpoint(ran.environment.checkpoint(stage)).query_id

    tiny = [batch for batch in ran.tasks if batch.query_id == query_id and batch.batch > 0]

    assert [batch.batch for batch in tiny] == [1, 2]
    assert {batch.batch: batch.tasks for batch in tiny if batch.tasks > most} == {}, [batch.job_names for batch in tiny]


@pytest.mark.long(instead=SETTINGS)
def test_each_run_compiles_its_first_small_batch_only(ran: Ran) -> None:
    found = {stage: {(batch, compiled) for name, batch, compiled in ran.compiled if name == stage} for stage in STAGES}

    assert found == {stage: {(0, True), (1, True), (2, False)} for stage in STAGES}
    assert account(ran.environment).faults == {}
