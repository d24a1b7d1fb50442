"""An undo that comes too late changes nothing, and the remedy stays what it was; the plan says until when it can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, Table, environment_from_settings
from surestart.errors import CannotTell, Refused
from surestart.facts.checkpoint.manifest import Manifest
from surestart.journal.journal import DONE, FINISHED, UNDOING, Journal, JournalEntry, read_journals
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_order, undo_remedy
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, read_table_facts
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.planning.estimate import undo_until
from surestart.remedies.planning.plan_reset import plan_reset
from surestart.remedies.steps.clear import find_output
from surestart.remedies.steps.swap import swapped_at
from surestart.runs.runner import run_stage
from tests.deltalog.handmade import add, create, write_commit
from tests.foundation.rows import land
from tests.remedies.move import running
from tests.remedies.remedy import apply, assert_exact, chain_of, contents, request, reset, run_stages, undo

DAY = 86_400_000


def table_with(tmp_path: Path, **properties: str) -> Table:
    named = {f"delta.{name}": value for name, value in properties.items()}
    write_commit(tmp_path / "sensor_raw", 0, *create(named), add("0.parquet"))
    return Table("sensor_raw", path=str(tmp_path / "sensor_raw"))


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ({}, 7 * DAY),
        ({"deletedFileRetentionDuration": "interval 30 days", "logRetentionDuration": "interval 2 days"}, 2 * DAY),
        ({"deletedFileRetentionDuration": "interval 0 hours"}, 0),
        ({"deletedFileRetentionDuration": "interval 12 hours"}, DAY // 2),
    ],
)
def test_an_undo_lasts_as_long_as_files_and_log_do(tmp_path: Path, properties: dict[str, str], wanted: int) -> None:
    assert read_table_facts(None, table_with(tmp_path, **properties)).undo_retention == wanted


def test_a_table_that_keeps_no_removed_files_promises_no_undo(tmp_path: Path, environment: Environment) -> None:
    table = read_table_facts(None, table_with(tmp_path, deletedFileRetentionDuration="interval 0 hours"))
    kept = replace(table, undo_retention=7 * DAY)
    link = running(environment, journaled=False).chain.links[0]
    facts = LinkFacts(link, None, Manifest({}), {"sensor_raw": table, "sensor_gold": kept})  # type: ignore[arg-type]
    assert "at any moment" in undo_until([facts])


def test_tables_come_back_before_checkpoints(environment: Environment) -> None:
    steps = tuple(
        Step(f"{kind}:{number}", kind, "")
        for number, kind in enumerate(("keep", "clear", "database", "clear", "retire", "retire", "start", "run"))
    )
    plan = replace(running(environment, journaled=False).plan, steps=steps)
    order = [step.id for step in undo_order(plan)]
    assert order == ["clear:3", "clear:1", "database:2", "retire:5", "retire:4", "keep:0", "start:6"]


def test_an_old_swap_is_known_by_the_journal(environment: Environment) -> None:
    """Its commit lies further back than anybody looks: it is as if the table had none."""
    run = running(environment, journaled=False)
    step = Step("swap:sensor_raw", "swap", "", "raw-ingest", {"table": "sensor_raw"})
    _, output = find_output(run, step)
    write_commit(Path(output.table.path), 0, *create())
    assert swapped_at(run, step, output) is None

    def journaled(**facts: Any) -> StepContext:
        entries = (*run.journal.entries, JournalEntry(run.digest, 1, DONE, step=step.id, facts=facts))
        return replace(run, journal=Journal(entries))

    assert swapped_at(journaled(before=3, after=4), step, output) == 4
    with pytest.raises(CannotTell):
        swapped_at(journaled(before=3), step, output)


@pytest.fixture
def cataloged(spark: Any, tmp_path: Path, classic_only: None) -> Iterator[tuple[Environment, Chain]]:
    settings = {
        "catalog": "spark_catalog",
        "schema": "past_undo",
        "checkpoint_root": str(tmp_path / "checkpoints"),
        "landing": str(tmp_path / "landing"),
    }
    environment = environment_from_settings("dev", "sensor", settings, environ={})
    land(replace(environment, root=str(tmp_path)), 10)
    spark.sql("CREATE SCHEMA past_undo")
    try:
        yield environment, read_chain(environment, build_stages({})[:1])
    finally:
        spark.sql("DROP SCHEMA past_undo CASCADE")


def vacuum(spark: Any, table: str) -> None:
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


@pytest.mark.chaos
def test_an_undo_that_died_before_its_first_step_is_given_up_where_it_could_not_end_any_more(
    spark: Any, stood: Environment
) -> None:
    """Its first table could come back; the second one could not, and every start would be refused from then on."""
    plan = reset(spark, stood, "deserialize")
    apply(spark, stood, plan)
    tables = [step.arguments["table"] for step in undo_order(plan) if step.kind == "clear"]
    cleared = contents(spark, stood)

    def die(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        undo_remedy(spark, stood, chain_of(stood), plan, lambda plan: plan.target, die)
    assert [one.state for one in read_journals(stood)] == [UNDOING]
    vacuum(spark, stood.table(tables[1]).sql)

    with pytest.raises(Refused, match="was given up"):
        undo(spark, stood, plan)

    assert [one.state for one in read_journals(stood)] == [FINISHED]
    assert contents(spark, stood) == cleared
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.long(instead="test_an_undo_lasts_as_long_as_files_and_log_do")
def test_a_reset_of_a_catalogs_table_is_no_dead_end_once_vacuum_has_run(
    spark: Any, cataloged: tuple[Environment, Chain]
) -> None:
    environment, chain = cataloged
    stage, raw = chain.links[0].stage, environment.table("sensor_raw").sql
    run_stage(spark, environment, stage)
    plan = plan_reset(spark, environment, chain, "raw-ingest", request())
    assert "not before" in plan.undo

    def confirm(plan: Plan) -> str:
        return plan.target

    apply_plan(spark, environment, chain, plan, confirm)
    assert spark.table(raw).count() == 0
    run_stage(spark, environment, stage)

    # Between the look and the first RESTORE; then before the look.
    for said in ("was given up", "cannot be read any more"):
        with pytest.raises(Refused, match=said) as refused:
            undo_remedy(spark, environment, chain, plan, confirm, lambda line: vacuum(spark, raw))
        assert refused.value.code == "UndoTooLate"
        assert [one.state for one in read_journals(environment, spark)] == [FINISHED]
    land(replace(environment, root=str(Path(environment.checkpoint_root).parent)), 5)
    run_stage(spark, environment, stage)
    assert spark.table(raw).count() == 15
