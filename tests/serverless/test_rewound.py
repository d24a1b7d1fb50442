"""A table that is ahead of its checkpoint, on the twin: the pair that follows the MERGE is known already."""

from __future__ import annotations

from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.runs.runner import run_ungated
from surestart.runs.stage_failures import StageFailed
from tests.foundation.rows import land, run_all, whole_rows
from tests.foundation.test_rewound import rewind
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]


def test_a_batch_that_gold_has_under_another_plan_stops_the_stage(spark: Any, environment: Environment) -> None:
    one_by_one = {"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"}
    land(environment, 60, per_file=20)
    run_all(spark, environment, **one_by_one)
    rewind(environment, "merge-gold")
    before = whole_rows(spark, environment)["sensor_gold"]

    with pytest.raises(StageFailed) as stopped:
        run_ungated(spark, environment, build_stages(one_by_one)[2])

    assert stopped.value.code == "SkippedBatch"
    assert "batch 1 of sensor-merge-gold" in stopped.value.what
    assert whole_rows(spark, environment)["sensor_gold"] == before
