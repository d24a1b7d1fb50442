"""A history of many runs gives the same answers: a run that lies far behind in it is the query's last all the same."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused
from surestart.history.claim_row import TABLE as CLAIMS
from surestart.history.claim_row import read_claim_rows
from surestart.history.describe_run import describe_run
from surestart.history.run_table import COMMITS, append_runs, read_deciding_runs, read_runs
from surestart.runs.find_owner import OWNER_RUNNING
from surestart.runs.runner import run_stage
from surestart.runs.start_gate import open_gate
from tests.gate.crowd import crowd, log_of

RAW = build_stages({})[0]
SCHEMA = "many_runs"
MORE = COMMITS + 50


def land(environment: Environment, readings: int) -> None:
    write_files(Path(environment.landing), Path(environment.landing).with_name("truth.json"), readings)


@pytest.fixture
def cataloged(spark: Any, tmp_path: Path, classic_only: None) -> Iterator[Environment]:
    given = {"catalog": "spark_catalog", "schema": SCHEMA, "landing": str(tmp_path / "landing")}
    environment = environment_from_settings(
        "local", "sensor", {**given, "checkpoint_root": str(tmp_path / "checkpoints")}, environ={}
    )
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    yield environment
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def refused(spark: Any, environment: Environment) -> str:
    with pytest.raises(Refused) as no:
        open_gate(spark, environment, RAW)
    return no.value.code


@pytest.mark.long(instead="test_on_a_root_of_this_machine")
def test_in_a_catalog(spark: Any, cataloged: Environment) -> None:
    land(cataloged, 20)
    run_stage(spark, cataloged, RAW)
    newest = crowd(spark, cataloged, RAW, MORE)
    history = cataloged.table("surestart_runs").sql
    assert spark.sql(f"DESCRIBE HISTORY {history} LIMIT 1").collect()[0]["version"] == newest

    # A job that was paused for so long starts again, and is the query's owner while it runs.
    live = open_gate(spark, cataloged, RAW)
    assert live.record.epoch == 2
    crowd(spark, cataloged, RAW, MORE)
    assert refused(spark, cataloged) == OWNER_RUNNING
    live.ended("stopped", "test")

    # As an earlier version left it: claims stood in the history, and no table of claims was there.
    live_then = replace(describe_run(spark, cataloged, RAW), epoch=3)
    append_runs(spark, cataloged, (live_then,))
    spark.sql(f"DROP TABLE {cataloged.table(CLAIMS).sql}")
    crowd(spark, cataloged, RAW, MORE)
    assert refused(spark, cataloged) == OWNER_RUNNING
    append_runs(spark, cataloged, (replace(live_then, event="ended", outcome="finished"),))
    spark.sql(f"DROP TABLE {cataloged.table(CLAIMS).sql}")
    crowd(spark, cataloged, RAW, MORE)
    open_gate(spark, cataloged, RAW).ended("stopped", "test")
    own = [run for run in read_runs(cataloged, spark) if run.query == "sensor-raw-ingest"]
    assert max(run.epoch or 0 for run in own) == 4

    shutil.rmtree(cataloged.checkpoint("raw-ingest"))
    assert refused(spark, cataloged) == "CHECKPOINT_DELETED"


def test_on_a_root_of_this_machine(spark: Any, stood: Environment) -> None:
    crowd(spark, stood, RAW, MORE)
    open_gate(spark, stood, RAW).ended("finished")
    shutil.rmtree(stood.checkpoint("raw-ingest"))
    assert refused(spark, stood) == "CHECKPOINT_DELETED"


@pytest.mark.long(instead="gate/test_start_gate.py::test_of_two_claims_by_row_exactly_one_owns_the_query")
def test_the_table_of_claims_stays_small(spark: Any, cataloged: Environment) -> None:
    """Its rows, and its log: Delta removes what is older than a day when it makes a checkpoint."""
    base = replace(describe_run(spark, cataloged, RAW), event="ended", outcome="finished", query_id="a", last_batch=0)
    for number in range(16):
        if number == 9:
            log, old = log_of(spark, cataloged.table(CLAIMS)), time.time() - 3 * 24 * 3600
            for commit in log.glob("*.json"):
                os.utime(commit, (old, old))
        append_runs(spark, cataloged, (replace(base, run_id=f"r{number}", started_at=number, last_batch=number),))
    assert len(read_claim_rows(cataloged, spark)) < 16
    assert f"{0:020d}.json" not in {entry.name for entry in log.iterdir()}
    runs = read_deciding_runs(cataloged, spark, base.query, base.place)
    assert (runs[-1].run_id, runs[-1].last_batch) == ("r15", 15)
