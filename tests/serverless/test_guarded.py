"""Streams that their owner's code starts, on the twin: a guarded append, and batches written once by a MERGE and by
writers, come again after a kill and are counted exact. What cannot carry a pair there is refused before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import surestart
from surestart.guarding.declared import find_declared
from surestart.guarding.watched import watched_here
from surestart.history.run_record import FAILED, FINISHED, RunRecord
from surestart.history.run_table import read_runs
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import read_project_file
from tests.guarding.conftest import Scene, pairs, uncommit
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]


SCHEMA = "guarded_on_the_twin"


@pytest.fixture
def scene(spark: Any, tmp_path: Path, volumes: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The table below a folder, the checkpoint on what plays /Volumes, and the history in a catalog's schema."""
    monkeypatch.chdir(tmp_path)
    scene = Scene(spark, tmp_path)
    scene.checkpoint = f"{volumes}/ck/orders"
    declared = f'[stream.orders]\ncheckpoint = "{scene.checkpoint}"\n'
    (tmp_path / "surestart.toml").write_text(f'history = "spark_catalog.{SCHEMA}"\n\n{declared}')
    spark.sql(f"CREATE SCHEMA spark_catalog.{SCHEMA}").collect()
    yield scene
    for watched in watched_here():
        watched.stop()
    spark.sql(f"DROP SCHEMA spark_catalog.{SCHEMA} CASCADE").collect()


def runs_of(scene: Scene) -> tuple[RunRecord, ...]:
    return read_runs(find_declared(scene.stream).environment, scene.spark)


def merge_into(table: str) -> str:
    return f"MERGE INTO delta.`{table}` t USING arrived s ON t.value = s.value WHEN NOT MATCHED THEN INSERT *"


def by_hand(scene: Scene, function: Any, **sink: Any) -> Any:
    """A run of the guarded stream whose batches that function writes."""
    declared = surestart.declare_stream("orders", scene.checkpoint, sink=sink or {"foreach-batch": scene.table})
    query = surestart.start(scene.by_function(function), declared)
    query.awaitTermination()
    return query


def test_a_guarded_append_is_exact_over_a_batch_that_comes_again(scene: Scene) -> None:
    scene.run()
    scene.land()
    scene.run()
    uncommit(scene, 1)
    scene.land()
    with surestart.guard(scene.spark, scene.declared):
        scene.writer().start(scene.table).awaitTermination()

    assert scene.numbers() == scene.landed
    assert [(run.outcome, run.last_batch) for run in runs_of(scene)] == [(FINISHED, 0), (FINISHED, 1), (FINISHED, 2)]
    assert [run.rows for run in runs_of(scene)] == [10, 10, 20]


def test_a_merge_once_is_exact_where_its_worker_died_between_the_rows_and_their_pair(scene: Scene) -> None:
    table, keyed = scene.table, {"merge": scene.table, "keys": ["value"]}
    scene.spark.sql(f"CREATE TABLE delta.`{table}` (value STRING) USING delta").collect()

    def dies_behind_its_merge(batch: Any, batch_id: int) -> None:
        import os
        import signal

        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(merge_into(table)).collect()
        os.kill(os.getpid(), signal.SIGKILL)

    def upsert(batch: Any, batch_id: int) -> None:
        batch.createOrReplaceTempView("arrived")
        with surestart.once(batch, batch_id) as once:
            once.sql(merge_into(table), table=table)

    with pytest.raises(StreamingQueryException):
        by_hand(scene, dies_behind_its_merge, **keyed)
    assert scene.numbers() == scene.landed
    for _ in range(2):
        query = by_hand(scene, upsert, **keyed)
        uncommit(scene, 0)
    by_hand(scene, upsert, **keyed)
    scene.land()
    by_hand(scene, upsert, **keyed)

    assert pairs(table) == [(str(query.id), 0), (str(query.id), 1)]
    assert scene.numbers() == scene.landed
    assert [run.outcome for run in runs_of(scene)] == [FAILED, *[FINISHED] * 4]


def test_writers_of_a_batch_carry_the_pair(scene: Scene) -> None:
    table = scene.table

    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        batch.write.format("delta").mode("append").save(table)
        batch.limit(3).write.format("delta").mode("append").save(f"{table}2")

    for _ in range(2):
        query = by_hand(scene, write)
        uncommit(scene, 0)
    assert pairs(table) == pairs(f"{table}2") == [(str(query.id), 0)]
    assert scene.numbers() == scene.landed
    # Progress says 0 of a foreachBatch there: these come from the commits of the declared table.
    assert [run.rows for run in runs_of(scene)] == [10, 10]


def test_a_statement_that_carries_no_pair_is_refused_before_it_runs(scene: Scene) -> None:
    table = scene.table
    scene.spark.sql(f"CREATE TABLE delta.`{table}` (value STRING) USING delta").collect()

    @surestart.once
    def plain(batch: Any, batch_id: int) -> None:
        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(merge_into(table)).collect()

    with pytest.raises(Exception, match="OnceNotCarried"):
        by_hand(scene, plain)
    assert scene.numbers() == {}
    assert [run.outcome for run in runs_of(scene)] == [FAILED]


def test_a_worker_without_surestart_is_said_before_the_first_batch(
    scene: Scene, worker_with: Callable[..., None]
) -> None:
    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        raise AssertionError("no batch is begun")

    worker_with(**{twin.MISSING_MODULE: "surestart"})
    with pytest.raises(surestart.SurestartError) as stopped:
        by_hand(scene, write)
    assert (stopped.value.code, "'surestart'" in stopped.value.what) == ("ModuleNotInWorker", True)
    assert isinstance(stopped.value.__cause__, PySparkException)
    assert not list(Path(scene.checkpoint).glob("offsets/*"))
    assert [(run.outcome, run.error) for run in runs_of(scene)] == [(FAILED, "ModuleNotInWorker")]


