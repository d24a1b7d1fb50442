"""The certificate counts exactly what was done to real tables, and nothing where nothing was done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli.main import main
from surestart.environment import Environment, environment_from_settings
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.count.certificate import Certificate, certify
from surestart.remedies.count.counts import Gap, StageCount
from surestart.runs.runner import run_stage, run_ungated
from tests.foundation.rows import account, land, run_all

RAW, GOOD, QUARANTINE, GOLD = "sensor_raw", "sensor_readings_deserialized", "sensor_quarantine", "sensor_gold"


def certificate(spark: Any, environment: Environment, only: str = "", **options: Any) -> Certificate:
    """only: of one stage, where the test is about no other; each one counted costs seconds."""
    stages = [stage for stage in build_stages({}) if only in ("", stage.name)]
    return certify(spark, environment, read_chain(environment, stages), **options)


def stage(found: Certificate, name: str) -> StageCount:
    return next(one for one in found.stages if one.stage == name)


def rows_of(spark: Any, environment: Environment, table: str) -> Any:
    return spark.read.format("delta").load(environment.table(table).path)


def append(rows: Any, environment: Environment, table: str) -> None:
    rows.write.format("delta").mode("append").save(environment.table(table).path)


@pytest.fixture(scope="module")
def healthy(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """1,100 records in several batches, from files with blanks and signs in their names."""
    root = tmp_path_factory.mktemp("healthy")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, 900, per_file=300)
    first = min(Path(environment.landing).iterdir())
    first.rename(first.with_name("a b+c%20ü.jsonl"))
    run_all(spark, environment, max_files_per_trigger="2")
    land(environment, 200, per_file=200)
    run_all(spark, environment)
    return environment


@pytest.fixture
def pipeline(healthy: Environment, tmp_path: Path) -> Environment:
    """Its tables and checkpoints at another place, over the same landed files: positions hold their paths."""
    copy = tmp_path / "root"
    for part in ("tables", "checkpoints"):
        shutil.copytree(Path(healthy.root) / part, copy / part)
    return replace(healthy, root=str(copy), checkpoint_root=str(copy / "checkpoints"))


@pytest.fixture
def landing(healthy: Environment, tmp_path: Path) -> Iterator[Path]:
    """The landed files, as they were again after the test."""
    saved = tmp_path / "landed"
    shutil.copytree(healthy.landing, saved)
    yield Path(healthy.landing)
    shutil.rmtree(healthy.landing)
    shutil.copytree(saved, healthy.landing)


def test_a_healthy_pipeline_is_exact(spark: Any, healthy: Environment) -> None:
    assert account(healthy).faults == {}

    found = certificate(spark, healthy)

    assert (found.verdict, dict(found.faults), found.gaps) == ("exact", {}, ())
    raw, deserialize, gold = found.stages
    assert (raw.counts.input, raw.counts.rows, raw.counts.distinct, raw.counts.pending) == (1100, 1100, 1100, 0)
    assert (deserialize.counts.input, deserialize.counts.rows, deserialize.counts.distinct) == (1100, 1100, 1100)
    assert gold.counts.rows == gold.counts.input == gold.counts.distinct == rows_of(spark, healthy, GOLD).count()
    assert sorted((place.first, place.last, place.counts.rows) for place in raw.places) == [
        (0, 199, 200), (0, 299, 300), (0, 299, 300), (0, 299, 300)
    ]  # fmt: skip


def test_a_row_taken_out_of_raw_is_one_lost_row_and_one_gap(spark: Any, pipeline: Environment) -> None:
    where = spark.sql(f"SELECT min(source) FROM {pipeline.table(RAW).sql}").collect()[0][0]
    spark.sql(f"DELETE FROM {pipeline.table(RAW).sql} WHERE source = '{where}' AND offset = 63")

    found = certificate(spark, pipeline)

    assert dict(found.faults) == {"raw-ingest positions: lost": 1, "deserialize positions: from nowhere": 1}
    assert found.gaps == (Gap("raw-ingest", where, 0, 63, 63, 1),)
    assert (found.lost, found.duplicated, found.verdict) == (1, 0, "not exact")
    assert [place.source for place in stage(found, "raw-ingest").places if place.counts.faults] == [where]


@pytest.mark.long(instead="test_a_row_taken_out_of_raw_is_one_lost_row_and_one_gap")
def test_runs_of_lost_rows_are_gaps_newest_first(spark: Any, pipeline: Environment) -> None:
    where = spark.sql(f"SELECT min(source) FROM {pipeline.table(RAW).sql}").collect()[0][0]
    spark.sql(
        f"DELETE FROM {pipeline.table(RAW).sql} WHERE source = '{where}'"
        " AND (offset BETWEEN 10 AND 201 OR offset IN (203, 299))"
    )

    found = certificate(spark, pipeline, only="raw-ingest")

    runs = [(gap.first, gap.last, gap.rows) for gap in found.gaps]
    assert runs == [(299, 299, 1), (203, 203, 1), (10, 201, 192)]
    assert (found.lost, stage(found, "raw-ingest").gaps_complete) == (194, True)


def test_a_file_that_was_read_and_has_no_row_is_lost_not_pending(spark: Any, pipeline: Environment) -> None:
    """Its name has a blank, a plus and a percent sign, which the checkpoint's list spells in its own way."""
    raw = pipeline.table(RAW).sql
    where = spark.sql(f"SELECT DISTINCT source FROM {raw} WHERE source LIKE '%/a b%'").collect()[0][0]
    spark.sql(f"DELETE FROM {raw} WHERE source = '{where}'")

    found = stage(certificate(spark, pipeline, only="raw-ingest"), "raw-ingest")

    assert (found.counts.lost, found.counts.pending) == (300, 0)
    assert found.gaps == (Gap("raw-ingest", where, 0, 0, 299, 300),)


