"""Remedies of tables that a catalog knows by name: their log is asked by SQL, claims are rows, and no file is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused
from surestart.gate.start_gate import open_gate
from surestart.remedies.apply import apply_plan
from surestart.remedies.half_way import CODE
from surestart.remedies.journal import WITHDRAWN, read_journals
from surestart.remedies.plan_replay import From
from surestart.remedies.undo import undo_remedy
from surestart.runner import run_stage
from tests.foundation.rows import TABLES
from tests.remedies.remedy import SETTINGS, apply, chain_of, contents, replay, reset, undo

SCHEMA = "remedies_by_name"


@pytest.fixture
def cataloged(spark: Any, stood: Environment, classic_only: None) -> Iterator[Environment]:
    """The same tables and checkpoints, by name; their history begins anew."""
    given = {"catalog": "spark_catalog", "schema": SCHEMA, "landing": stood.landing}
    environment = environment_from_settings(
        "local", "sensor", {**given, "checkpoint_root": stood.checkpoint_root}, environ={}
    )
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    # Not the history: it says that the stages read and wrote paths.
    for name in TABLES:
        place = stood.table(name).path
        spark.sql(f"CREATE TABLE {environment.table(name).sql} USING delta LOCATION '{place}'")
    yield environment
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_a_reset_and_its_undo_with_a_schedule_that_comes_at_every_step(
    spark: Any, stood: Environment, cataloged: Environment
) -> None:
    before = contents(spark, stood)
    gold = build_stages(SETTINGS)[2]
    plan = reset(spark, cataloged, "merge-gold")
    running = open_gate(spark, cataloged, gold)
    try:
        with pytest.raises(Refused, match="sensor-merge-gold is running already"):
            apply(spark, cataloged, plan)
    finally:
        running.ended("stopped", "test")

    refused: list[str] = []

    def starts(line: str) -> None:
        """A schedule comes before each step; nothing but the journal holds it off, for no claim is a lock here."""
        with pytest.raises(Refused) as no:
            run_stage(spark, cataloged, gold)
        assert no.value.code == CODE
        refused.append(line)

    apply_plan(spark, cataloged, chain_of(cataloged), plan, lambda plan: plan.target, starts)
    assert refused == [step.what for step in plan.steps]
    assert contents(spark, stood)["sensor_gold"] == {}
    run_stage(spark, cataloged, gold)
    assert contents(spark, stood)["sensor_gold"] == before["sensor_gold"]

    refused.clear()
    undo_remedy(spark, cataloged, chain_of(cataloged), plan, lambda plan: plan.target, starts)

    assert len(refused) == len(plan.steps)
    assert contents(spark, stood) == before
    assert [one.state for one in read_journals(cataloged, spark)] == [WITHDRAWN]


@pytest.mark.chaos
@pytest.mark.parametrize("ran", [False, True], ids=["not run since", "run since"])
def test_a_replay_of_a_part_and_its_undo(spark: Any, stood: Environment, cataloged: Environment, ran: bool) -> None:
    before = contents(spark, stood)
    plan = replay(spark, cataloged, "raw-ingest", From(batch=1))
    apply(spark, cataloged, plan)
    # The first of three batches stays, everywhere.
    assert sum(contents(spark, stood)["sensor_raw"].values()) == 20
    if ran:
        for link in chain_of(cataloged).links:
            run_stage(spark, cataloged, link.stage)
        after = contents(spark, stood)
        assert {name: after[name] == before[name] for name in TABLES} == dict.fromkeys(TABLES, True)

    undo(spark, cataloged, plan)

    assert contents(spark, stood) == before
