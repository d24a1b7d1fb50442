"""Remedies of tables that a catalog knows by name: their log is asked by SQL, claims are rows, and no file is read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused
from surestart.failpoints import VARIABLE
from surestart.journal.journal import OF_ANOTHER, WITHDRAWN, read_journals
from surestart.journal.unfinished import CODE
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis import step_context
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.runs.runner import run_stage
from surestart.runs.start_gate import open_gate
from tests.foundation.rows import TABLES, land
from tests.remedies.remedy import SETTINGS, apply, assert_exact, chain_of, contents, land_more, replay, reset, undo
from tests.remedies.sequences import Lab
from tests.remedies.test_one_after_another import FIRST, SECOND, SEEN

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


@pytest.mark.long(instead="remedies/test_reset.py::test_an_undone_reset_leaves_what_was_there_and_goes_on")
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
    plan = replay(spark, cataloged, "raw-ingest", ReplayFrom(batch=1))
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


@pytest.mark.long(
    instead="remedies/test_commit_once.py::test_an_undo_that_died_between_its_mark_and_its_restore_goes_on"
)
def test_the_slower_of_two_processes_restores_nothing_after_the_other_has_ended(
    spark: Any, stood: Environment, cataloged: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No claim is a lock here: both have looked, and the stages run again when the slower one comes to its RESTORE."""
    gold = build_stages(SETTINGS)[2]
    plan = reset(spark, cataloged, "merge-gold")
    apply(spark, cataloged, plan)
    run_stage(spark, cataloged, gold)
    since: dict[str, Any] = {}

    def the_other_comes_first(point: str) -> None:
        if point != "remedy.before_change" or since:
            return
        since["begun"] = True
        undo(spark, cataloged, plan)
        # Rows that only a second RESTORE would take away again.
        land_more(stood, 30)
        for link in chain_of(cataloged).links:
            run_stage(spark, cataloged, link.stage)
        since.update(contents(spark, stood))

    monkeypatch.setattr(step_context, "fail_point", the_other_comes_first)
    with pytest.raises(Refused) as refused:
        undo(spark, cataloged, plan)

    assert refused.value.code == OF_ANOTHER
    del since["begun"]
    assert contents(spark, stood) == since
    assert [one.state for one in read_journals(cataloged, spark)] == [WITHDRAWN]


@pytest.mark.chaos
def test_two_real_processes_of_one_undo(spark: Any, stood: Environment, cataloged: Environment, tmp_path: Path) -> None:
    """The slower one stands still, as a starved driver does, between its last look and its RESTORE."""
    plan = reset(spark, cataloged, "merge-gold")
    apply(spark, cataloged, plan)
    for stage in build_stages(SETTINGS):
        run_stage(spark, cataloged, stage)
    tables = {
        row.tableName: spark.sql(f"DESCRIBE DETAIL {SCHEMA}.{row.tableName}").collect()[0].location
        for row in spark.sql(f"SHOW TABLES IN {SCHEMA}").collect()
        if not row.isTemporary
    }
    words = [SCHEMA, cataloged.checkpoint_root, cataloged.landing, plan.digest[:12]]
    words += [f"{name}={location}" for name, location in tables.items()]
    log = tmp_path / "slower.log"
    with log.open("w") as written:
        slower = subprocess.Popen(
            [sys.executable, "-m", "tests.remedies.drive_in_catalog", *words],
            env={**os.environ, VARIABLE: "stop@remedy.before_change"},
            start_new_session=True,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        # Until it stops, or ends.
        _, status = os.waitpid(slower.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), log.read_text()[-3000:]
        assert not any("undo:" in note for note in notes_of(spark, tables["sensor_gold"]))
        undo(spark, cataloged, plan)
        land_more(stood)
        for stage in build_stages(SETTINGS):
            run_stage(spark, cataloged, stage)
        since = contents(spark, stood)
        os.kill(slower.pid, signal.SIGCONT)
        assert slower.wait(timeout=300)
    finally:
        slower.kill()
    assert "was carried on by another process meanwhile" in log.read_text()
    assert contents(spark, stood) == since
    assert_exact(stood)


def notes_of(spark: Any, location: str) -> list[str]:
    return [row.userMetadata or "" for row in spark.sql(f"DESCRIBE HISTORY delta.`{location}`").collect()]


def test_a_commit_that_a_stage_cannot_read_past_is_refused_by_the_tables_history(
    spark: Any, cataloged: Environment
) -> None:
    spark.sql(f"DELETE FROM {cataloged.table('sensor_raw').sql} WHERE offset % 7 = 3").collect()

    with pytest.raises(Refused) as refused:
        run_stage(spark, cataloged, build_stages(SETTINGS)[1])

    assert refused.value.code == "SOURCE_REWRITTEN"
    assert re.search(r"version \d+ \(DELETE, 20.+ UTC\)", refused.value.what)


# By path a fast one is in `make test-all`; in a catalog each of them takes minutes.
@pytest.mark.chaos
@pytest.mark.parametrize("name", [SECOND, FIRST])
def test_remedies_one_after_another(
    spark: Any, stood: Environment, cataloged: Environment, tmp_path: Path, name: str
) -> None:
    lab = Lab(spark, cataloged, tmp_path, lambda readings: land(stood, readings, per_file=10), by_path=stood)
    lab.do(SEEN[name])
