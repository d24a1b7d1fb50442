"""The journal says the same whether its files are read or a catalog is asked, and the doctor says what it says."""

from __future__ import annotations

from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.journal.commit_once import PassOverNote, append_pass_over_note
from surestart.journal.journal import (
    BEGUN,
    FINISHED,
    TABLE,
    UNDOING,
    Journal,
    JournalEntry,
    append_entry,
    read_journals,
    read_plan_text,
)
from surestart.remedies.basis.plan import Plan, environment_facts
from surestart.remedies.jobs.state import JobState, StoppedJobs
from surestart.report.html.plan import describe_state
from surestart.verdict.ask_stages import ask_stage
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import commands_for
from tests.remedies.journal_by_hand import write_journal


def test_remedies_come_in_the_order_in_which_they_began(
    spark: Any, environment: Environment, classic_only: None
) -> None:
    first, second = "f" * 64, "a" * 64
    write_journal(environment, first, "finished")
    write_journal(environment, second, "undoing")
    settings = {"catalog": "spark_catalog", "schema": "journal_order", "checkpoint_root": environment.checkpoint_root}
    cataloged = environment_from_settings("dev", "sensor", settings, environ={})
    spark.sql("CREATE SCHEMA journal_order")
    try:
        place = environment.table("surestart_remedies").path
        spark.sql(f"CREATE TABLE {cataloged.table('surestart_remedies').sql} USING delta LOCATION '{place}'")

        journals = read_journals(cataloged, spark)
    finally:
        spark.sql("DROP SCHEMA journal_order CASCADE")

    assert [(one.digest, one.state) for one in journals] == [(first, FINISHED), (second, UNDOING)]
    assert journals == read_journals(environment)


DIGEST = "e" * 64


def test_who_passes_over_what_was_taken_back_is_noted_once_beside_the_entries(
    spark: Any, environment: Environment
) -> None:
    entry = JournalEntry(DIGEST, 0, BEGUN, remedy="reset", stage="raw-ingest", queries=("sensor-raw-ingest",), at=1)
    append_entry(spark, environment, entry, "the plan")
    passing = PassOverNote(DIGEST, "clear:sensor_raw", "a query id")
    for _ in range(2):
        append_pass_over_note(spark, environment.table(TABLE), passing)

    assert read_journals(environment) == (Journal((entry,), (passing,)),)
    assert read_plan_text(spark, environment, DIGEST) == "the plan"


def begun(environment: Environment) -> list[Finding]:
    raw = build_stages({})[0]
    said = ask_stage(environment, raw, commands=commands_for(raw, environment, ("--root", environment.root))).findings
    return [finding for finding in said if finding.code.startswith("REMEDY_")]


@pytest.mark.parametrize("way", ["begun", "undoing", "undoing what was filled"])
def test_the_doctor_says_unsafe_of_a_remedy_half_way(environment: Environment, way: str) -> None:
    write_journal(environment, DIGEST, way)

    (finding,) = begun(environment)

    verb = "apply" if way == "begun" else "undo"
    assert (finding.code, finding.severity) == ("REMEDY_UNFINISHED", Severity.UNSAFE)
    assert str(finding.next).startswith(f"surestart {verb} {DIGEST[:12]} -e local --root {environment.root}")


@pytest.mark.parametrize("way", ["begun", "undoing", "withdrawn"])
def test_a_backfill_is_never_said_to_hold_its_stages(environment: Environment, way: str) -> None:
    write_journal(environment, DIGEST, way, remedy="backfill")
    (journal,) = read_journals(environment)
    plan = Plan("backfill", "raw-ingest", "append", environment_facts(environment), 1, ("raw-ingest",), {}, ())

    said, _ = describe_state(plan, journal)

    assert "no stage that it touches" not in said
    assert ("the stages may run" in said) is (way != "withdrawn")


@pytest.mark.parametrize(("way", "remedy"), [("filling", "reset"), ("begun", "backfill"), ("undoing", "backfill")])
def test_the_doctor_notes_what_goes_on_beside(environment: Environment, way: str, remedy: str) -> None:
    write_journal(environment, DIGEST, way, remedy=remedy)

    (finding,) = begun(environment)

    verb = "undo" if way == "undoing" else "apply"
    assert (finding.code, finding.severity) == ("REMEDY_BESIDE", Severity.INFO)
    assert f"a {remedy} of raw-ingest goes on beside sensor-raw-ingest (digest {DIGEST[:12]}" in finding.evidence
    assert ("stand still" in finding.meaning) is (way == "filling")
    assert str(finding.next).startswith(f"surestart {verb} {DIGEST[:12]} -e local --root {environment.root}")


@pytest.mark.parametrize("way", ["released", "finished", "withdrawn"])
def test_the_doctor_says_nothing_of_a_remedy_that_has_ended(environment: Environment, way: str) -> None:
    write_journal(environment, DIGEST, way)

    assert begun(environment) == []


@pytest.mark.parametrize("way", ["released", "finished", "withdrawn"])
def test_the_doctor_names_the_jobs_that_an_ended_remedy_has_left_paused(environment: Environment, way: str) -> None:
    paused = StoppedJobs((JobState(11, "gold", ("sensor-raw-ingest",), (), ()),)).as_dict()
    write_journal(environment, DIGEST, way, paused=paused)

    (finding,) = begun(environment)

    assert (finding.code, finding.severity) == ("REMEDY_JOBS_PAUSED", Severity.ATTENTION)
    assert "gold (job 11)" in finding.evidence
    verb = "undo" if way == "withdrawn" else "apply"
    assert str(finding.next).startswith(f"surestart {verb} {DIGEST[:12]} -e local --root {environment.root}")


def test_the_job_of_a_retired_query_is_meant_to_stay_paused(environment: Environment) -> None:
    paused = StoppedJobs((JobState(11, "gold", ("sensor-raw-ingest",), (), ()),)).as_dict()
    write_journal(environment, DIGEST, "finished", remedy="retire", paused=paused)

    assert begun(environment) == []
