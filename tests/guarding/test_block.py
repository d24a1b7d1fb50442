"""`surestart.guard`: somebody else's code calls `start`, and meets the same gate."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import surestart
from surestart.history.run_record import FINISHED
from tests.guarding.conftest import Scene


def theirs(scene: Scene, **options: Any) -> Any:
    query = scene.writer().options(**options).start(scene.table)
    query.awaitTermination()
    return query


def test_a_start_in_the_block_is_guarded_and_pyspark_is_as_before_afterwards(scene: Scene) -> None:
    kind = type(scene.writer())
    before = kind.start, kind.toTable
    with surestart.guard(scene.spark, scene.declared):
        theirs(scene)
        scene.land()
        # Their own loop starts it again: judged anew.
        theirs(scene)
    assert (kind.start, kind.toTable) == before
    assert scene.numbers() == scene.landed
    assert [(run.outcome, run.last_batch) for run in scene.runs()] == [(FINISHED, 0), (FINISHED, 1)]


def test_a_stream_that_was_not_declared_may_not_start_in_the_block(scene: Scene) -> None:
    before = scene.bytes()
    with (
        pytest.raises(surestart.Refused, match="CheckpointNotDeclared"),
        surestart.guard(scene.spark, scene.declared),
    ):
        theirs(scene, checkpointLocation=f"{scene.folder}/ck/another")
    assert scene.bytes() == before
    with surestart.guard(scene.spark, scene.declared):
        theirs(scene)
    assert scene.numbers() == scene.landed


def test_an_unsafe_stream_is_refused_before_their_code_runs(scene: Scene) -> None:
    with surestart.guard(scene.spark, scene.declared):
        theirs(scene)
    shutil.rmtree(scene.checkpoint)
    before, entered = scene.bytes(), []
    with pytest.raises(surestart.Refused), surestart.guard(scene.spark, scene.declared):
        entered.append(1)
    assert (scene.bytes(), entered) == (before, [])


@pytest.mark.long(instead="test_a_start_in_the_block_is_guarded_and_pyspark_is_as_before_afterwards")
def test_two_streams_of_one_notebook_each_have_their_gate(scene: Scene) -> None:
    other = surestart.declare_stream("copy", f"{scene.folder}/ck/copy", sink={"delta-builtin": f"{scene.table}2"})
    with surestart.guard(scene.spark, scene.declared, other):
        theirs(scene)
        copied = scene.spark.readStream.format("delta").load(scene.table)
        writer = scene.writer(copied).option("checkpointLocation", other.checkpoint)
        writer.start(f"{scene.table}2").awaitTermination()
    assert scene.numbers(f"{scene.table}2") == scene.landed
    assert sorted(run.stage for run in scene.runs()) == ["copy", "orders"]


def test_what_was_not_started_leaves_no_claim(scene: Scene) -> None:
    with pytest.raises(ZeroDivisionError), surestart.guard(scene.spark, scene.declared):
        raise ZeroDivisionError
    scene.run()
    assert len(scene.runs()) == 1
