"""Rewinds of tables that a catalog knows by name: their log is asked by SQL, and no file of theirs is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage, read_history_or_tell
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import environment_of_streams, stage_of_stream
from surestart.streams.project_file import parse_project_text
from surestart.words.finding import Verdict
from surestart.words.next_commands import Commands
from tests.checkpoint.rewind_lab import DEDUP, Lab, rows_of
from tests.remedies.remedy import apply, assert_exact, contents, rewind, run_stages, undo
from tests.remedies.test_catalog import cataloged

__all__ = ["cataloged"]
SCHEMA = "rewound_by_name"
PROVIDER = "changelog"


@pytest.mark.chaos
def test_a_stage_goes_back_goes_on_and_is_undone(spark: Any, stood: Environment, cataloged: Environment) -> None:
    before = contents(spark, stood)
    plan = rewind(spark, cataloged, "raw-ingest", 0)
    print("\n".join([*plan.statements, *(step.what for step in plan.steps)]))
    apply(spark, cataloged, plan)
    assert read_checkpoint(cataloged.checkpoint("raw-ingest")).latest_committed == 0
    run_stages(spark, cataloged)
    assert_exact(stood)
    undo(spark, cataloged, plan)
    assert contents(spark, stood) == before
    run_stages(spark, cataloged)
    assert_exact(stood)


@pytest.fixture
def schema(spark: Any, classic_only: None) -> Iterator[str]:
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    yield SCHEMA
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.mark.chaos
def test_a_declared_stream_goes_back_goes_on_and_is_undone(spark: Any, schema: str, tmp_path: Path) -> None:
    lab = Lab(spark, tmp_path / "lab")
    with applied(spark, pairs(EVERYWHERE)), lab.with_settings(PROVIDER):
        place = lab.copy(DEDUP, PROVIDER, "named")
        name = f"spark_catalog.{schema}.ids"
        spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{place.table}'")
        text = f"""
            history = "{tmp_path}/history"
            [stream.ids]
            checkpoint = "{place.checkpoint}"
            source = {{ files = "{lab.input}" }}
            sink = {{ delta-builtin = "{name}", shared = false }}
        """
        project = parse_project_text(tmp_path / "surestart.toml", text)
        environment, stage = environment_of_streams(project), stage_of_stream(project.streams[0])

        def verdict() -> tuple[Verdict, list[str]]:
            commands = Commands(stage.name, environment.name)
            runs = read_history_or_tell(environment, spark, commands)
            judged = judge_stage(environment, stage, runs, commands, session=spark)
            return judged.verdict, [f"{one.code}: {one.evidence}" for one in judged.findings]

        assert verdict()[0] is Verdict.SAFE, verdict()
        before, rows = read_manifest(place.checkpoint), rows_of(DEDUP, place)
        plan = plan_of_stages(spark, environment, [stage], Wanted("rewind", "ids", to_batch=3))
        apply_to_stages(spark, environment, [stage], plan, confirm=plan.target)
        assert verdict()[0] is Verdict.SAFE, verdict()
        lab.run(DEDUP, place)
        assert rows_of(DEDUP, place) == DEDUP.expected
        undo_of_stages(spark, environment, [stage], plan, confirm=plan.target)
        assert (read_manifest(place.checkpoint), rows_of(DEDUP, place)) == (before, rows)
        lab.run(DEDUP, place)
        assert rows_of(DEDUP, place) == rows

        spark.sql(f"INSERT INTO {name} VALUES (-1)")
        with pytest.raises(Refused) as said:
            plan_of_stages(spark, environment, [stage], Wanted("rewind", "ids", to_batch=3))
        assert said.value.code == "OthersHaveWritten"
