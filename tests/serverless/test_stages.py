"""The three stages on the twin: exact over several runs, killed in mid-batch, and where a second look gives nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.facts.delta import read_history
from surestart.runs.runner import BatchProgress, StageRun, run_stage
from surestart.runs.running_query import processing_time
from surestart.runs.stage_failures import StageFailed
from surestart.verdict.explain import explain
from surestart.words.finding import Acceptance
from tests.foundation.rows import account, land, run_all
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin
from tests.serverless.look import acceptance_of, outcome_of

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]
ONE_BY_ONE = {"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"}


def test_files_to_gold_are_exact_over_two_runs_and_counted(spark: Any, environment: Environment) -> None:
    for _ in range(2):
        land(environment, 40)
        runs = run_all(spark, environment)
        assert account(environment).is_exact
        # Progress says 0 of a foreachBatch there: these come from the commits.
        assert [run.rows for run in runs][:2] == [40, 40]
        assert [outcome_of(spark, environment, run.stage) for run in runs] == [("finished", run.rows) for run in runs]
    # Each MERGE is followed by its pair, which says where it is.
    gold = read_history(environment.table("sensor_gold").path)
    pairs = [commit for commit in gold if commit.mark]
    assert [(one.mark.batch_id, one.mark.merged) for one in pairs if one.mark] == [
        (batch, one.version - 1) for batch, one in enumerate(pairs)
    ]
    assert {gold[one.version - 1].operation for one in pairs} == {"MERGE"}
    assert all(one.transactions == ((one.mark.query_id, one.mark.batch_id),) for one in pairs if one.mark)


PLACES = (
    ("raw-ingest", "append.before_commit:2"),
    ("raw-ingest", "append.after_commit:2"),
    ("deserialize", "split.between:2"),
    ("merge-gold", "merge.before_commit:1"),
    ("merge-gold", "merge.before_pair:1"),
    ("merge-gold", "merge.before_pair:2"),
    ("merge-gold", "merge.after_commit:2"),
)


@pytest.mark.parametrize(("killed", "place"), PLACES, ids=[place for _, place in PLACES])
def test_a_worker_killed_in_mid_batch_leaves_nothing_lost_or_doubled(
    spark: Any, environment: Environment, worker_with: Callable[..., None], killed: str, place: str
) -> None:
    land(environment, 40, per_file=20)
    for stage in build_stages(ONE_BY_ONE):
        if stage.name == killed:
            worker_with(SURESTART_FAILPOINT=place)
            with pytest.raises(StageFailed):
                run_stage(spark, environment, stage)
            worker_with()
            assert acceptance_of(environment, stage) == [Acceptance.ACCEPTS] * len(stage.declare(environment).sinks)
        run = run_stage(spark, environment, stage)
        assert (run.replayed is not None) == (stage.name == killed)
    assert account(environment).is_exact


@pytest.mark.parametrize("stage", ["deserialize", "merge-gold"])
def test_a_second_look_that_gives_nothing_stops_the_stage_before_spark_commits(
    spark: Any, environment: Environment, worker_with: Callable[..., None], stage: str
) -> None:
    land(environment, 100, per_file=100)
    stages = {one.name: one for one in build_stages({})}
    run_stage(spark, environment, stages["raw-ingest"])
    if stage == "merge-gold":
        run_stage(spark, environment, stages["deserialize"])
    worker_with(**{twin.EMPTY_SECOND: "1"})
    for _ in range(2):
        with pytest.raises(StageFailed) as stopped:
            run_stage(spark, environment, stages[stage])
        assert stopped.value.code == "BatchShort"
        assert not list((Path(environment.checkpoint(stage)) / "commits").glob("[0-9]*"))
    worker_with()
    for name in ("deserialize", "merge-gold"):
        run_stage(spark, environment, stages[name])
    assert account(environment).is_exact


@pytest.mark.parametrize("stage", ["deserialize", "merge-gold"])
def test_so_does_one_behind_a_batch_that_was_whole(
    spark: Any, environment: Environment, worker_with: Callable[..., None], stage: str
) -> None:
    """Only the first batch of a run is looked at twice on purpose; of every one the commits are compared."""
    stages = {one.name: one for one in build_stages(ONE_BY_ONE)}
    above = list(stages)[: list(stages).index(stage)]
    land(environment, 40, per_file=20)
    for name in above:
        run_stage(spark, environment, stages[name])
    worker_with(**{twin.EMPTY_SECOND: "2"})
    with pytest.raises(StageFailed) as stopped:
        run_stage(spark, environment, stages[stage])
    assert stopped.value.code == "BatchShort"
    assert [path.name for path in (Path(environment.checkpoint(stage)) / "commits").glob("[0-9]*")] == ["0"]


@pytest.mark.parametrize("by_spark", [True, False], ids=["read through Spark", "asked of the query"])
def test_a_worker_that_may_not_read_the_checkpoint_writes_under_its_identity(
    spark: Any, environment: Environment, worker_with: Callable[..., None], by_spark: bool
) -> None:
    if not by_spark:
        worker_with(**{twin.NO_READS: "1"})
    for _ in range(2):
        land(environment, 20)
        run = run_stage(spark, environment, build_stages({})[0])
        newest = read_history(environment.table("sensor_raw").path)[-1]
        assert newest.mark is not None
        assert (newest.mark.query_id, newest.mark.batch_id) == (run.query_id, run.last_batch)


def test_a_worker_without_surestart_is_said_before_the_first_batch(
    spark: Any, environment: Environment, worker_with: Callable[..., None]
) -> None:
    land(environment, 20)
    worker_with(**{twin.MISSING_MODULE: "surestart"})
    with pytest.raises(StageFailed) as stopped:
        run_stage(spark, environment, build_stages({})[0])
    assert stopped.value.code == "ModuleNotInWorker"
    assert "surestart" in stopped.value.what
    assert not (Path(environment.checkpoint("raw-ingest")) / "offsets" / "0").exists()


def test_each_report_has_the_rows_of_its_batch(spark: Any, environment: Environment) -> None:
    land(environment, 60, per_file=20)
    seen: list[BatchProgress] = []
    run: StageRun = run_stage(spark, environment, build_stages(ONE_BY_ONE)[0], on_progress=seen.append)
    assert [(one.batch, one.rows) for one in seen] == [(0, 20), (1, 20), (2, 20)]
    assert run.rows == 60


def test_a_trigger_without_end_is_said_before_the_first_batch(spark: Any, environment: Environment) -> None:
    land(environment, 20)
    raw = build_stages({})[0]
    with pytest.raises(StageFailed) as refused:
        run_stage(spark, environment, raw, trigger=processing_time("10 seconds"))
    assert refused.value.code == twin.NOT_WITHOUT_END
    assert explain(refused.value.code).known
    assert not list(Path(environment.checkpoint("raw-ingest")).glob("offsets/*"))
    assert run_stage(spark, environment, raw).rows == 20