class Declared:
    """The stream of a scene with its source and its table, as a remedy sees it."""

    def __init__(self, scene: Scene) -> None:
        self.spark, self.file = scene.spark, Path("surestart.toml")
        self.file.write_text(
            f'history = "spark_catalog.{SCHEMA}"\n\n[stream.orders]\ncheckpoint = "{scene.checkpoint}"\n'
            f'source = {{ files = "{scene.input}" }}\nsink = {{ delta = "{scene.table}", shared = false }}\n'
        )

    def _seen(self) -> tuple[Any, Any]:
        project = read_project_file(self.file.absolute())
        return environment_of_streams(project), pipeline_of_streams(project.streams).build_stages({})

    def apply(self, **wanted: Any) -> Any:
        environment, stages = self._seen()
        # No Jobs API answers here; a fork asks none.
        jobs = None if wanted.get("beside") else "none"
        plan = plan_of_stages(self.spark, environment, stages, Wanted(stage="orders", jobs=jobs, **wanted))
        apply_to_stages(self.spark, environment, stages, plan, confirm=plan.target)
        return plan

    def undo(self, plan: Any) -> None:
        environment, stages = self._seen()
        undo_of_stages(self.spark, environment, stages, plan, confirm=plan.target)


def run_twice(scene: Scene) -> Declared:
    declared = Declared(scene)
    scene.run()
    scene.land()
    scene.run()
    return declared


def test_a_stream_is_rewound_goes_on_and_the_rewind_is_undone(scene: Scene) -> None:
    declared = run_twice(scene)
    before = scene.landed
    plan = declared.apply(remedy="rewind", to_batch=0)
    assert scene.numbers() < before
    scene.land()
    scene.run()
    assert scene.numbers() == scene.landed
    declared.undo(plan)
    assert scene.numbers() == before
    scene.run()
    assert scene.numbers() == scene.landed


def test_a_stream_is_retired_and_comes_back(scene: Scene) -> None:
    declared = run_twice(scene)
    plan = declared.apply(remedy="retire")
    assert not Path(scene.checkpoint).exists()
    declared.undo(plan)
    scene.land()
    scene.run()
    assert scene.numbers() == scene.landed


def test_a_stream_begins_anew_from_a_batch_and_the_undo_brings_its_checkpoint_back(scene: Scene) -> None:
    declared = run_twice(scene)
    plan = declared.apply(remedy="restart", from_batch=1)
    assert "holds batches 1..1 of this query: 10 rows come twice" in "\n".join(plan.statements)
    assert not Path(scene.checkpoint).exists()
    declared.undo(plan)
    scene.land()
    scene.run()
    assert scene.numbers() == scene.landed


def test_a_stream_is_moved_goes_on_and_is_moved_back(scene: Scene) -> None:
    declared, first = run_twice(scene), scene.checkpoint
    there = Path(first).parent.with_name("fast") / "orders"
    there.parent.mkdir()
    plan = declared.apply(remedy="move", to=str(there))
    assert not Path(first).is_dir()
    for place in (str(there), first):
        scene.checkpoint = place
        scene.land()
        scene.run()
        assert scene.numbers() == scene.landed
        if place != first:
            declared.undo(plan)


def test_a_stream_is_forked_run_there_and_the_fork_is_dropped(scene: Scene, tmp_path: Path) -> None:
    declared, beside = run_twice(scene), tmp_path / "fork"
    plan = declared.apply(remedy="rewind", to_batch=0, beside=str(beside))
    fork = str(beside / "tables" / "table")
    assert scene.numbers(fork) < scene.numbers() == scene.landed
    checkpoint, scene.checkpoint = scene.checkpoint, str(beside / "checkpoints" / "orders")
    scene.writer().start(fork).awaitTermination()
    scene.checkpoint = checkpoint
    assert scene.numbers(fork) == scene.numbers() == scene.landed
    declared.undo(plan)
    assert not beside.exists()
    scene.land()
    scene.run()
    assert scene.numbers() == scene.landed


def test_a_trigger_without_end_and_a_writer_without_checkpoint_are_errors_with_a_name(scene: Scene) -> None:
    with pytest.raises(Exception, match=twin.NOT_WITHOUT_END):
        surestart.start(
            scene.rows_of_input().writeStream.format("delta").option("checkpointLocation", scene.checkpoint),
            scene.stream,
            scene.table,
        )
    assert [run.outcome for run in runs_of(scene)] == [FAILED]
    nameless = scene.rows_of_input().writeStream.format("delta").queryName("orders").trigger(availableNow=True)
    with pytest.raises(surestart.UsageError, match="WriterWithoutCheckpoint"):
        surestart.start(nameless, scene.stream, scene.table)
    assert not Path(scene.table).exists()


def test_claims_on_a_file_system_without_locks_are_refused_with_the_place_where_they_can_be(scene: Scene) -> None:
    Path("surestart.toml").unlink()
    with pytest.raises(surestart.CannotTell, match="has no locks") as refused:
        scene.run()
    assert refused.value.code == "CLAIM_NOT_TAKEN"
    assert 'history = "CATALOG.SCHEMA"' in refused.value.meaning
    assert not Path(scene.table).exists()