def test_a_doubled_raw_row_is_one_duplicate(spark: Any, pipeline: Environment) -> None:
    append(rows_of(spark, pipeline, RAW).limit(1), pipeline, RAW)

    found = certificate(spark, pipeline, only="raw-ingest")

    assert dict(found.faults) == {"raw-ingest positions: duplicated": 1}
    assert (found.lost, found.duplicated) == (0, 1)
    assert stage(found, "raw-ingest").counts.distinct == 1100


def test_one_row_lost_and_another_doubled_do_not_cancel_out(spark: Any, pipeline: Environment) -> None:
    append(rows_of(spark, pipeline, RAW).where("offset = 7").limit(1), pipeline, RAW)
    spark.sql(f"DELETE FROM {pipeline.table(RAW).sql} WHERE source LIKE '%/a b%' AND offset = 8")

    found = stage(certificate(spark, pipeline, only="raw-ingest"), "raw-ingest").counts

    assert (found.rows, found.lost, found.duplicated) == (1100, 1, 1)


@pytest.mark.long(instead="foundation/test_count.py::test_what_was_altered_doubled_or_taken_for_good_is_seen")
def test_a_row_that_is_good_and_quarantined_is_counted(spark: Any, pipeline: Environment) -> None:
    columns = rows_of(spark, pipeline, QUARANTINE).columns
    row = rows_of(spark, pipeline, GOOD).limit(1).selectExpr("*", "CAST(NULL AS BINARY) payload", "'range: x' reason")
    append(row.select(*columns), pipeline, QUARANTINE)

    found = certificate(spark, pipeline, only="deserialize")

    assert dict(found.faults) == {"deserialize positions: in both": 1, "deserialize positions: duplicated": 1} or dict(
        found.faults
    ) == {"deserialize positions: in both": 1}
    assert (found.lost, found.duplicated) == (0, 1)


@pytest.mark.long(instead="foundation/test_count.py::test_a_record_is_lost_at_the_first_hop_that_lacks_it")
def test_a_row_neither_good_nor_quarantined_is_lost(spark: Any, pipeline: Environment) -> None:
    row = rows_of(spark, pipeline, QUARANTINE).limit(1).collect()[0]
    spark.sql(f"DELETE FROM {pipeline.table(QUARANTINE).sql} WHERE source = '{row.source}' AND offset = {row.offset}")

    found = certificate(spark, pipeline, only="deserialize")

    assert dict(found.faults) == {"deserialize positions: lost": 1}
    assert found.gaps == (Gap("deserialize", row.source, 0, row.offset, row.offset, 1),)


