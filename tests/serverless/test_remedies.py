"""Every remedy and its undo on the twin: counted by plain Python, killed between the commits of one step, and carried
over to a classic session, which has what serverless refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused
from surestart.facts.delta import read_history
from surestart.facts.delta.commit_notes import find_undos
from surestart.failpoints import VARIABLE
from surestart.journal.journal import FINISHED, WITHDRAWN
from surestart.remedies.basis.plan import Plan
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.remedies.planning.plan_reset import plan_reset_beside
from surestart.runs.runner import run_stage
from tests.foundation.rows import TABLES, table_rows
from tests.remedies.remedy import (
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    one_batch_more,
    replay,
    request,
    run_stages,
    undo,
)
from tests.remedies.test_fork_of_a_stage import fork_of, logs
from tests.remedies.test_kill_matrix import CASES, Case, journal_of
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
    pytest.mark.usefixtures("checkpoints_on_volumes"),
]
SCHEMA, READ = "remedies_on_the_twin", "sensor_readings_deserialized"


def beside(stage: str) -> Case:
    return Case(
        lambda spark, environment: plan_reset_beside(
            spark, environment, chain_of(environment), stage, request(run=True)
        )
    )


# Of the kill matrix's cases one of each way in which a remedy writes.
CHOSEN = ("reset raw-ingest", "replay raw-ingest", "replay merge-gold", "lost checkpoint of raw-ingest")
CHOSEN += ("backfill deserialize", "backfill merge-gold", "retire merge-gold and its table")
CHOSEN += ("rewind raw-ingest", "rewind merge-gold")
EVERY = {**{name: CASES[name] for name in CHOSEN}, "reset raw-ingest beside": beside("raw-ingest")}


@pytest.mark.parametrize("name", EVERY)
def test_a_remedy_is_exact_and_its_undo_gives_back_what_was_there(spark: Any, stood: Environment, name: str) -> None:
    case = EVERY[name]
    case.prepare(spark, stood)
    before = contents(spark, stood)
    lost = [link.checkpoint for link in chain_of(stood).links if not Path(link.checkpoint).exists()]
    plan = case.plan(spark, stood)

    applied = apply(spark, stood, plan)

    assert applied.journal.state == FINISHED
    if case.ends_exact:
        assert_exact(stood)
        assert applied.certificate is not None
        assert applied.certificate["exact"]
    if plan.undo:
        assert undo(spark, stood, plan).state == WITHDRAWN
        found = contents(spark, stood)
        assert {key for key in before if found[key] != before[key]} == set()
    elif case.ends_exact:
        with pytest.raises(Refused, match="nothing that could be undone"):
            undo(spark, stood, plan)
    if case.ends_exact:
        land_more(stood)
    if plan.undo and lost:
        # The undo gave back rows whose checkpoint is gone.
        with pytest.raises(Refused, match="CHECKPOINT_DELETED"):
            run_stages(spark, stood)
    elif case.ends_exact:
        run_stages(spark, stood)
        assert_exact(stood)


def test_a_fork_of_a_stage_is_run_by_new_code_and_dropped(spark: Any, stood: Environment, tmp_path: Path) -> None:
    one_batch_more(spark, stood)
    before, files = contents(spark, stood), logs(stood)
    plan = fork_of(spark, stood, "deserialize", tmp_path / "fork", 0)
    apply(spark, stood, plan)
    fork = surestart.open_fork(stood, tmp_path / "fork")
    assert table_rows(spark, fork, READ).total() < before[READ].total()
    surestart.run_stage(spark, fork, chain_of(stood).link("deserialize").stage)
    assert table_rows(spark, fork, READ) == before[READ]
    assert undo(spark, stood, plan).state == WITHDRAWN
    assert not (tmp_path / "fork").exists()
    assert (contents(spark, stood), logs(stood)) == (before, files)


def drive(environment: Environment, verb: str, plan: Plan, place: Path, **variables: str) -> tuple[int, str]:
    """A driver of its own; a variable that is empty is taken away."""
    file = place / "plan.json"
    file.write_text(plan.as_json())
    given = {name: value for name, value in {**os.environ, **variables}.items() if value}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.remedies.drive", environment.root, verb, str(file)],
        env=given,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stderr[-3000:]


# pyspark has set the second one in this process.
CLASSIC = dict.fromkeys(("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", twin.VARIABLE, "DATABRICKS_RUNTIME_VERSION"), "")
POINTS = (
    ("apply", "remedy.clear.after_commit"),
    ("undo", "remedy.restore.marked"),
    ("undo", "remedy.restore.after_commit"),
)


@pytest.mark.parametrize(("verb", "point"), POINTS, ids=[point for _, point in POINTS])
def test_a_step_that_was_killed_between_its_commits_and_the_journal_goes_on(
    spark: Any, stood: Environment, tmp_path: Path, verb: str, point: str
) -> None:
    before, gold = contents(spark, stood), stood.table("sensor_gold").path
    plan = replay(spark, stood, "merge-gold", ReplayFrom(batch=0))
    if verb == "undo":
        apply(spark, stood, plan)
    code, said = drive(stood, verb, plan, tmp_path, **{VARIABLE: point})
    assert code == -signal.SIGKILL, said
    if verb == "apply":
        apply(spark, stood, plan)
        assert sum('"clear:sensor_gold"' in one.user_metadata for one in read_history(gold)) == 1
    undo(spark, stood, plan)
    assert contents(spark, stood) == before
    history = read_history(gold)
    assert [one.operation for one in history].count("RESTORE") == len(find_undos(history)) == 1
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


def test_a_backfill_that_was_begun_is_withdrawn_and_another_fills_the_hole(
    spark: Any, stood: Environment, tmp_path: Path
) -> None:
    case = CASES["backfill deserialize"]
    case.prepare(spark, stood)
    plan = case.plan(spark, stood)
    code, said = drive(stood, "apply", plan, tmp_path, **{VARIABLE: "remedy.begun"})
    assert code == -signal.SIGKILL, said
    assert undo(spark, stood, plan).state == WITHDRAWN
    apply(spark, stood, case.plan(spark, stood))
    assert_exact(stood)


@pytest.mark.parametrize("first", ["the twin", "a classic session"])
def test_what_one_compute_has_applied_the_other_takes_back(
    spark: Any, stood: Environment, tmp_path: Path, first: str
) -> None:
    before = contents(spark, stood)
    plan = replay(spark, stood, "merge-gold", ReplayFrom(batch=0))
    if first == "the twin":
        apply(spark, stood, plan)
        code, said = drive(stood, "undo", plan, tmp_path, **CLASSIC)
    else:
        code, said = drive(stood, "apply", plan, tmp_path, **CLASSIC)
        assert code == 0, said
        undo(spark, stood, plan)
    assert code == 0, said
    journal = journal_of(stood, plan)
    assert journal is not None
    assert journal.state == WITHDRAWN
    assert contents(spark, stood) == before
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.fixture
def cataloged(spark: Any, stood: Environment) -> Iterator[Environment]:
    """The same tables and checkpoints, by name, as on serverless; their history begins anew."""
    given = {"catalog": "spark_catalog", "schema": SCHEMA, "landing": stood.landing}
    environment = environment_from_settings(
        "local", "sensor", {**given, "checkpoint_root": stood.checkpoint_root}, environ={}
    )
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    for name in TABLES:
        spark.sql(f"CREATE TABLE {environment.table(name).sql} USING delta LOCATION '{stood.table(name).path}'")
    yield environment
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_tables_that_a_catalog_knows_by_name(spark: Any, stood: Environment, cataloged: Environment) -> None:
    before = contents(spark, stood)
    plan = replay(spark, cataloged, "raw-ingest", ReplayFrom(batch=1))
    apply(spark, cataloged, plan)
    for link in chain_of(cataloged).links:
        run_stage(spark, cataloged, link.stage)
    assert_exact(stood)
    undo(spark, cataloged, plan)
    assert contents(spark, stood) == before
    land_more(stood)
    for link in chain_of(cataloged).links:
        run_stage(spark, cataloged, link.stage)
    assert_exact(stood)
