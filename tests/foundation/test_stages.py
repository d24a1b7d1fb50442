"""The three stages on real Spark and Delta, against an independent count in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.count import read_landed
from sensor_pipeline.merge_gold import to_gold
from sensor_pipeline.records import READING_COLUMNS
from sensor_pipeline.simulate import read_truth
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.delta.log import read_delta_log, read_history
from surestart.runs.runner import run_stage
from tests.foundation.rows import account, land, run_all, table_rows


@pytest.fixture(scope="module")
def finished(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """3,000 records through all stages in several batches, then 500 more."""
    from surestart.environment import environment_from_settings

    root = tmp_path_factory.mktemp("finished")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, 3000)
    run_all(spark, environment, max_files_per_trigger="3")
    land(environment, 500)
    runs = run_all(spark, environment)
    assert [run.rows > 0 for run in runs] == [True, True, True]
    assert runs[0].rows == 500
    return environment


def test_a_column_that_somebody_adds_above_gold_stops_no_batch_of_it(spark: Any) -> None:
    """A MERGE that names a column which the table has not fails, at every start."""
    given = spark.createDataFrame([], f"{READING_COLUMNS}, note STRING")
    own = spark.createDataFrame([], READING_COLUMNS)
    assert to_gold(given).columns == own.columns


def test_nothing_is_lost_duplicated_or_altered(finished: Environment) -> None:
    counted = account(finished)

    assert counted.faults == {}
    assert (counted.produced, counted.raw) == (3500, 3500)
    assert counted.deserialized + counted.quarantined == 3500


def test_exactly_the_planted_bad_records_are_quarantined(spark: Any, finished: Environment) -> None:
    truth = read_truth(Path(finished.root) / "truth.json")
    assert truth is not None
    kinds = dict(truth.kinds)

    reasons = Counter(
        row.reason.split(":")[0]
        for row in spark.read.format("delta").load(finished.table("sensor_quarantine").path).collect()
    )

    assert reasons == {
        "unreadable": kinds["malformed"], "schema": kinds["violation"], "range": kinds["implausible"]
    }  # fmt: skip


def test_raw_keeps_every_byte_and_the_line_it_came_from(spark: Any, finished: Environment) -> None:
    rows = spark.read.format("delta").load(finished.table("sensor_raw").path).collect()

    kept = Counter(((row.source, row.partition, row.offset), bytes(row.payload)) for row in rows)

    assert kept == Counter(read_landed(finished.landing))


def test_the_count_sees_a_lost_a_doubled_and_a_changed_row(spark: Any, finished: Environment, tmp_path: Path) -> None:
    import shutil
    from dataclasses import replace

    copy = replace(finished, root=str(tmp_path), checkpoint_root=str(tmp_path / "ck"))
    shutil.copytree(Path(finished.root) / "tables", tmp_path / "tables")
    raw, gold = copy.table("sensor_raw"), copy.table("sensor_gold")
    one = spark.read.format("delta").load(raw.path).limit(1)
    one.write.format("delta").mode("append").save(raw.path)
    spark.sql(f"DELETE FROM {gold.sql} WHERE sensor_id = 'sensor-00007'")
    spark.sql(f"UPDATE {gold.sql} SET temperature = 1.25 WHERE sensor_id = 'sensor-00008'")

    counted = account(copy)

    assert counted.faults["raw: duplicated"] == 1
    assert counted.faults["gold: lost"] > 0
    assert counted.faults["gold: not the newest reading"] > 0
    assert not counted.is_exact


def test_every_commit_carries_the_query_and_batch_that_wrote_it(finished: Environment) -> None:
    for stage, table in (
        ("raw-ingest", "sensor_raw"),
        ("deserialize", "sensor_readings_deserialized"),
        ("deserialize", "sensor_quarantine"),
        ("merge-gold", "sensor_gold"),
    ):
        checkpoint = Path(finished.checkpoint(stage))
        query_id = json.loads((checkpoint / "metadata").read_text())["id"]
        last_batch = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())

        log = read_delta_log(finished.table(table).path)
        marks = [
            commit.mark for commit in read_history(finished.table(table).path) if commit.operation != "CREATE TABLE"
        ]

        assert log.transactions[query_id].version == last_batch
        assert None not in marks
        assert {mark.query_id for mark in marks if mark} == {query_id}
        assert sorted(mark.batch_id for mark in marks if mark) == list(range(last_batch + 1))


def test_a_run_without_new_data_writes_nothing(spark: Any, finished: Environment) -> None:
    def listing() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in Path(finished.root).rglob("*") if path.is_file()}

    before = listing()
    runs = run_all(spark, finished)

    assert [run.batches for run in runs] == [0, 0, 0]
    assert listing() == before


@pytest.mark.long(instead="foundation/test_merge_nulls.py::test_a_key_with_nulls_is_merged_and_not_added_again")
def test_arrival_order_does_not_change_gold(spark: Any, finished: Environment, tmp_path: Path) -> None:
    """The same files, the later half first: the same gold."""
    from surestart.environment import environment_from_settings

    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    files = sorted(Path(finished.landing).iterdir())
    Path(environment.landing).mkdir()
    for half in (files[3:], files[:3]):
        for file in half:
            (Path(environment.landing) / file.name).write_bytes(file.read_bytes())
        run_all(spark, environment)

    (tmp_path / "truth.json").write_bytes((Path(finished.root) / "truth.json").read_bytes())
    assert account(environment).faults == {}
    assert table_rows(spark, environment, "sensor_gold") == table_rows(spark, finished, "sensor_gold")


def test_a_foreign_table_is_refused_and_left_as_it_is(spark: Any, environment: Environment) -> None:
    land(environment, 10)
    table = environment.table("sensor_raw")
    spark.range(3).write.format("delta").save(table.path)

    with pytest.raises(Refused, match="foreign schema") as refusal:
        run_stage(spark, environment, build_stages({})[0])

    assert "payload binary is missing" in str(refusal.value)
    assert spark.read.format("delta").load(table.path).count() == 3
    assert not Path(environment.checkpoint_root).exists()


def test_transaction_settings_are_gone_after_a_merge_and_after_a_failed_one(spark: Any) -> None:
    from surestart.sinks.delta.transaction import TXN_APP_ID, TXN_VERSION, USER_METADATA, transaction

    seen = []

    def fail_inside() -> None:
        with transaction(spark, "app", 1, "note"):
            seen.append(spark.conf.get(TXN_VERSION))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    assert seen == ["1"]
    assert [spark.conf.get(key, None) for key in (TXN_APP_ID, TXN_VERSION, USER_METADATA)] == [None, None, None]
