"""A hole in PostgreSQL is filled: beside Delta, in both, and where a stage writes nowhere else. Once, whoever dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import BEGUN, Journal, JournalEntry, append_entry
from surestart.remedies.apply.apply import ALREADY, Applied, apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.count.certificate import certify
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill
from surestart.remedies.steps import backfill as backfill_step
from surestart.report.text.certificate import command_after_count
from surestart.runs.runner import run_stage
from surestart.stage import Stage
from tests.foundation.rows import land, run_all
from tests.postgres.database import Database
from tests.postgres.test_gold import in_delta, in_postgres
from tests.postgres.test_remedies_of_gold import SETTINGS, assert_same_and_exact, chain_of, environment, killed, request
from tests.postgres.test_remedies_of_gold import to_postgres as every_reading

__all__ = ["environment"]

LEDGER = "SELECT query_id, mode FROM surestart_ledger WHERE starts_with(query_id, 'remedy-')"


def plan_of(spark: Any, environment: Environment, chain: Chain, stage: str, run: bool = True) -> Plan:
    return plan_backfill(spark, environment, chain, stage, (), ArrivalTime(), request(run=run))


def apply(spark: Any, environment: Environment, chain: Chain, plan: Plan) -> Applied:
    return apply_plan(spark, environment, chain, plan, lambda plan: plan.target)


def positions_of(rows: Sequence[Any]) -> set[tuple[Any, ...]]:
    return {(row[9], row[10], row[11]) for row in rows}


def planned(plan: Plan) -> set[tuple[Any, ...]]:
    ranges = plan.steps[0].arguments["ranges"]
    return {(source, part, offset) for source, part, first, last in ranges for offset in range(first, last + 1)}


@pytest.mark.long(
    instead="remedies/test_backfill_and_retire.py::test_a_backfill_that_died_behind_its_commit_keeps_its_rows_and_ends"
)
def test_rows_that_are_gone_old_or_altered_in_postgres_come_back_once(
    spark: Any, database: Database, environment: Environment
) -> None:
    right = in_postgres(database)
    stored = database.rows("SELECT * FROM sensor_gold")
    chosen = {row: row[11] for row in stored if row[11] in (3, 5, 8)}
    database.execute('DELETE FROM sensor_gold WHERE "offset" = 3')
    database.execute('UPDATE sensor_gold SET temperature = -1 WHERE "offset" = 5')
    database.execute('UPDATE sensor_gold SET temperature = -1, revision = -1 WHERE "offset" = 8')
    chain = chain_of(environment)
    found = certify(spark, environment, chain)
    assert found.faults == {
        "merge-gold database: lost": list(chosen.values()).count(3),
        "merge-gold database: wrong": len(chosen) - list(chosen.values()).count(3),
    }
    assert str(command_after_count(found.as_dict())) == "surestart plan backfill merge-gold -e local -o plan.json"

    plan = plan_of(spark, environment, chain, "merge-gold")

    assert planned(plan) == positions_of(list(chosen))
    assert {effect.target for effect in plan.effects} == {"sensor_gold", "postgres sensor_gold"}
    done = apply(spark, environment, chain, plan)
    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate
    assert in_postgres(database) == right == in_delta(spark, environment)
    assert apply(spark, environment, chain, plan).outcome == ALREADY
    assert database.rows(LEDGER) == {(f"remedy-{plan.digest[:16]}", "remedy"): 1}
    # The stream knows nothing of it.
    land(environment, 20, per_file=10)
    run_all(spark, environment, **SETTINGS)
    assert_same_and_exact(spark, environment, database)


@pytest.mark.chaos
@pytest.mark.parametrize(
    "point",
    [
        "merge.before_commit",
        "remedy.backfill.before_database",
        "remedy.database.before_commit",
        "remedy.database.after_commit",
    ],
)
def test_a_hole_in_both_whose_filling_was_killed_is_filled_by_the_same_plan(
    spark: Any, database: Database, environment: Environment, tmp_path: Path, point: str
) -> None:
    right = in_postgres(database)
    database.execute('DELETE FROM sensor_gold WHERE "offset" BETWEEN 2 AND 6')
    spark.sql(f"DELETE FROM {environment.table('sensor_gold').sql} WHERE offset BETWEEN 4 AND 8").collect()
    chain = chain_of(environment)
    plan = plan_of(spark, environment, chain, "merge-gold")
    killed(environment, plan, tmp_path, point)

    done = apply(spark, environment, chain, plan)

    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate
    assert in_postgres(database) == right == in_delta(spark, environment)
    assert database.rows(LEDGER) == {(f"remedy-{plan.digest[:16]}", "remedy"): 1}


@pytest.mark.chaos
def test_a_stage_that_writes_every_row_to_postgres_only_gets_back_the_missing_ones(
    spark: Any, database: Database, environment: Environment
) -> None:
    chain = read_chain(environment, (*chain_stages(environment), every_reading()))
    run_stage(spark, environment, every_reading())
    right = database.rows("SELECT * FROM readings")
    database.execute("CREATE TABLE saved AS SELECT * FROM readings")
    gone = database.rows('SELECT * FROM readings WHERE "offset" IN (2, 3, 7)')
    database.execute('DELETE FROM readings WHERE "offset" IN (2, 3, 7)')
    plan = plan_of(spark, environment, chain, "to-postgres", run=False)
    assert planned(plan) == positions_of(list(gone))
    asleep = begun(spark, environment, chain, plan)

    # Its driver died, or sleeps: given up, and another one fills the hole.
    undo_of(spark, environment, chain, plan)
    assert database.rows(LEDGER) == {(f"remedy-{plan.digest[:16]}", "withdrawn"): 1}
    backfill_step.apply_step(asleep, plan.steps[0])
    assert database.rows("SELECT * FROM readings") == right - gone
    later = plan_of(spark, environment, chain, "to-postgres", run=False)
    # Somebody was quicker with a part of it.
    database.execute('INSERT INTO readings SELECT * FROM saved WHERE "offset" = 3')
    apply(spark, environment, chain, later)
    assert database.rows("SELECT * FROM readings") == right
    backfill_step.apply_step(asleep, plan.steps[0])
    assert database.rows("SELECT * FROM readings") == right

    # One whose rows are written is not given up: they were missing.
    database.execute('DELETE FROM readings WHERE "offset" = 7')
    last = plan_of(spark, environment, chain, "to-postgres", run=False)
    backfill_step.apply_step(begun(spark, environment, chain, last), last.steps[0])
    with pytest.raises(Refused, match="has written its rows"):
        undo_of(spark, environment, chain, last)
    assert database.rows("SELECT * FROM readings") == right

    # Nor is a table that somebody has dropped meanwhile a dead end.
    database.execute('DELETE FROM readings WHERE "offset" = 7')
    left = plan_of(spark, environment, chain, "to-postgres", run=False)
    begun(spark, environment, chain, left)
    database.execute("DROP TABLE readings")
    undo_of(spark, environment, chain, left)

    database.execute("CREATE TABLE bare (sensor_id text)")
    sink = replace(every_reading().sink, target="bare")  # type: ignore[type-var]
    chain = read_chain(environment, (*chain_stages(environment), replace(every_reading(), sink=sink)))
    with pytest.raises(Refused, match="bare, which has no column source, partition, offset") as refused:
        plan_of(spark, environment, chain, "to-postgres")
    assert refused.value.code == "BackfillNotOffered"
    # Nor can its rows be counted, and no number is made up.
    untold = next(one for one in certify(spark, environment, chain).stages if one.stage == "to-postgres")
    assert "source is missing, partition is missing, offset is missing" in untold.problem
    assert untold.counts.faults == {}


def chain_stages(environment: Environment) -> tuple[Stage, ...]:
    return tuple(link.stage for link in chain_of(environment))


def begun(spark: Any, environment: Environment, chain: Chain, plan: Plan) -> StepContext:
    entry = JournalEntry(plan.digest, 0, BEGUN, remedy="backfill", stage=plan.stage, queries=plan.queries, at=1)
    append_entry(spark, environment, entry, plan.as_json())
    return StepContext(spark, environment, chain, plan, Journal((entry,)), print)


def undo_of(spark: Any, environment: Environment, chain: Chain, plan: Plan) -> None:
    undo_remedy(spark, environment, chain, plan, lambda plan: plan.target)
