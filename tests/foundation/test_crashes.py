"""However a stage stops, its tables end up row for row as one uninterrupted run leaves them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.runs.runner import run_stage
from surestart.runs.stage_failures import StageFailed
from surestart.stage import Stage
from tests.foundation.drive import refusing
from tests.foundation.drive_all import ALL
from tests.foundation.rows import TABLES, account, batch_times, land, run_all, table_rows, times_in, whole_rows

READINGS, PER_FILE = 400, 100


def new_environment(root: Path) -> Environment:
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, READINGS, per_file=PER_FILE)
    return environment


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = new_environment(tmp_path_factory.mktemp("uninterrupted"))
    run_all(spark, environment, max_files_per_trigger="2")
    assert account(environment).faults == {}
    return environment


@pytest.fixture(scope="module")
def uninterrupted(spark: Any, ran: Environment) -> dict[str, Counter[tuple[Any, ...]]]:
    return {table: table_rows(spark, ran, table) for table in TABLES}


def forget_last_commit(environment: Environment, stage: str) -> int:
    """What a crash between the sink's commit and Spark's leaves behind, exactly."""
    commits = Path(environment.checkpoint(stage)) / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def test_a_batch_whose_commit_was_lost_is_replayed_without_a_trace(
    spark: Any, ran: Environment, uninterrupted: dict[str, Counter[tuple[Any, ...]]]
) -> None:
    environment = ran
    before = whole_rows(spark, environment)

    for stage in build_stages({}):
        last = forget_last_commit(environment, stage.name)
        run = run_stage(spark, environment, stage)
        assert (run.replayed, run.first_batch) == (last, last)

    assert whole_rows(spark, environment) == before
    for table in TABLES:
        assert table_rows(spark, environment, table) == uninterrupted[table]
    assert account(environment).faults == {}


def test_a_mark_without_its_rows_is_not_taken_for_the_batch(spark: Any, tmp_path: Path) -> None:
    """Compute that gave no row of the batch at its second look leaves this behind. Then the stage starts on other
    compute, which keeps what it has read."""
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    land(environment, 20, per_file=20)
    raw, deserialize, _ = build_stages({})
    for stage in (raw, deserialize):
        run_stage(spark, environment, stage)
    last = forget_last_commit(environment, "deserialize")
    empty_newest_commit(Path(environment.table("sensor_readings_deserialized").path))

    for _ in range(2):
        with pytest.raises(StageFailed) as stopped:
            run_stage(spark, environment, deserialize)
        assert stopped.value.code == "BatchShort"
        assert not (Path(environment.checkpoint("deserialize")) / "commits" / str(last)).exists()


def empty_newest_commit(table: Path) -> None:
    """What an append of no rows writes: its mark, and no file."""
    log = table / "_delta_log"
    newest = max(log.glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["operationMetrics"].update(numFiles="0", numOutputRows="0", numOutputBytes="0")
    newest.write_text("".join(json.dumps(action) + "\n" for action in actions if "add" not in action))
    for checksum in (newest.with_suffix(".crc"), log / f".{newest.name}.crc"):
        checksum.unlink(missing_ok=True)


# Where each stage is when the driver dies: before its sink's commit, between two of them, or after it. Together the two
# cases kill an append and a MERGE on both sides of the commit; one kill before a commit and one after it are in
# `make test-all`. The raw batch is the last one; the stages below still have some to come.
BEFORE_AND_AFTER = ("append.before_commit:4", "split.between:2", "merge.after_commit:1")
AFTER_AND_BEFORE = ("append.after_commit:4", "split.between:3", "merge.before_commit:1")


@pytest.mark.long(instead="test_a_batch_whose_commit_was_lost_is_replayed_without_a_trace")
@pytest.mark.parametrize(
    "places",
    [
        pytest.param(BEFORE_AND_AFTER, id="before, between, after"),
        pytest.param(AFTER_AND_BEFORE, id="after, between, before", marks=pytest.mark.chaos),
    ],
)
def test_a_driver_killed_while_each_stage_is_in_mid_batch_leaves_nothing_lost_or_doubled(
    spark: Any, tmp_path: Path, uninterrupted: dict[str, Counter[tuple[Any, ...]]], places: tuple[str, ...]
) -> None:
    environment = new_environment(tmp_path)
    die_at(environment, places)
    flying_since: dict[str, int] = {}
    for stage in build_stages({"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"}):
        planned, (flying,) = batch_times(environment, stage.name), in_flight(environment, stage.name)
        run = run_stage(spark, environment, stage)
        assert run.replayed == flying
        assert planned.items() <= batch_times(environment, stage.name).items()
        flying_since[stage.name] = planned[flying]

    for table in TABLES:
        assert table_rows(spark, environment, table) == uninterrupted[table]
    assert account(environment).faults == {}
    # A batch that was planned before the kill and written after it has the time that it was planned with.
    raw, good = batch_times(environment, "raw-ingest"), batch_times(environment, "deserialize")
    assert times_in(spark, environment, "sensor_raw", "ingested_at") == set(raw.values())
    found = times_in(spark, environment, "sensor_readings_deserialized", "deserialized_at")
    assert {flying_since["deserialize"], *(time for batch, time in good.items() if batch > 0)} <= found
    # Its first batch may have found the table of raw rows made, and empty still.
    assert found <= set(good.values())


def die_at(environment: Environment, places: tuple[str, ...]) -> None:
    """A driver of its own has been killed with one batch of each stage planned and not committed."""
    died = subprocess.run(
        [sys.executable, "-m", "tests.foundation.drive_all", environment.root, *places],
        env={**os.environ, "SURESTART_FAILPOINT": ALL},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    assert [len(in_flight(environment, stage.name)) for stage in build_stages({})] == [1, 1, 1]


def in_flight(environment: Environment, stage: str) -> set[int]:
    checkpoint = Path(environment.checkpoint(stage))
    planned, committed = (
        {int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdecimal()}
        for log in ("offsets", "commits")
    )
    return planned - committed


@pytest.mark.long(instead="test_a_batch_whose_commit_was_lost_is_replayed_without_a_trace")
def test_repaired_code_after_a_crash_between_the_two_tables_keeps_each_row_in_one(spark: Any, tmp_path: Path) -> None:
    """Quarantine committed, good rows not; the next version of the code refuses rows that the first accepted."""
    environment, deserialize = deserialized_once(spark, tmp_path)
    forget_last_commit(environment, "deserialize")
    shutil.rmtree(environment.table("sensor_readings_deserialized").path)

    run_stage(spark, environment, refusing_room("room-01", deserialize))

    raw_rows = spark.read.format("delta").load(environment.table("sensor_raw").path)
    position = ["source", "partition", "offset"]
    found: Counter[tuple[Any, ...]] = Counter()
    for table in ("sensor_readings_deserialized", "sensor_quarantine"):
        frame = spark.read.format("delta").load(environment.table(table).path)
        found.update(tuple(row) for row in frame.select(*position).collect())
    assert found == Counter(tuple(row) for row in raw_rows.select(*position).collect())
    closed = spark.read.format("delta").load(environment.table("sensor_quarantine").path)
    assert closed.where("reason = 'range: room closed'").count() > 0

    # The batch is complete now, its late rows included: a third version of the code moves none of them.
    before = whole_rows(spark, environment)
    forget_last_commit(environment, "deserialize")
    run_stage(spark, environment, refusing_room("room-02", deserialize))
    assert whole_rows(spark, environment) == before


@pytest.mark.long(instead="test_a_batch_whose_commit_was_lost_is_replayed_without_a_trace")
def test_repaired_code_after_both_tables_have_the_batch_moves_no_row(spark: Any, tmp_path: Path) -> None:
    """Both commits stand, only Spark's commit file was lost; the next version refuses rows that the first accepted."""
    environment, deserialize = deserialized_once(spark, tmp_path)
    before = whole_rows(spark, environment)
    assert any("'room-01'" in row for row in before["sensor_readings_deserialized"])
    last = forget_last_commit(environment, "deserialize")

    run = run_stage(spark, environment, refusing_room("room-01", deserialize))

    assert run.replayed == last
    assert whole_rows(spark, environment) == before


