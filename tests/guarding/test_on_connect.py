"""The guard on Spark Connect: `python -m tests.connect.with_server python -m pytest -m connect tests/guarding`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.history.run_record import FINISHED
from surestart.spark.session import is_connect
from tests.guarding.conftest import Scene, pairs, uncommit

pytestmark = [
    pytest.mark.connect,
    pytest.mark.skipif(not os.environ.get("SPARK_REMOTE"), reason="no SPARK_REMOTE: run by make test-connect"),
]


def test_a_start_is_guarded_and_another_checkpoint_is_refused(scene: Scene) -> None:
    assert is_connect(scene.spark)
    for _ in range(2):
        scene.run()
        scene.land()
    with pytest.raises(surestart.Refused, match="CheckpointNotDeclared"):
        surestart.start(scene.writer().option("checkpointLocation", "/elsewhere"), scene.stream, scene.table)
    with surestart.guard(scene.spark, scene.declared):
        scene.writer().start(scene.table).awaitTermination()
    assert scene.numbers() == scene.landed
    assert [(run.outcome, run.last_batch, run.batches) for run in scene.runs()] == [
        (FINISHED, 0, 1),
        (FINISHED, 1, 1),
        (FINISHED, 2, 1),
    ]


def append_and_copy(batch: Any, batch_id: int, table: str) -> None:
    batch.write.format("delta").mode("append").save(table)
    batch.limit(3).write.format("delta").mode("append").save(f"{table}2")


def test_dataframe_writers_carry_the_pair_and_several_streams_do_not_mix(scene: Scene) -> None:
    table = scene.table

    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        append_and_copy(batch, batch_id, table)

    ids = []
    for _ in range(2):
        query = scene.by_function(write).start()
        query.awaitTermination()
        ids.append(str(query.id))
        uncommit(scene, 0)
    assert ids[0] == ids[1]
    assert pairs(table) == pairs(f"{table}2") == [(ids[0], 0)]
    assert scene.numbers() == scene.landed


def test_a_merge_goes_by_its_own_word_and_is_refused_otherwise(scene: Scene) -> None:
    table = scene.table
    scene.spark.sql(f"CREATE TABLE delta.`{table}` (value STRING) USING delta").collect()
    merge = f"MERGE INTO delta.`{table}` t USING arrived s ON t.value = s.value WHEN NOT MATCHED THEN INSERT *"

    @surestart.once
    def plain(batch: Any, batch_id: int) -> None:
        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(merge).collect()

    def carried(batch: Any, batch_id: int) -> None:
        batch.createOrReplaceTempView("arrived")
        with surestart.once(batch, batch_id) as once:
            once.sql(merge, table=table)

    with pytest.raises(Exception, match="OnceNotCarried"):
        scene.by_function(plain).start().awaitTermination()
    assert not list(Path(table).glob("*.parquet"))
    for _ in range(2):
        query = scene.by_function(carried).start()
        query.awaitTermination()
        uncommit(scene, 0)
    assert pairs(table) == [(str(query.id), 0)]
    assert scene.numbers() == scene.landed
