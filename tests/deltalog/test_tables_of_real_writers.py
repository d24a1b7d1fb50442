"""Tables that Spark 4.0 with Delta 4.4 wrote (tables.zip), read without it and compared with what it said of them."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from surestart.errors import CannotTell
from surestart.facts.delta import history_evidence, read_active_files, read_delta_log, read_history, read_table_rows
from tests.deltalog.make_tables import APP_ID, ARCHIVE, BATCHES, TABLES


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path / "tables")
    return tmp_path / "tables"


def spark_says(tables: Path, name: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((tables / "spark-says.json").read_text())[name]
    return said


@pytest.mark.parametrize("name", TABLES)
def test_rows_read_without_spark_are_the_rows_that_spark_read(tables: Path, name: str) -> None:
    found = sorted([str(value) for value in row.values()] for row in read_table_rows(str(tables / name)))

    assert found == spark_says(tables, name)["rows"]
    assert len(found) == 40


@pytest.mark.parametrize("name", TABLES)
def test_files_versions_and_the_last_batch_are_those_that_spark_knows(tables: Path, name: str) -> None:
    said, path = spark_says(tables, name), str(tables / name)

    log, files = read_delta_log(path), read_active_files(path)

    assert (log.table_id, log.latest_version) == (said["id"], said["version"])
    assert (len(files), sum(file.size for file in files)) == (said["files"], said["bytes"])
    assert sum(file.rows or 0 for file in files) == 40
    assert log.transactions[APP_ID].version == BATCHES - 1
    assert [commit.batch_id for commit in read_history(path) if commit.mark] == list(range(BATCHES))


@pytest.mark.parametrize("name", TABLES)
def test_the_checkpoint_alone_tells_the_same_as_all_commits(tables: Path, name: str) -> None:
    """What Delta's log clean-up leaves: the commits before the newest checkpoint are gone."""
    path = tables / name
    whole, files = read_delta_log(str(path)), read_active_files(str(path))
    folder = path / "_delta_log"
    newest = max(int(file.name[:20]) for file in folder.glob("0*.checkpoint.*"))
    gone = [file for file in folder.glob("0*.json") if file.stem.isdigit() and int(file.stem) < newest]
    for file in gone:
        file.unlink()

    cleaned = read_delta_log(str(path))

    assert gone
    assert (cleaned.earliest_commit, cleaned.earliest_version) == (newest, newest)
    assert cleaned.transactions == whole.transactions
    assert (cleaned.table_id, cleaned.schema_text) == (whole.table_id, whole.schema_text)
    assert cleaned.properties == whole.properties
    assert read_active_files(str(path)) == files


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("classic", "0*.checkpoint.parquet"),
        ("multipart", "0*.checkpoint.0000000001.00000000*.parquet"),
        ("v2-parquet", "0*.checkpoint.*-*-*-*-*.parquet"),
        ("v2-json", "0*.checkpoint.*-*-*-*-*.json"),
        ("v2-json", "_sidecars/*.parquet"),
    ],
)
def test_each_kind_of_checkpoint_was_really_there(tables: Path, name: str, pattern: str) -> None:
    assert list((tables / name / "_delta_log").glob(pattern))


def test_a_part_that_is_missing_makes_the_whole_checkpoint_none(tables: Path) -> None:
    folder = tables / "multipart" / "_delta_log"
    newest = max(int(file.name[:20]) for file in folder.glob("0*.checkpoint.*"))
    next(folder.glob(f"{newest:020d}.checkpoint.0000000002.*")).unlink()

    assert read_delta_log(str(tables / "multipart")).earliest_version == 0
    for file in folder.glob("0*.json"):
        if int(file.stem) < newest:
            file.unlink()
    with pytest.raises(CannotTell, match="cannot be rebuilt"):
        read_delta_log(str(tables / "multipart"))