def two_versions(spark: Any, environment: Environment) -> tuple[Any, Any]:
    """(older, newest) good rows of one key."""
    rows = rows_of(spark, environment, GOOD).orderBy("revision", "source", "partition", "offset").collect()
    by_key: dict[Any, list[Any]] = {}
    for row in rows:
        by_key.setdefault((row.sensor_id, row.reading_time), []).append(row)
    found = next(same for same in by_key.values() if len(same) > 1)
    return found[0], found[-1]


def where_key(row: Any) -> str:
    return f"sensor_id = '{row.sensor_id}' AND reading_time = TIMESTAMP '{row.reading_time}'"


def test_gold_with_an_older_row_is_wrong_and_names_the_newest(spark: Any, pipeline: Environment) -> None:
    older, newest = two_versions(spark, pipeline)
    gold = pipeline.table(GOLD).sql
    spark.sql(f"DELETE FROM {gold} WHERE {where_key(older)}")
    same = rows_of(spark, pipeline, GOOD).where(f"source = '{older.source}' AND offset = {older.offset}")
    append(same, pipeline, GOLD)

    found = certificate(spark, pipeline, only="merge-gold")

    assert dict(found.faults) == {"merge-gold keys: wrong": 1}
    assert found.lost == 1
    assert found.gaps == (Gap("merge-gold", newest.source, 0, newest.offset, newest.offset, 1),)
    assert older.sensor_id in stage(found, "merge-gold").examples[0]


LONG = pytest.mark.long(instead="test_each_fault_of_gold_is_counted")


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ("UPDATE {gold} SET temperature = temperature + 1 WHERE {key}", {"wrong": 1}),
        ("DELETE FROM {gold} WHERE {key}", {"lost": 1}),
        ("INSERT INTO {gold} SELECT * FROM {gold} WHERE {key}", {"duplicated": 1}),
        pytest.param("UPDATE {gold} SET sensor_id = 'nobody' WHERE {key}", {"lost": 1, "from nowhere": 1}, marks=LONG),
        pytest.param("UPDATE {gold} SET revision = 999 WHERE {key}", {"from nowhere": 1}, marks=LONG),
    ],
)
def test_each_fault_of_gold_is_counted(spark: Any, pipeline: Environment, change: str, faults: dict[str, int]) -> None:
    row = rows_of(spark, pipeline, GOLD).limit(1).collect()[0]
    spark.sql(change.format(gold=pipeline.table(GOLD).sql, key=where_key(row)))

    found = certificate(spark, pipeline, only="merge-gold")

    assert dict(found.faults) == {f"merge-gold keys: {name}": number for name, number in faults.items()}


