"""A run whose checkpoint is another's by now stops: inside a batch before it is written, and between two batches.

The same on Spark Connect, where the function of a batch is pickled and runs on the server (make test-connect).
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.history.claim_file import take_claim
from surestart.history.run_record import RunRecord
from surestart.runs.runner import run_stage
from surestart.runs.running_query import processing_time, start_query
from surestart.runs.stage_failures import StageFailed
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from tests.foundation.rows import land
from tests.gate.held_driver import HeldBack
from tests.gate.test_woken_driver import CODE, until

STAGES = build_stages({})
RAW = STAGES[0]
OTHER = "5f6c1c0e-0000-4000-8000-000000000000"


def put_another_in_its_place(environment: Environment, stage: str = "raw-ingest") -> None:
    checkpoint = Path(environment.checkpoint(stage))
    checkpoint.rename(checkpoint.with_name("aside"))
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(f'{{"id":"{OTHER}"}}')


BESIDE = pytest.mark.long(instead="test_in_the_first_batch_of_a_new_checkpoint")


@pytest.mark.parametrize(
    ("before", "table"),
    [
        pytest.param(0, "sensor_raw", id="sensor_raw"),
        pytest.param(1, "sensor_readings_deserialized", marks=BESIDE),
        pytest.param(2, "sensor_gold", marks=BESIDE),
    ],
)
def test_in_the_first_batch_of_a_new_checkpoint(
    spark: Any, environment: Environment, tmp_path: Path, before: int, table: str
) -> None:
    """An append, a split and a merge. Nobody knew the id when the function of a batch was made: it is asked of
    Spark."""
    land(environment, 10)
    for one in STAGES[:before]:
        run_stage(spark, environment, one)
    stage = STAGES[before]
    reached = tmp_path / "reached"
    with applied(spark, pairs(EVERYWHERE)):
        running = start_query(spark, environment, replace(stage, sink=HeldBack(stage.sink, reached, 0)))
        try:
            until(reached.exists)
            put_another_in_its_place(environment, stage.name)
            reached.with_name("go").touch()
            # Not by `poll`, which would see it too: the batch itself has to stop.
            until(lambda: not running.query.isActive)
            with pytest.raises(StageFailed) as stopped:
                running.poll(0.1)
        finally:
            running.stop()
    assert stopped.value.code == CODE
    assert "Nothing of batch 0 was written" in stopped.value.meaning
    assert OTHER in stopped.value.what
    assert str(stopped.value.next).startswith(f"surestart history {stage.name} -e local --root ")
    assert spark.read.format("delta").load(environment.table(table).path).count() == 0


@pytest.mark.usefixtures("classic_only")
@pytest.mark.parametrize("owner", [RunRecord(run_id="another", query="q"), None], ids=["another's", "given up"])
def test_in_a_batch_while_the_claim_is_not_its_own(
    spark: Any, environment: Environment, tmp_path: Path, owner: RunRecord | None
) -> None:
    """As in the middle of a remedy: the table is cleared, and the checkpoint not yet moved aside."""
    land(environment, 10)
    claim = take_claim(tmp_path / "q.lock")
    assert claim is not None
    claim.write(owner)
    with applied(spark, pairs(EVERYWHERE)):
        running = start_query(spark, environment, RAW, claim=(str(claim.path), "mine"))
        until(lambda: not running.query.isActive)
        with pytest.raises(StageFailed) as stopped:
            running.poll(0.1)
    claim.release(clear=True)
    assert stopped.value.code == CODE
    assert "Nothing of batch 0 was written" in stopped.value.meaning
    assert ("is that of run another" if owner else "is given up") in stopped.value.what


def test_between_two_batches(spark: Any, environment: Environment) -> None:
    land(environment, 10)
    with applied(spark, pairs(EVERYWHERE)):
        running = start_query(spark, environment, RAW, trigger=processing_time("1 hours"))
        try:
            deadline = time.monotonic() + 60
            while running.result().batches == 0 and time.monotonic() < deadline:
                assert running.poll(0.1) is False
            put_another_in_its_place(environment)
            with pytest.raises(StageFailed) as stopped:
                running.poll(0.1)
        finally:
            running.stop()
    assert stopped.value.code == CODE
    assert "It wrote nothing more." in stopped.value.meaning
