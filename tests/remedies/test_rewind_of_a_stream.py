"""A stream with state that surestart does not run, declared in a file: back to a batch, on by its own code, undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage, read_history_or_tell
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, stage_of_stream
from surestart.streams.project_file import ProjectFile
from surestart.streams.stream import Stream
from surestart.words.finding import Verdict
from surestart.words.next_commands import commands_for
from tests.checkpoint.rewind_lab import DEDUP, Lab, Place, query_id_of, rows_of

PROVIDER = "changelog"


@pytest.fixture(scope="module", autouse=True)
def quick(spark: Any) -> Iterator[None]:
    with applied(spark, pairs(EVERYWHERE)):
        yield


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(spark, tmp_path_factory.mktemp("declared") / "lab")


def declared(lab: Lab, place: Place, tmp_path: Path) -> tuple[StreamEnvironment, Any]:
    stream = Stream(
        "ids",
        str(place.checkpoint),
        (SourceDeclaration("files", str(lab.input), str(lab.input)),),
        (SinkDeclaration("delta-builtin", str(place.table), str(place.table), shared=False),),
    )
    project = ProjectFile(tmp_path / "surestart.toml", history=str(tmp_path / "history"), streams=(stream,))
    return environment_of_streams(project), stage_of_stream(stream)


def verdict(spark: Any, environment: StreamEnvironment, stage: Any) -> Verdict:
    commands = commands_for(stage, environment)
    runs = read_history_or_tell(environment, spark, commands)
    return judge_stage(environment, stage, runs, commands, session=spark).verdict


@pytest.mark.long(instead="checkpoint/test_cut.py::test_what_is_written_is_what_was_shown")
def test_a_declared_stream_goes_back_goes_on_and_is_undone(
    spark: Any, lab: Lab, tmp_path: Path, classic_only: None
) -> None:
    with lab.with_settings(PROVIDER):
        place = lab.copy(DEDUP, PROVIDER, "declared")
        environment, stage = declared(lab, place, tmp_path)
        before, rows, former = read_manifest(place.checkpoint), rows_of(DEDUP, place), query_id_of(place)

        plan = plan_of_stages(spark, environment, [stage], Wanted("rewind", "ids", to_batch=4))
        print("\n".join([*plan.statements, *(step.what for step in plan.steps)]))
        assert plan.queries == ("ids",)
        apply_to_stages(spark, environment, [stage], plan, confirm=plan.target)
        assert query_id_of(place) != former
        assert read_checkpoint(str(place.checkpoint)).latest_planned == 4
        assert verdict(spark, environment, stage) is Verdict.SAFE
        lab.run(DEDUP, place)
        assert rows_of(DEDUP, place) == DEDUP.expected
        assert verdict(spark, environment, stage) is Verdict.SAFE

        undo_of_stages(spark, environment, [stage], plan, confirm=plan.target)
        assert read_manifest(place.checkpoint) == before
        assert rows_of(DEDUP, place) == rows
        assert verdict(spark, environment, stage) is Verdict.SAFE
        lab.run(DEDUP, place)
        assert rows_of(DEDUP, place) == rows


@pytest.mark.chaos
def test_state_that_is_damaged_at_the_newest_batch_goes_back_to_the_newest_that_is_whole(
    spark: Any, lab: Lab, tmp_path: Path, classic_only: None
) -> None:
    with lab.with_settings(PROVIDER):
        place = lab.copy(DEDUP, PROVIDER, "damaged")
        environment, stage = declared(lab, place, tmp_path)
        with pytest.raises(Refused, match="is not told to which batch"):
            plan_of_stages(spark, environment, [stage], Wanted("rewind", "ids"))
        for path in place.checkpoint.glob("state/0/0/[78].*"):
            path.unlink()
        assert verdict(spark, environment, stage) is Verdict.UNSAFE
        plan = plan_of_stages(spark, environment, [stage], Wanted("rewind", "ids"))
        apply_to_stages(spark, environment, [stage], plan, confirm=plan.target)
        assert read_checkpoint(str(place.checkpoint)).latest_planned == 5
        lab.run(DEDUP, place)
        assert rows_of(DEDUP, place) == DEDUP.expected