@pytest.mark.chaos
def test_what_no_stage_has_come_to_is_pending_at_its_stage_only(
    spark: Any, pipeline: Environment, landing: Path
) -> None:
    (landing / "zz new.jsonl").write_bytes(b"\n".join(b"not a reading %d" % number for number in range(70)))

    found = certificate(spark, pipeline)
    assert (found.verdict, [one.counts.pending for one in found.stages]) == ("exact", [70, 0, 0])

    run_stage(spark, pipeline, build_stages({})[0])
    found = certificate(spark, pipeline)
    assert (found.verdict, [one.counts.pending for one in found.stages]) == ("exact", [0, 70, 0])

    # A hole in what deserialize has passed is still lost, although the table has moved on.
    row = rows_of(spark, pipeline, QUARANTINE).limit(1).collect()[0]
    spark.sql(f"DELETE FROM {pipeline.table(QUARANTINE).sql} WHERE source = '{row.source}' AND offset = {row.offset}")
    counts = stage(certificate(spark, pipeline), "deserialize").counts
    assert (counts.lost, counts.pending) == (1, 70)

    # The version that deserialize has read is no more: nobody can tell one from the others.
    log = Path(pipeline.table(RAW).path) / "_delta_log"
    versions = sorted(int(path.stem) for path in log.glob("*.json"))
    spark.sql(f"ALTER TABLE {pipeline.table(RAW).sql} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    append(rows_of(spark, pipeline, RAW).limit(0), pipeline, RAW)
    for version in versions:
        (log / f"{version:020}.json").unlink()
    found = certificate(spark, pipeline)
    counts = stage(found, "deserialize").counts
    assert (found.verdict, counts.lost, counts.undecided) == ("cannot tell", 0, 71)


@pytest.mark.chaos
def test_a_batch_in_flight_is_no_fault(spark: Any, pipeline: Environment, landing: Path) -> None:
    """deserialize and gold have written a batch that their checkpoints have not committed."""
    older, newest = two_versions(spark, pipeline)
    payload = json.dumps(
        {
            "sensor_id": newest.sensor_id,
            "reading_time": newest.reading_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "revision": newest.revision + 1,
            "temperature": 20.0,
            "humidity": 50.0,
            "battery": 50.0,
        }
    )
    (landing / "zz.jsonl").write_text(payload)
    checkpoints = [Path(pipeline.checkpoint(name)) for name in ("deserialize", "merge-gold")]
    before = [
        max(int(path.name) for path in (one / "commits").iterdir() if path.name.isdecimal()) for one in checkpoints
    ]
    for stage in build_stages({}):
        # A copy of another environment: the gate would see that its tables have moved.
        run_ungated(spark, pipeline, stage)
    for one, last in zip(checkpoints, before, strict=True):
        (one / "commits" / str(last + 1)).unlink()

    found = certificate(spark, pipeline)

    assert (found.verdict, dict(found.faults)) == ("exact", {})
    assert [one.counts.pending for one in found.stages] == [0, 0, 0]
    assert older.sensor_id == newest.sensor_id


def test_a_file_that_the_source_has_dropped_is_gone_and_a_shrunk_one_is_a_fault(
    spark: Any, pipeline: Environment, landing: Path
) -> None:
    first, second, *_ = sorted(landing.iterdir())
    first.unlink()

    found = certificate(spark, pipeline, only="raw-ingest")
    assert (found.verdict, stage(found, "raw-ingest").counts.gone) == ("exact", 300)

    second.write_bytes(b"\n".join(second.read_bytes().split(b"\n")[:290]))
    found = certificate(spark, pipeline, only="raw-ingest")
    assert dict(found.faults) == {"raw-ingest positions: from nowhere": 10}


@pytest.mark.chaos
def test_a_source_out_of_reach_and_a_foreign_table_cannot_be_told(
    spark: Any, pipeline: Environment, tmp_path: Path
) -> None:
    found = certificate(spark, replace(pipeline, landing=str(tmp_path / "nowhere")))
    assert (found.verdict, found.lost) == ("cannot tell", 0)
    assert "nowhere" in stage(found, "raw-ingest").problem
    assert stage(found, "raw-ingest").counts.distinct == 1100

    without = certificate(spark, pipeline, ask_source=False)
    assert (without.verdict, without.source_asked, stage(without, "raw-ingest").compared) == ("exact", False, False)

    # The same rows in a table of another id: the checkpoint's position says nothing about it.
    table = pipeline.table(RAW).path
    rows_of(spark, pipeline, RAW).write.format("delta").save(table + "_again")
    shutil.rmtree(table)
    Path(table + "_again").rename(table)
    spark.sql(f"DELETE FROM {pipeline.table(QUARANTINE).sql}")
    deserialize = stage(certificate(spark, pipeline), "deserialize")
    assert "is" in deserialize.problem
    assert (deserialize.counts.lost, deserialize.counts.undecided > 0) == (0, True)


@pytest.mark.long(instead="test_a_healthy_pipeline_is_exact")
def test_verify_prints_80_columns_one_object_and_the_exit_code(
    spark: Any, pipeline: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--root", pipeline.root, "--set", f"landing={pipeline.landing}"]
    assert main(["verify", *where]) == 0
    shown = capsys.readouterr().out
    assert "EXACT        lost 0, duplicated 0" in shown

    spark.sql(f"DELETE FROM {pipeline.table(RAW).sql} WHERE offset = 63")
    assert main(["verify", *where]) == 1
    shown = capsys.readouterr().out
    assert "NOT EXACT    lost 4" in shown
    # The stage below has the row: written into raw again, it would come twice.
    assert "Next: surestart plan reset raw-ingest" in shown
    assert [line for line in shown.splitlines() if len(line) > 80 and not line.startswith("Next:")] == []

    assert main(["verify", *where, "--no-source", "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["schema_version"], body["source_asked"], body["exact"]) == (1, False, False)
    assert body["faults"] == {"deserialize positions: from nowhere": 4}

    assert main(["verify", "--root", pipeline.root, "--set", "landing=/nowhere/at/all", "--json"]) == 1
    assert "/nowhere" in json.loads(capsys.readouterr().out)["stages"][0]["problem"]
