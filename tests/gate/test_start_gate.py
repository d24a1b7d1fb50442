"""Unsafe starts are refused before anything is touched; a refusal leaves checkpoint and tables byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.records import RAW_COLUMNS
from sensor_pipeline.stages import build_stages
from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.errors import EXIT_CANNOT_TELL, EXIT_REFUSED, CannotTell, Refused, SurestartError
from surestart.facts.delta import read_delta_log, read_history
from surestart.history.claim_file import claims_folder, take_claim
from surestart.history.claim_row import claim_by_row
from surestart.history.describe_run import read_process_start
from surestart.history.run_record import DIED, FINISHED, RunRecord
from surestart.history.run_table import append_runs, read_batches, read_runs
from surestart.runs.runner import processing_time, run_stage
from surestart.runs.running_query import start_query
from surestart.runs.start_gate import describe_run
from surestart.sinks.delta.append import DeltaAppend
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.stage import Stage
from tests.foundation.rows import account, land
from tests.gate.tree_bytes import bytes_of

RAW = build_stages({})[0]


def checkpoint_of(environment: Environment) -> Path:
    return Path(environment.checkpoint("raw-ingest"))


def refusal(spark: Any, environment: Environment, stage: Stage = RAW, **more: Any) -> SurestartError:
    before = bytes_of(environment)
    with pytest.raises(SurestartError) as refused:
        run_stage(spark, environment, stage, **more)
    assert bytes_of(environment) == before
    assert refused.value.next
    return refused.value


def test_a_run_is_one_row_that_says_who_ran_what_and_how_far(spark: Any, stood: Environment) -> None:
    (run,) = read_runs(stood)
    table = stood.table("surestart_runs")

    assert (run.query, run.stage, run.environment, run.outcome) == (
        "sensor-raw-ingest",
        "raw-ingest",
        "local",
        FINISHED,
    )
    assert (run.first_batch, run.last_batch, run.batches, run.rows) == (0, 0, 1, 20)
    assert run.query_id == json.loads((checkpoint_of(stood) / "metadata").read_text())["id"]
    assert run.sinks == {stood.table("sensor_raw").path: read_delta_log(stood.table("sensor_raw").path).table_id}
    assert run.declaration["sources"][0]["target"] == stood.landing
    assert (run.fingerprint, run.pid) == (RAW.declare(stood).fingerprint, os.getpid())
    assert (run.checkpoint, run.place) == (str(checkpoint_of(stood)), str(checkpoint_of(stood).resolve()))
    assert run.spark == spark.version
    assert run.ended_at is not None
    assert run.ended_at > run.started_at
    assert len(read_history(table.path)) == 1
    (metric,) = read_batches(stood)[run.query_id]
    assert (metric["batch"], metric["rows"]) == (0, 20)
    assert metric["phases"]["addBatch"] > 0
    # What the note of the commit says, the row says as well.
    (row,) = spark.read.format("delta").load(table.path).collect()
    assert (row.run_id, row.query_id, row.last_batch) == (run.run_id, run.query_id, 0)


def delete_checkpoint(environment: Environment) -> None:
    shutil.rmtree(checkpoint_of(environment))


def empty_checkpoint(environment: Environment) -> None:
    for name in ("offsets", "commits"):
        shutil.rmtree(checkpoint_of(environment) / name)


def swap_identity(environment: Environment) -> None:
    (checkpoint_of(environment) / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (checkpoint_of(environment) / ".metadata.crc").unlink(missing_ok=True)


def tear_offsets(environment: Environment) -> None:
    (checkpoint_of(environment) / "offsets" / "0").write_text("v1\n{")
    (checkpoint_of(environment) / "offsets" / ".0.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (delete_checkpoint, "CHECKPOINT_DELETED"),
        (empty_checkpoint, "CHECKPOINT_DELETED"),
        (swap_identity, "CHECKPOINT_SWAPPED"),
        (tear_offsets, ""),
    ],
)
def test_a_harmed_checkpoint_is_refused_and_left_as_it_is(
    spark: Any, stood: Environment, harm: Callable[[Environment], None], code: str
) -> None:
    harm(stood)
    error = refusal(spark, stood)
    assert isinstance(error, Refused)
    assert error.exit_code == EXIT_REFUSED
    assert code in error.code
    assert "surestart plan" in str(error.next)
    assert "Nothing was changed." in error.meaning


def test_a_path_that_changes_is_refused(spark: Any, stood: Environment) -> None:
    moved = replace(stood, checkpoint_root=f"{stood.root}/elsewhere")
    error = refusal(spark, moved)
    assert error.code == "CHECKPOINT_PATH_CHANGED"
    assert "never comes back" in error.meaning


def test_a_registered_checkpoint_is_not_exchanged_for_another_by_a_setting(spark: Any, stood: Environment) -> None:
    """As `bundle run JOB -- … --set=checkpoint_root=…` would, with a copy that has batches and the same identity."""
    other = replace(stood, checkpoint_root=f"{stood.root}/elsewhere")
    shutil.copytree(stood.checkpoint_root, other.checkpoint_root)
    error = refusal(spark, other)
    assert (error.code, error.exit_code) == ("CHECKPOINT_PATH_CHANGED", EXIT_CANNOT_TELL)
    assert str(checkpoint_of(stood).resolve()) in error.what
    assert "--accept CHECKPOINT_PATH_CHANGED" in str(error.next)
    # Moved for good: said once, and registered from then on.
    land(other, 20)
    run_stage(spark, other, RAW, accept=("CHECKPOINT_PATH_CHANGED",))
    land(other, 20)
    assert run_stage(spark, other, RAW).rows == 20
    assert refusal(spark, stood).code != ""


def test_another_query_at_the_same_folder_is_refused_through_a_link(spark: Any, stood: Environment) -> None:
    link = Path(stood.root) / "link"
    link.symlink_to(stood.checkpoint_root)
    append_runs(
        spark, stood, [replace(describe_run(spark, stood, RAW), query="sensor-other", query_id="7", outcome=FINISHED)]
    )
    through_link = replace(stood, checkpoint_root=str(link))
    error = refusal(spark, through_link)
    assert error.code == "CHECKPOINT_SHARED"
    assert "sensor-other" in error.what


@pytest.mark.parametrize(
    "changed", [replace(RAW, state=("deduplicate",)), replace(RAW, source=build_stages({})[1].source)]
)
def test_an_unsafe_change_of_the_code_is_refused(spark: Any, stood: Environment, changed: Stage) -> None:
    error = refusal(spark, stood, changed)
    assert isinstance(error, Refused)
    assert "CHANGED" in error.code or "CHANGE_UNSAFE" in error.what


def test_what_cannot_be_told_starts_only_when_accepted_and_the_history_says_so(spark: Any, stood: Environment) -> None:
    delete_checkpoint(stood)
    shutil.rmtree(stood.table("sensor_raw").path)

    error = refusal(spark, stood)
    assert isinstance(error, CannotTell)
    assert (error.code, error.exit_code) == ("CHECKPOINT_DELETED", EXIT_CANNOT_TELL)
    assert "--accept CHECKPOINT_DELETED" in str(error.next)
    assert refusal(spark, stood, accept=("SOMETHING_ELSE",)).code == "CHECKPOINT_DELETED"

    assert run_stage(spark, stood, RAW, accept=("CHECKPOINT_DELETED",)).rows == 20
    assert read_runs(stood)[-1].accepted == ("CHECKPOINT_DELETED",)
    # The new identity is the registered one now.
    assert run_stage(spark, stood, RAW).batches == 0


def test_a_live_query_is_not_started_twice(spark: Any, stood: Environment) -> None:
    path = claims_folder(stood) / "sensor-raw-ingest.lock"  # type: ignore[operator]
    owner = take_claim(path)
    assert owner is not None
    owner.write(replace(describe_run(spark, stood, RAW), job_run="4711"))

    error = refusal(spark, stood)

    assert error.code == "OWNER_RUNNING"
    assert f"process {os.getpid()}" in error.what
    assert "job run 4711" in error.what
    assert "last batch committed: 0" in error.what
    owner.release(clear=True)
    assert run_stage(spark, stood, RAW).batches == 0


def test_a_query_that_runs_without_a_claim_is_not_killed_by_a_start(spark: Any, stood: Environment) -> None:
    """As on Spark Connect, whose server goes on after the driver, and its claim with it, has gone."""
    land(stood, 10)
    with applied(spark, pairs(EVERYWHERE)):
        orphan = start_query(spark, stood, RAW, trigger=processing_time("1 seconds"))
    try:
        with pytest.raises(Refused) as refused:
            run_stage(spark, stood, RAW)
        assert refused.value.code == "QUERY_ACTIVE"
        assert orphan.poll(0.1) is False
    finally:
        orphan.stop()
    run_stage(spark, stood, RAW)
    assert not {fault for fault in account(stood).faults if fault.startswith("raw")}


def dead_run(spark: Any, environment: Environment) -> RunRecord:
    """The record of a process that was killed: its id may live again, its start never."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = read_process_start(process.pid)
    process.kill()
    process.communicate()
    query_id = read_runs(environment)[-1].query_id
    own = describe_run(spark, environment, RAW)
    return replace(own, run_id="died-1", query_id=query_id, pid=process.pid, process_started=started)


