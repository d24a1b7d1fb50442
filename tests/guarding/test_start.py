"""`surestart.start`: the writer's own start, behind the gate, with its claim and its row in the history."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.guarding.declared import find_declared
from surestart.history.claim_file import claims_folder
from surestart.history.run_record import DIED, FAILED, FINISHED, STOPPED
from surestart.words.finding import Verdict
from tests.guarding.conftest import Scene

RESTART = "spark.sql.streaming.stopActiveRunOnRestart"


def claims(scene: Scene) -> list[Path]:
    folder = claims_folder(find_declared(scene.stream).environment)
    assert folder is not None
    return sorted(folder.glob("*.lock"))


def refusal(scene: Scene, writer: Any = None, stream: Any = None, **given: Any) -> surestart.SurestartError:
    before = scene.bytes()
    with pytest.raises(surestart.SurestartError) as refused:
        surestart.start(writer or scene.writer(), stream or scene.stream, scene.table, **given)
    assert scene.bytes() == before
    return refused.value


def test_a_guarded_start_is_the_writers_own_and_is_in_the_history(scene: Scene) -> None:
    scene.run()
    scene.land()
    query = surestart.start(scene.writer(), scene.stream, scene.table)
    query.awaitTermination()

    first, second = scene.runs()
    assert scene.numbers() == scene.landed
    assert (first.outcome, first.batches, first.rows, first.last_batch) == (FINISHED, 1, 10, 0)
    assert (second.outcome, second.first_batch, second.last_batch) == (FINISHED, 1, 1)
    assert second.query_id == str(query.id) == json.loads((Path(scene.checkpoint) / "metadata").read_text())["id"]
    assert list(second.sinks) == [scene.table]
    assert claims(scene) == []


def test_another_checkpoint_than_the_declared_one_is_refused_before_anything_is_written(scene: Scene) -> None:
    other = scene.writer().option("CheckpointLocation", f"{scene.folder}/ck/another")
    assert refusal(scene, other).code == "CheckpointNotDeclared"
    assert not Path(scene.table).exists()
    assert refusal(scene, scene.writer(), checkpointLocation="another").code == "CheckpointNotDeclared"
    none = scene.rows_of_input().writeStream.format("delta")
    assert refusal(scene, none).code == "WriterWithoutCheckpoint"
    assert claims(scene) == []


@pytest.mark.long(instead="test_another_checkpoint_than_the_declared_one_is_refused_before_anything_is_written")
def test_a_place_is_one_however_it_is_spelled(scene: Scene) -> None:
    link = scene.folder / "link"
    link.symlink_to(scene.folder / "ck")
    (scene.folder / "ck").mkdir()
    for spelled in (f"file:{scene.checkpoint}/", f"{link}/orders", scene.checkpoint.replace("/ck/", "//ck/./")):
        scene.land()
        writer = scene.writer().option("checkpointLocation", spelled)
        surestart.start(writer, scene.stream, scene.table).awaitTermination()
    named = scene.rows_of_input().writeStream.format("delta").queryName("orders").trigger(availableNow=True)
    scene.land()
    scene.spark.conf.set("spark.sql.streaming.checkpointLocation", f"{scene.folder}/ck")
    try:
        surestart.start(named, scene.stream, scene.table).awaitTermination()
    finally:
        scene.spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert scene.numbers() == scene.landed
    assert len({run.query_id for run in scene.runs()}) == 1


def test_another_table_than_the_declared_one_is_refused(scene: Scene) -> None:
    declared = surestart.declare_stream("orders", scene.checkpoint, sink={"delta-builtin": f"{scene.folder}/x"})
    assert refusal(scene, stream=declared).code == "SinkNotDeclared"


def test_a_deleted_checkpoint_is_refused_and_accepting_it_is_not_possible(scene: Scene) -> None:
    scene.run()
    shutil.rmtree(scene.checkpoint)
    error = refusal(scene, accept=["CHECKPOINT_DELETED"])
    assert isinstance(error, surestart.Refused)
    assert scene.numbers() == scene.landed


@pytest.mark.chaos
def test_the_cell_run_again_restarts_its_query_as_spark_does(scene: Scene) -> None:
    scene.spark.conf.set(RESTART, "true")
    try:
        first = surestart.start(scene.writer(processingTime="1 second"), scene.stream, scene.table)
        first.processAllAvailable()
        scene.land()
        again = surestart.start(scene.writer(processingTime="1 second"), scene.stream, scene.table)
        again.processAllAvailable()
        assert (first.isActive, again.isActive, len(claims(scene))) == (False, True, 1)
        again.stop()
    finally:
        scene.spark.conf.set(RESTART, "false")
    assert scene.numbers() == scene.landed
    assert [run.outcome for run in scene.runs()] == [STOPPED, STOPPED]
    assert claims(scene) == []


@pytest.mark.chaos
def test_where_spark_would_not_restart_it_the_cell_is_told_to_stop_it(scene: Scene) -> None:
    query = surestart.start(scene.writer(processingTime="1 second"), scene.stream, scene.table)
    query.processAllAvailable()
    before = len(claims(scene))
    with pytest.raises(surestart.Refused, match=r"running already, started by this process(.|\n)*query\.stop\(\)"):
        surestart.start(scene.writer(), scene.stream, scene.table)
    assert (query.isActive, before) == (True, 1)
    query.stop()
    scene.land()
    scene.run()
    assert scene.numbers() == scene.landed


@pytest.mark.long(instead="test_a_guarded_start_is_the_writers_own_and_is_in_the_history")
def test_a_failed_query_gives_up_its_claim_and_is_in_the_history(scene: Scene) -> None:
    def fails(batch: Any, batch_id: int) -> None:
        raise ValueError("on purpose")

    declared = surestart.declare_stream("orders", scene.checkpoint, sink={"noop": "nowhere"})
    query = surestart.start(scene.by_function(fails), declared)
    with pytest.raises(Exception, match="on purpose"):
        query.awaitTermination()
    (run,) = scene.runs()
    assert (run.outcome, run.batches, claims(scene)) == (FAILED, 0, [])


def test_a_name_is_found_in_the_file_and_an_unknown_one_says_where_it_looked(scene: Scene) -> None:
    text = f'[stream.orders]\ncheckpoint = "{scene.checkpoint}"\nsink = {{ delta-builtin = "{scene.table}" }}\n'
    (scene.folder / "surestart.toml").write_text(text)
    surestart.start(scene.writer(), "orders", scene.table).awaitTermination()
    assert scene.numbers() == scene.landed
    assert (scene.folder / ".surestart" / "streams" / "tables" / "surestart_runs").is_dir()
    assert refusal(scene, stream="ordres").code == "StreamNotDeclared"
    (answer,) = surestart.diagnose(find_declared("orders").environment, _stages_of("orders"))
    assert answer.verdict in (Verdict.SAFE, Verdict.ATTENTION)


def _stages_of(name: str) -> Any:
    from surestart.streams.as_pipeline import stage_of_stream

    return (stage_of_stream(find_declared(name).stream),)


@pytest.mark.long(instead="test_another_table_than_the_declared_one_is_refused")
def test_to_table_is_started_and_compared_by_name(scene: Scene) -> None:
    scene.spark.sql(f"CREATE TABLE guarded_orders (value STRING) USING delta LOCATION '{scene.table}'")
    try:
        surestart.start(scene.writer(), scene.stream, table="guarded_orders").awaitTermination()
        scene.land()
        declared = surestart.declare_stream("orders", scene.checkpoint, sink={"delta-builtin": "default.other"})
        with pytest.raises(surestart.Refused, match="SinkNotDeclared"):
            surestart.start(scene.writer(), declared, table="guarded_orders")
    finally:
        scene.spark.sql("DROP TABLE guarded_orders")


DRIVER = """
import os, sys, surestart
from pathlib import Path
spark = surestart.local_session("driver")
folder, held = sys.argv[1], len(sys.argv) > 2
def write(batch, batch_id):
    with surestart.once(batch, batch_id):
        batch.write.format("delta").mode("append").save(f"{folder}/table")
    if held:
        print("written", flush=True)
        sys.stdin.readline()
