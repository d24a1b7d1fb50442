"""A fork of a declared stream: tried with new code, looked at, dropped; and nothing of the original is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import read_project_file
from surestart.words.finding import Verdict
from surestart.words.next_commands import Commands
from tests.checkpoint.rewind_lab import DEDUP, LAST, PLAIN, ROWS, Kind, Lab, Place, Rows, numbers, rows_of

NAME = "ids"


@pytest.fixture(scope="module", autouse=True)
def quick(spark: Any) -> Iterator[None]:
    with applied(spark, pairs(EVERYWHERE)):
        yield


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(spark, tmp_path_factory.mktemp("forked") / "lab")


class Forked(Place):
    """The fork, as its owner's code names it."""

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoints" / NAME

    @property
    def table(self) -> Path:
        return self.root / "tables" / "table"


def declared(file: Path) -> tuple[StreamEnvironment, Any]:
    project = read_project_file(file)
    (stage,) = pipeline_of_streams(project.streams).build_stages({})
    return environment_of_streams(project), stage


def verdict(spark: Any, file: Path) -> Verdict:
    environment, stage = declared(file)
    judged = judge_stage(environment, stage, (), Commands(NAME, environment.name), session=spark)
    print([(one.code, one.evidence) for one in judged.findings])
    return judged.verdict


def everything(place: Place) -> dict[str, Any]:
    """The original byte for byte: checkpoint, data files, and each file of the log."""
    return {"checkpoint": read_manifest(place.checkpoint), "table": read_manifest(place.table)}


def rows_until(kind: Kind, batch: int) -> Rows:
    """What the table held when the batch had been written: one file a batch."""
    return Rows({(number,): 1 for file in range(batch + 1) for number in numbers(file)})


def is_tried_and_dropped(lab: Lab, kind: Kind, provider: str, folder: Path, batch: int) -> None:
    with lab.with_settings(provider):
        place = lab.copy(kind, provider, "forked")
        file = folder / "surestart.toml"
        file.write_text(
            f"[stream.{NAME}]\ncheckpoint = '{place.checkpoint}'\nsource = {{ files = '{lab.input}' }}\n"
            f"sink = {{ delta = '{place.table}', shared = false }}\n"
        )
        before, beside = everything(place), folder / "rehearsal-2026-11-20"
        environment, stage = declared(file)
        plan = plan_of_stages(
            lab.spark, environment, [stage], Wanted("rewind", NAME, to_batch=batch, beside=str(beside))
        )
        print("\n".join([*plan.statements, *(step.what for step in plan.steps)]))
        assert not beside.exists()
        assert plan.queries == ()
        apply_to_stages(lab.spark, environment, [stage], plan, confirm=plan.target)

        fork = Forked(beside)
        assert everything(place) == before
        assert rows_of(kind, fork) == rows_until(kind, batch)
        assert read_checkpoint(str(fork.checkpoint)).latest_planned == batch
        assert verdict(lab.spark, beside / "surestart.toml") is Verdict.SAFE
        assert verdict(lab.spark, file) is Verdict.SAFE

        # By plain Spark to the end of the input: exact rows of the fork, and not a byte of the original.
        lab.run(kind, fork)
        assert rows_of(kind, fork) == kind.expected
        assert everything(place) == before
        lab.spark.sql(f"DELETE FROM delta.`{fork.table}` WHERE id < {ROWS // 2}").collect()
        lab.spark.sql(f"UPDATE delta.`{fork.table}` SET id = -id WHERE id >= {ROWS * 3}").collect()
        assert everything(place) == before
        assert rows_of(kind, place) == kind.expected

        (beside / "notes.txt").write_text("somebody's")
        with pytest.raises(Refused) as refused:
            undo_of_stages(lab.spark, environment, [stage], plan, confirm=plan.target)
        assert refused.value.code == "ForkHoldsOthers"
        assert rows_of(kind, fork)
        (beside / "notes.txt").unlink()
        undo_of_stages(lab.spark, environment, [stage], plan, confirm=plan.target)
        assert [path.name for path in folder.iterdir() if "rehearsal" in path.name] == []
        assert everything(place) == before
        lab.run(kind, place)
        assert rows_of(kind, place) == kind.expected


@pytest.mark.long(instead="remedies/test_fork_folder.py::test_a_fork_is_dropped_and_nothing_beside_it")
def test_a_stream_with_state_is_forked_in_the_middle_tried_and_dropped(
    lab: Lab, tmp_path: Path, classic_only: None
) -> None:
    is_tried_and_dropped(lab, DEDUP, "changelog", tmp_path, 6)


@pytest.mark.long(instead="remedies/test_fork_folder.py::test_a_fork_is_dropped_and_nothing_beside_it")
def test_a_stream_without_state_is_forked_at_its_newest_batch(lab: Lab, tmp_path: Path, classic_only: None) -> None:
    """At the batch where it stands: what comes next is tried by new code, before it is deployed."""
    with lab.with_settings("hdfs"):
        place = lab.copy(PLAIN, "hdfs", "newest")
        file, beside = tmp_path / "surestart.toml", tmp_path / "fork"
        file.write_text(
            f"[stream.{NAME}]\ncheckpoint = '{place.checkpoint}'\nsource = {{ files = '{lab.input}' }}\n"
            f"sink = {{ delta = '{place.table}', shared = false }}\n"
        )
        environment, stage = declared(file)
        plan = plan_of_stages(lab.spark, environment, [stage], Wanted("rewind", NAME, beside=str(beside)))
        apply_to_stages(lab.spark, environment, [stage], plan, confirm=plan.target)
        fork, before = Forked(beside), everything(place)
        assert json.loads((beside / "fork.json").read_text())["batch"] == LAST
        more = lab.input / "part-30.json"
        more.write_text('{"id":3000,"s":1}\n{"id":3001,"s":1}\n')
        writer = PLAIN.query(lab.read).writeStream.format("delta").outputMode("append")
        writer = writer.option("checkpointLocation", str(fork.checkpoint)).trigger(availableNow=True)
        query = surestart.start(writer, NAME, str(fork.table), file=beside / "surestart.toml")
        assert query.awaitTermination(300)
        assert rows_of(PLAIN, fork) == PLAIN.expected + Rows({(3000,): 1, (3001,): 1})
        assert everything(place) == before
        undo_of_stages(lab.spark, environment, [stage], plan, confirm=plan.target)
        assert not beside.exists()
        # The stream goes on as if nothing had been.
        lab.run(PLAIN, place)
        assert rows_of(PLAIN, place) == PLAIN.expected + Rows({(3000,): 1, (3001,): 1})
        more.unlink()