def test_a_dead_owner_is_followed_and_both_runs_are_in_the_history(spark: Any, stood: Environment) -> None:
    dead = dead_run(spark, stood)
    claim = take_claim(claims_folder(stood) / "sensor-raw-ingest.lock")  # type: ignore[operator]
    assert claim is not None
    claim.write(dead)
    claim.release(clear=False)
    assert [run.run_id for run in read_runs(stood)][-1] == "died-1"

    run_stage(spark, stood, RAW)

    died, last = read_runs(stood)[-2:]
    assert (died.run_id, died.outcome, died.last_batch) == ("died-1", DIED, 0)
    assert last.outcome == FINISHED
    assert f"process {dead.pid} has gone" in last.taken_over
    assert list(claims_folder(stood).iterdir()) == []  # type: ignore[union-attr]


def test_a_history_that_cannot_be_written_does_not_fail_the_stream(
    spark: Any, stood: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Path(stood.table("surestart_runs").path)
    log = runs / "_delta_log"
    # As a newer Delta leaves it: everybody may read, and this one may not write.
    newest = max(int(path.stem) for path in log.glob("*.json"))
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 99}}
    (log / f"{newest + 1:020}.json").write_text(json.dumps(protocol))
    land(stood, 10)

    assert run_stage(spark, stood, RAW).rows == 10

    said = capsys.readouterr().err
    assert "HistoryNotWritten" in said
    assert [line.split(":")[0] for line in said.splitlines()[1:4]] == ["Meaning", "Next", "Do not"]
    assert not {"raw: lost", "raw: duplicated"} & account(stood).faults.keys()

    # The next run that can write it does so.
    shutil.rmtree(runs)
    land(stood, 10)
    run_stage(spark, stood, RAW)
    assert [run.rows for run in read_runs(stood)] == [10, 10]


