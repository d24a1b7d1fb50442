"""A hole is filled once, under its own identity; a retired query leaves its tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.remedies.apply import ALREADY
from surestart.remedies.plan_backfill import Between, Range, plan_backfill
from surestart.remedies.plan_retire import plan_retire
from surestart.runner import run_stage
from tests.remedies.remedy import apply, assert_exact, chain_of, contents, request, undo


@pytest.mark.chaos
def test_a_hole_in_raw_is_filled_once_and_the_stages_below_take_it_up(spark: Any, stood: Environment) -> None:
    """As after somebody has run a DELETE on all tables, which the streams were told to pass over."""
    files = sorted(Path(stood.landing).iterdir())
    for name in ("sensor_raw", "sensor_readings_deserialized", "sensor_quarantine", "sensor_gold"):
        spark.sql(
            f"DELETE FROM {stood.table(name).sql} WHERE source LIKE '%{files[1].name}' AND offset BETWEEN 2 AND 5"
        )
    # The streams below have to be beyond the DELETE: begun anew behind it.
    for stage in ("deserialize", "merge-gold"):
        shutil.rmtree(stood.checkpoint(stage))
    from surestart.remedies.plan_replay import From
    from tests.remedies.remedy import replay

    apply(spark, stood, replay(spark, stood, "deserialize", From()))
    for link in chain_of(stood).links[1:]:
        run_stage(spark, stood, link.stage)

    none = plan_backfill(
        spark, stood, chain_of(stood), "raw-ingest", [Range(f"file:{files[0]}", 0, 0, 9)], Between(), request(run=True)
    )
    assert none.steps == ()
    plan = plan_backfill(spark, stood, chain_of(stood), "raw-ingest", (), Between(), request(run=True))
    assert plan.steps[0].arguments["ranges"] == [[f"file:{files[1]}", 0, 2, 5]]
    done = apply(spark, stood, plan)
    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate
    assert_exact(stood)
    assert apply(spark, stood, plan).outcome == ALREADY


def test_a_retired_query_leaves_its_tables_and_comes_back(spark: Any, stood: Environment) -> None:
    before = contents(spark, stood)
    with pytest.raises(Refused, match="sensor-merge-gold read the tables"):
        plan_retire(spark, stood, chain_of(stood), "deserialize", True, request())
    plan = plan_retire(spark, stood, chain_of(stood), "merge-gold", False, request())
    apply(spark, stood, plan)
    assert not Path(stood.checkpoint("merge-gold")).exists()
    assert contents(spark, stood)["sensor_gold"] == before["sensor_gold"]
    undo(spark, stood, plan)
    assert contents(spark, stood) == before