rows = spark.readStream.format("text").load(f"{folder}/in").writeStream.foreachBatch(write)
writer = rows.option("checkpointLocation", f"{folder}/ck/orders").trigger(availableNow=True)
orders = surestart.declare_stream("orders", f"{folder}/ck/orders", sink={"foreach-batch": f"{folder}/table"})
try:
    surestart.start(writer, orders).awaitTermination()
except surestart.Refused as refused:
    print(refused.code, flush=True)
    sys.exit(refused.exit_code)
"""


@pytest.mark.chaos
def test_killed_after_its_write_the_next_start_drops_the_batch_and_a_second_driver_is_refused(scene: Scene) -> None:
    command = [sys.executable, "-c", DRIVER, str(scene.folder)]
    pipe = subprocess.PIPE
    driver = subprocess.Popen([*command, "held"], stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert driver.stdout is not None
    try:
        assert driver.stdout.readline().strip() == "written"
        declared = surestart.declare_stream("orders", scene.checkpoint, sink={"foreach-batch": scene.table})
        with pytest.raises(surestart.Refused, match="is running already"):
            surestart.start(scene.by_function(lambda batch, number: None), declared)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert not (Path(scene.checkpoint) / "commits" / "0").exists()

    @surestart.once
    def write(batch: Any, batch_id: int) -> None:
        batch.write.format("delta").mode("append").save(scene.table)

    scene.land()
    surestart.start(scene.by_function(write), declared).awaitTermination()
    assert scene.numbers() == scene.landed
    died, ended = scene.runs()
    assert (died.outcome, ended.outcome, claims(scene)) == (DIED, FINISHED, [])