@dataclass(frozen=True)
class Unreadable(DeltaAppend):
    """A sink that cannot be asked any more once its stage has written, a revoked right for example."""

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        if (Path(environment.root) / "revoked").exists():
            raise PermissionError("may not read it any more")
        return DeltaAppend.declare(self, environment)


def test_what_cannot_be_read_at_the_end_of_a_run_does_not_fail_the_stream(
    spark: Any, stood: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    revoked = Path(stood.root) / "revoked"
    land(stood, 10)
    stage = replace(RAW, sink=Unreadable("sensor_raw", RAW_COLUMNS))

    assert run_stage(spark, stood, stage, on_progress=lambda progress: revoked.touch()).rows == 10

    assert "may not read it any more" in capsys.readouterr().err
    assert not {"raw: lost", "raw: duplicated"} & account(stood).faults.keys()
    revoked.unlink()
    land(stood, 10)
    run_stage(spark, stood, RAW)
    assert [run.rows for run in read_runs(stood)] == [20, 10, 10]


def test_of_two_claims_by_row_exactly_one_owns_the_query(spark: Any, stood: Environment) -> None:
    for _ in range(2):
        runs = read_runs(stood)
        barrier = threading.Barrier(2)
        answers: list[bool] = []

        def claim(runs: Any = runs, barrier: threading.Barrier = barrier, answers: list[bool] = answers) -> None:
            record = describe_run(spark, stood, RAW)
            barrier.wait()
            ours, owner = claim_by_row(spark, stood, record, runs)
            answers.append(ours.run_id == owner.run_id)

        drivers = [threading.Thread(target=claim) for _ in range(2)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        assert sorted(answers) == [False, True]
    epochs = [run.epoch for run in read_runs(stood) if run.epoch is not None]
    assert epochs == [1, 2]