@pytest.mark.parametrize("path", ["../../../../etc/passwd", "x/../../../../etc/passwd", "/etc/passwd", ".hidden"])
def test_a_sidecar_outside_of_the_table_is_not_read(tables: Path, path: str) -> None:
    folder = tables / "v2-json" / "_delta_log"
    for file in folder.glob("0*.checkpoint.*.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if "sidecar" in line:
                line["sidecar"]["path"] = path
        file.write_text("\n".join(json.dumps(line) for line in lines))
    (folder / f"{0:020d}.json").unlink()

    with pytest.raises(CannotTell, match="outside of _sidecars"):
        read_active_files(str(tables / "v2-json"))


@pytest.mark.parametrize("name", ["v2-json", "v2-parquet"])
@pytest.mark.parametrize("damage", ["gone", "torn", "empty"])
def test_half_of_a_checkpoints_files_are_no_table(tables: Path, name: str, damage: str) -> None:
    """Its own part still says what it says: the last batch of each writer."""
    folder = tables / name / "_delta_log"
    whole = read_delta_log(str(tables / name))
    newest = max(int(file.name[:20]) for file in folder.glob("0*.checkpoint.*"))
    for file in folder.glob("0*.json"):
        if file.stem.isdigit() and int(file.stem) < newest:
            file.unlink()
    said = max(folder.glob("0*.checkpoint.*"))
    names = [one.name for one in (folder / "_sidecars").iterdir() if one.name.encode() in said.read_bytes()]
    sidecar = folder / "_sidecars" / min(names)
    if damage == "gone":
        sidecar.unlink()
    else:
        sidecar.write_bytes(sidecar.read_bytes()[:-20] if damage == "torn" else b"")

    with pytest.raises(CannotTell):
        read_active_files(str(tables / name))
    assert read_delta_log(str(tables / name)).transactions == whole.transactions


def test_a_commit_missing_behind_the_newest_checkpoint_is_not_passed_over(tables: Path) -> None:
    folder = tables / "classic" / "_delta_log"
    newest = max(int(file.name[:20]) for file in folder.glob("0*.checkpoint.parquet"))
    last = max(int(file.stem) for file in folder.glob("0*.json"))
    assert newest < last - 1
    (folder / f"{last - 1:020d}.json").unlink()

    with pytest.raises(CannotTell, match="cannot be rebuilt"):
        read_delta_log(str(tables / "classic"))


def test_table_history_tells_the_same_last_batch_as_the_log(tables: Path) -> None:
    rows = spark_says(tables, "classic")["history"]
    for row in rows:
        row["timestamp"] = datetime.fromisoformat(row["timestamp"])

    evidence = history_evidence(rows)

    assert evidence.complete
    assert {app_id: item.version for app_id, item in evidence.transactions.items()} == {APP_ID: BATCHES - 1}
    assert evidence.commits[-1].operation == "OPTIMIZE"


@pytest.mark.parametrize("name", ["classic", "v2-json"])
def test_delta_rs_agrees(tables: Path, name: str) -> None:
    deltalake = pytest.importorskip("deltalake", reason="delta-rs, of the bench group, is not installed")
    table = deltalake.DeltaTable(str(tables / name))

    assert len(read_active_files(str(tables / name))) == len(table.file_uris())
    assert read_delta_log(str(tables / name)).transactions[APP_ID].version == table.transaction_version(APP_ID)


def test_the_installed_spark_still_reads_these_tables_and_writes_an_empty_batch_down(
    spark: SparkSession, tables: Path
) -> None:
    """The second half is what lets the doctor say that a table which lacks a committed batch lacks rows."""
    path = str(tables / "classic")
    rows = spark.read.format("delta").load(path).collect()
    assert sorted([str(value) for value in row] for row in rows) == spark_says(tables, "classic")["rows"]

    empty = spark.createDataFrame([], "id LONG, day DATE, note STRING").write.format("delta").mode("append")
    empty.option("txnAppId", APP_ID).option("txnVersion", str(BATCHES)).save(path)

    assert read_delta_log(path).transactions[APP_ID].version == BATCHES
