"""Several stages in one process: the first that dies is noticed and named at once, and the others end in order."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli import main as cli
from surestart.environment import Environment
from surestart.errors import EXIT_HALFWAY, EXIT_REFUSED, Refused
from surestart.history.claim_file import claims_folder
from surestart.history.run_record import FAILED, STOPPED
from surestart.history.run_table import read_runs
from surestart.runs.runner import BatchProgress, StageFailed, processing_time, run_stages
from surestart.stage import Stage
from tests.foundation.rows import account, land, run_all

# What is watched here never ends by itself.
pytestmark = pytest.mark.timeout(150)
EVERY_SECOND = processing_time("1 seconds")


def active(spark: Any) -> list[str]:
    """Names of the queries that run in this session."""
    return sorted(str(query.name) for query in spark.streams.active)


def ended(environment: Environment) -> dict[str, tuple[str, str]]:
    return {run.stage: (run.outcome, run.error) for run in read_runs(environment)}


def no_claims(environment: Environment) -> bool:
    folder = claims_folder(environment)
    return folder is not None and list(folder.iterdir()) == []


def failing(rows: Any) -> Any:
    from pyspark.sql import functions as F

    return rows.withColumn("payload", F.raise_error(F.lit("the sensor is on fire")).cast("binary"))


def break_stage(number: int) -> list[Stage]:
    stages = list(build_stages({}))
    whole = stages[number].transform
    stages[number] = replace(stages[number], transform=lambda rows: whole(failing(rows)))
    return stages


def test_a_stage_that_dies_is_named_and_the_others_end_with_it(spark: Any, environment: Environment) -> None:
    land(environment, 40)

    with pytest.raises(StageFailed) as failed:
        run_stages(spark, environment, break_stage(1), trigger=EVERY_SECOND)

    assert "deserialize" in failed.value.what
    assert "The other stages of this process were stopped: raw-ingest (" in failed.value.meaning
    assert active(spark) == []
    assert no_claims(environment)
    outcomes = ended(environment)
    assert outcomes["deserialize"] == (FAILED, failed.value.code)
    assert outcomes["raw-ingest"] == (STOPPED, f"{failed.value.code} of deserialize")
    # What was stopped goes on where it was, and loses nothing.
    run_all(spark, environment)
    assert account(environment).is_exact


@pytest.mark.chaos
def test_interrupted_they_all_end_and_every_row_is_there_once(spark: Any, environment: Environment) -> None:
    land(environment, 40)

    def until_gold(progress: BatchProgress) -> None:
        if progress.stage == "merge-gold":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_stages(spark, environment, build_stages({}), trigger=EVERY_SECOND, on_progress=until_gold)

    assert active(spark) == []
    assert no_claims(environment)
    assert {outcome for outcome, _ in ended(environment).values()} == {STOPPED}
    run_all(spark, environment)
    assert account(environment).is_exact


@pytest.mark.usefixtures("classic_only")
def test_a_query_that_somebody_stops_is_noticed_at_once(spark: Any, environment: Environment) -> None:
    land(environment, 40)
    stopped_at = 0.0

    def stop_raw(progress: BatchProgress) -> None:
        nonlocal stopped_at
        if progress.stage == "deserialize" and not stopped_at:
            for query in spark.streams.active:
                if query.name == "sensor-raw-ingest":
                    query.stop()
            stopped_at = time.monotonic()

    with pytest.raises(StageFailed) as failed:
        run_stages(spark, environment, build_stages({}), trigger=EVERY_SECOND, on_progress=stop_raw)

    assert time.monotonic() - stopped_at < 5
    assert failed.value.code == "QueryStopped"
    assert "sensor-raw-ingest was stopped from outside" in failed.value.what
    assert failed.value.exit_code == EXIT_HALFWAY
    assert active(spark) == []


@pytest.mark.chaos
def test_a_stage_that_is_refused_stops_the_ones_before_it(
    spark: Any, environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    land(environment, 40)
    run_all(spark, environment)
    # Somebody deletes gold's checkpoint and keeps the table.
    shutil.rmtree(Path(environment.checkpoint("merge-gold")))

    with pytest.raises(Refused) as refused:
        run_stages(spark, environment, build_stages({}), trigger=EVERY_SECOND)
    assert (refused.value.code, refused.value.exit_code) == ("CHECKPOINT_DELETED", EXIT_REFUSED)
    assert "merge-gold" in refused.value.what
    assert "were stopped: raw-ingest (no batch), deserialize (no batch)" in refused.value.meaning
    assert active(spark) == []

    # The same through the command line, as a job calls it: the exit code, and nothing but JSON on stderr.
    capsys.readouterr()
    command = ["run", "all", "--root", environment.root, "--trigger", "1 seconds", "--log", "json"]
    assert cli.main(command) == EXIT_REFUSED
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.err.splitlines()]
    assert [line["event"] for line in lines].count("error") == 1
    assert (lines[-1]["event"], lines[-1]["code"], lines[-1]["exit_code"]) == ("error", "CHECKPOINT_DELETED", 3)
    assert said.out == ""
    assert active(spark) == []
