"""A hole is filled once, under its own identity; a retired query leaves its tables."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.commit_once import find_commit
from surestart.journal.journal import BEGUN, DONE, FINISHED, Journal, JournalEntry, append_entry, read_journals
from surestart.journal.stage_start import StageStart
from surestart.remedies.apply.apply import ALREADY
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan, Step, environment_facts
from surestart.remedies.basis.position_sets import Range
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.remedies.steps import backfill as backfill_step
from surestart.runs.runner import run_stage
from surestart.sinks.both import Both
from surestart.sinks.postgres.sink import PostgresSink
from tests.remedies.remedy import SETTINGS, apply, assert_exact, chain_of, contents, request, undo


def test_rows_that_the_stage_below_has_are_not_written_above_it_again(spark: Any, stood: Environment) -> None:
    """Somebody has deleted them from raw alone: to the stream below they would be new rows."""
    spark.sql(f"DELETE FROM {stood.table('sensor_raw').sql} WHERE offset BETWEEN 2 AND 5").collect()

    with pytest.raises(Refused) as refused:
        plan_backfill(spark, stood, chain_of(stood), "raw-ingest", (), ArrivalTime(), request(run=True))

    assert refused.value.code == "BackfillWouldDouble"
    assert "surestart plan reset raw-ingest" in str(refused.value.next)


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
    from surestart.remedies.planning.plan_replay import ReplayFrom
    from tests.remedies.remedy import replay

    apply(spark, stood, replay(spark, stood, "deserialize", ReplayFrom()))
    for link in chain_of(stood).links[1:]:
        run_stage(spark, stood, link.stage)

    none = plan_backfill(
        spark,
        stood,
        chain_of(stood),
        "raw-ingest",
        [Range(f"file:{files[0]}", 0, 0, 9)],
        ArrivalTime(),
        request(run=True),
    )
    assert none.steps == ()
    plan = plan_backfill(spark, stood, chain_of(stood), "raw-ingest", (), ArrivalTime(), request(run=True))
    assert plan.steps[0].arguments["ranges"] == [[f"file:{files[1]}", 0, 2, 5]]
    done = apply(spark, stood, plan)
    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate
    assert_exact(stood)
    assert apply(spark, stood, plan).outcome == ALREADY


def hole_in_raw(spark: Any, environment: Environment) -> list[Any]:
    """Rows of one file are gone from raw and from what the stage below has made of them; gives the range."""
    file = sorted(Path(environment.landing).iterdir())[1]
    for name in ("sensor_readings_deserialized", "sensor_quarantine", "sensor_raw"):
        spark.sql(
            f"DELETE FROM {environment.table(name).sql} WHERE source LIKE '%{file.name}' AND offset BETWEEN 2 AND 5"
        )
    return [f"file:{file}", 0, 2, 5]


def backfill(spark: Any, environment: Environment) -> Plan:
    return plan_backfill(spark, environment, chain_of(environment), "raw-ingest", (), ArrivalTime(), request())


def begun(spark: Any, environment: Environment, plan: Plan) -> StepContext:
    """As a driver leaves it that died before its step was in the journal."""
    entry = JournalEntry(plan.digest, 0, BEGUN, remedy="backfill", stage=plan.stage, queries=plan.queries, at=1)
    append_entry(spark, environment, entry, plan.as_json())
    return StepContext(spark, environment, chain_of(environment), plan, Journal((entry,)), print)


@pytest.mark.long(instead="test_a_backfill_that_died_behind_its_commit_keeps_its_rows_and_ends")
def test_a_begun_backfill_is_withdrawn_and_another_fills_the_hole(spark: Any, stood: Environment) -> None:
    before = contents(spark, stood)["sensor_raw"]
    hole = hole_in_raw(spark, stood)
    plan = backfill(spark, stood)
    assert plan.steps[0].arguments["ranges"] == [hole]
    asleep = begun(spark, stood, plan)
    with pytest.raises(Refused, match="Rows that were missing are being written") as refused:
        apply(spark, stood, backfill(spark, stood))
    assert f"surestart undo {plan.digest[:12]}" in str(refused.value.next)

    undo(spark, stood, plan)

    with pytest.raises(Refused, match="was applied and undone"):
        apply(spark, stood, plan)
    # Its driver wakes up only now, and writes nothing: else the next one would write the same rows.
    backfill_step.apply_step(asleep, plan.steps[0])
    later = backfill(spark, stood)
    assert later.steps[0].arguments["ranges"] == [hole]
    apply(spark, stood, later)
    assert contents(spark, stood)["sensor_raw"] == before
    with pytest.raises(Refused, match="missing and are right: they stay"):
        undo(spark, stood, later)


def test_a_backfill_that_died_behind_its_commit_keeps_its_rows_and_ends(spark: Any, stood: Environment) -> None:
    before = contents(spark, stood)["sensor_raw"]
    hole_in_raw(spark, stood)
    plan = backfill(spark, stood)
    backfill_step.apply_step(begun(spark, stood, plan), plan.steps[0])

    with pytest.raises(Refused, match="has written its rows"):
        undo(spark, stood, plan)

    assert contents(spark, stood)["sensor_raw"] == before
    (journal,) = read_journals(stood)
    assert not journal.is_unfinished
    assert apply(spark, stood, plan).journal.state == FINISHED
    assert contents(spark, stood)["sensor_raw"] == before


@pytest.mark.long(instead="test_a_backfill_that_died_behind_its_commit_keeps_its_rows_and_ends")
def test_a_withdrawn_backfill_is_used_up_in_both_tables_of_its_stage(spark: Any, stood: Environment) -> None:
    """A driver that wakes up later would else write to the second one what another backfill has written there."""
    file = sorted(Path(stood.landing).iterdir())[1]
    for name in ("sensor_readings_deserialized", "sensor_quarantine"):
        spark.sql(f"DELETE FROM {stood.table(name).sql} WHERE source LIKE '%{file.name}'")
    chain = chain_of(stood)
    plan = plan_backfill(spark, stood, chain, "deserialize", (), ArrivalTime(), request())
    begun(spark, stood, plan)

    undo(spark, stood, plan)

    step = plan.steps[0]
    for output in chain.link("deserialize").outputs:
        assert find_commit(spark, output.table, plan.digest, f"withdrawn:{step.id}") is not None


def test_a_backfill_into_a_sink_that_it_does_not_know_is_refused_while_it_is_planned(environment: Environment) -> None:
    stage = build_stages({})[1]
    both = replace(stage, sink=Both(stage.sink, PostgresSink()))  # type: ignore[arg-type]
    link = replace(read_chain(environment, (stage,)).link("deserialize"), stage=both)
    with pytest.raises(Refused, match="sensor-deserialize writes to a Both, which no backfill can write") as refused:
        plan_backfill(None, environment, Chain((link,)), "deserialize", (), ArrivalTime(), request())  # type: ignore[arg-type]
    assert refused.value.code == "BackfillNotOffered"


LONG = pytest.mark.long(instead="test_a_retired_query_leaves_its_tables_and_comes_back")


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param("raw-ingest", marks=LONG),
        "merge-gold",
        pytest.param("deserialize", marks=pytest.mark.chaos),
    ],
)
def test_a_retired_query_leaves_its_tables_and_comes_back(spark: Any, stood: Environment, stage: str) -> None:
    before = contents(spark, stood)
    if stage != "merge-gold":
        with pytest.raises(Refused, match="sensor-merge-gold read the tables"):
            plan_retire(spark, stood, chain_of(stood), stage, True, request())
    plan = plan_retire(spark, stood, chain_of(stood), stage, False, request())
    apply(spark, stood, plan)
    assert not Path(stood.checkpoint(stage)).exists()
    after = contents(spark, stood)
    assert {name for name in before if after[name] != before[name]} == {f"sensor-{stage}"}
    # The others go on: what is there is theirs still.
    run_stage(spark, stood, build_stages(SETTINGS)[0 if stage == "merge-gold" else 2])
    undo(spark, stood, plan)
    assert contents(spark, stood) == before


def test_a_backfill_waits_for_a_stage_below_that_would_leave_its_rows_out(spark: Any, environment: Environment) -> None:
    """A replay of that stage came between the plan and its apply."""
    step = Step("backfill:raw-ingest", "backfill", "write", "raw-ingest", {"ranges": []})
    plan = Plan("backfill", "raw-ingest", "append", environment_facts(environment), 1, ("raw-ingest",), {}, (step,))
    facts = {"starts": {"deserialize": StageStart("f" * 64, "deserialize", kept=True).as_dict()}}
    entries = [JournalEntry("f" * 64, 0, BEGUN), JournalEntry("f" * 64, 1, DONE, step="start", facts=facts)]
    for entry in entries:
        append_entry(spark, environment, replace(entry, queries=("sensor-deserialize",), remedy="replay"))
    run = StepContext(
        spark, environment, chain_of(environment), plan, Journal((JournalEntry(plan.digest, 0, BEGUN),)), print
    )

    with pytest.raises(Refused, match="sensor-deserialize has not yet read its table once"):
        backfill_step.apply_step(run, step)