def deserialized_once(spark: Any, root: Path) -> tuple[Environment, Stage]:
    environment = new_environment(root)
    raw, deserialize, _ = build_stages({})
    run_stage(spark, environment, raw)
    run_stage(spark, environment, deserialize)
    return environment, deserialize


def refusing_room(room: str, stage: Stage) -> Stage:
    return replace(stage, transform=refusing(room, stage.transform))


@pytest.mark.long(instead="gate/test_side_by_side.py::test_a_query_that_somebody_stops_is_noticed_at_once")
def test_ctrl_c_stops_cleanly_and_the_next_run_resumes(
    spark: Any, tmp_path: Path, uninterrupted: dict[str, Counter[tuple[Any, ...]]]
) -> None:
    environment = new_environment(tmp_path)
    command = [sys.executable, "-m", "surestart", "run", "raw-ingest", "--root", environment.root]
    endless = [*command, "--set", "max_files_per_trigger=2", "--trigger", "1 second"]

    with subprocess.Popen(endless, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        shown = ""
        for line in process.stderr:
            shown += line
            if "batch 0" in line:
                process.send_signal(signal.SIGINT)
                break
        shown += process.stderr.read()

    assert process.returncode == 130, shown
    assert "run the same command again" in shown
    assert "Traceback" not in shown
    run_stage(spark, environment, build_stages({"max_files_per_trigger": "2"})[0])
    assert table_rows(spark, environment, "sensor_raw") == uninterrupted["sensor_raw"]
