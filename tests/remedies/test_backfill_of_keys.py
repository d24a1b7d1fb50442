"""Keys of gold that are gone, old or altered come back from their positions; the stream goes on as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import BEGUN, Journal, JournalEntry, append_entry
from surestart.remedies.apply.apply import ALREADY
from surestart.remedies.basis.backfill_target import sinks_of
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.basis.position_sets import Range
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.count import newest_rows, position_gaps
from surestart.remedies.count.certificate import certify
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill
from surestart.remedies.steps import backfill as backfill_step
from surestart.report.text.certificate import command_after_count
from surestart.sinks.both import Both
from surestart.sinks.postgres.sink import PostgresSink
from tests.remedies.remedy import apply, assert_exact, chain_of, contents, land_more, request, run_stages, undo

Position = tuple[str, int, int]
ANY_TIME = ArrivalTime()


def backfill(
    spark: Any,
    environment: Environment,
    ranges: Sequence[Range] = (),
    between: ArrivalTime = ANY_TIME,
    run: bool = True,
) -> Plan:
    chain = chain_of(environment)
    return plan_backfill(spark, environment, chain, "merge-gold", ranges, between, request(run=run))


def gold_of(spark: Any, environment: Environment) -> list[Any]:
    rows = spark.read.format("delta").load(environment.table("sensor_gold").path)
    return sorted(rows.collect(), key=lambda row: (row.source, row.offset))


def positions_of(rows: Sequence[Any]) -> set[Position]:
    return {(row.source, row.partition, row.offset) for row in rows}


def damage(spark: Any, environment: Environment) -> set[Position]:
    """Three keys are gone, one has an older row, one other values; where their newest rows are."""
    rows = gold_of(spark, environment)
    gone, old, other = rows[3:6], rows[20], rows[30]
    table = environment.table("sensor_gold").sql
    keys = {row: f"sensor_id = '{row.sensor_id}' AND reading_time = TIMESTAMP '{row.reading_time}'" for row in rows}
    spark.sql(f"DELETE FROM {table} WHERE {' OR '.join(f'({keys[row]})' for row in gone)}")
    spark.sql(f"UPDATE {table} SET revision = revision - 1, temperature = -1 WHERE {keys[old]}")
    # Out of the partition in which a MERGE of the stream would look for it.
    spark.sql(f"UPDATE {table} SET temperature = -1, reading_date = DATE '1999-01-01' WHERE {keys[other]}")
    return positions_of([*gone, old, other])


def planned(plan: Plan) -> set[Position]:
    ranges = plan.steps[0].arguments["ranges"]
    return {(source, part, offset) for source, part, first, last in ranges for offset in range(first, last + 1)}


@pytest.mark.long(
    instead="remedies/test_backfill_and_retire.py::test_a_backfill_that_died_behind_its_commit_keeps_its_rows_and_ends"
)
def test_keys_that_are_gone_old_or_altered_come_back_and_the_stream_goes_on(spark: Any, stood: Environment) -> None:
    before = contents(spark, stood)
    wanted = damage(spark, stood)
    damaged = contents(spark, stood)
    verified = certify(spark, stood, chain_of(stood)).as_dict()
    assert str(command_after_count(verified)) == "surestart plan backfill merge-gold -e local -o plan.json"

    plan = backfill(spark, stood)

    assert planned(plan) == wanted
    assert contents(spark, stood) == damaged
    done = apply(spark, stood, plan)
    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate
    assert contents(spark, stood) == before
    assert apply(spark, stood, plan).outcome == ALREADY
    assert backfill(spark, stood).steps == ()
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.long(
    instead="remedies/test_backfill_and_retire.py::test_a_backfill_that_died_behind_its_commit_keeps_its_rows_and_ends"
)
def test_only_what_is_named_by_range_or_by_time_of_arrival_is_filled(spark: Any, stood: Environment) -> None:
    wanted = damage(spark, stood)
    source, partition, offset = min(wanted)
    # Gold has no time of arrival: raw knows it, of the same position.
    raw = stood.table("sensor_raw").sql
    spark.sql(f"UPDATE {raw} SET source_time = TIMESTAMP '2026-01-01 00:00:00Z'")
    spark.sql(f"UPDATE {raw} SET source_time = TIMESTAMP '2026-01-02 00:00:00Z' WHERE source = '{source}'")
    second = 1_767_312_000_000
    of_file = {one for one in wanted if one[0] == source}
    assert set() < of_file < wanted

    assert planned(backfill(spark, stood, between=ArrivalTime(first=second))) == of_file
    assert planned(backfill(spark, stood, between=ArrivalTime(last=second))) == wanted - of_file
    assert backfill(spark, stood, between=ArrivalTime(first=second + 1)).steps == ()
    one = backfill(spark, stood, ranges=[Range(source, partition, offset, offset)])
    assert planned(one) == {(source, partition, offset)}


@pytest.mark.chaos
@pytest.mark.parametrize("fetched", [20_000, 3])
def test_of_too_many_holes_each_file_is_gone_through_from_the_first_to_the_last(
    spark: Any, stood: Environment, monkeypatch: pytest.MonkeyPatch, fetched: int
) -> None:
    before = contents(spark, stood)
    table = stood.table("sensor_gold").sql
    gone = [row for row in gold_of(spark, stood) if row.offset % 3 == 0]
    spark.sql(f"DELETE FROM {table} WHERE offset % 3 = 0")
    files = {row.source for row in gone}
    assert len(gone) > 2 * len(files)
    monkeypatch.setattr(position_gaps, "KEPT_GAPS", len(files))
    monkeypatch.setattr(newest_rows, "_FETCHED", fetched)

    plan = backfill(spark, stood)

    offsets = {file: [row.offset for row in gone if row.source == file] for file in files}
    ranges = {source: (first, last) for source, _, first, last in plan.steps[0].arguments["ranges"]}
    assert ranges == {file: (min(own), max(own)) for file, own in offsets.items()}
    apply(spark, stood, plan)
    assert contents(spark, stood) == before


@pytest.mark.chaos
def test_a_begun_one_is_withdrawn_and_writes_nothing_when_it_wakes_up(spark: Any, stood: Environment) -> None:
    damage(spark, stood)
    plan = backfill(spark, stood, run=False)
    entry = JournalEntry(plan.digest, 0, BEGUN, remedy="backfill", stage=plan.stage, queries=plan.queries, at=1)
    append_entry(spark, stood, entry, plan.as_json())
    asleep = StepContext(spark, stood, chain_of(stood), plan, Journal((entry,)), print)
    damaged = contents(spark, stood)

    undo(spark, stood, plan)

    backfill_step.apply_step(asleep, plan.steps[0])
    assert contents(spark, stood) == damaged
    with pytest.raises(Refused, match="was applied and undone"):
        apply(spark, stood, plan)
    assert planned(backfill(spark, stood)) == planned(plan)


def test_a_stage_with_state_is_not_offered_one(stood: Environment) -> None:
    chain = chain_of(stood)
    stages = [replace(link.stage, state=("seen ids",)) if link.name == "merge-gold" else link.stage for link in chain]
    with pytest.raises(Refused, match="keeps state") as refused:
        plan_backfill(None, stood, read_chain(stood, stages), "merge-gold", (), ANY_TIME, request())  # type: ignore[arg-type]
    assert refused.value.code == "BackfillNotOffered"


def test_a_database_is_filled_behind_the_delta_table_that_it_gets_its_rows_from(environment: Environment) -> None:
    delta: Any = chain_of(environment).link("merge-gold").stage.sink
    assert [type(sink).__name__ for sink in sinks_of(Both(PostgresSink(), delta))] == ["DeltaMerge", "PostgresSink"]
