"""Checkpoints that a real Spark has just written: every source, every kind of state, read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.spark.session import applied
from surestart.spark.spark_lines import installed_line
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Severity
from tests.diagnosis.restart_lab import THRIFTY

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.fixture(scope="module", autouse=True)
def thrifty(spark: SparkSession) -> Iterator[None]:
    with applied(spark, THRIFTY):
        yield


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landing")
    for number in range(2):
        rows = "".join(f'{{"id":{number * 5 + row},"at":"2026-01-01T00:00:0{row}Z"}}\n' for row in range(5))
        (folder / f"part-{number}.json").write_text(rows)
    return folder


def files(spark: SparkSession, landing: Path) -> DataFrame:
    stream = spark.readStream.schema("id LONG, at TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(landing))
    return stream.withWatermark("at", "1 minute")


def run(stream: DataFrame, checkpoint: Path, mode: str = "append") -> Checkpoint:
    writer = stream.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    found = read_checkpoint(str(checkpoint))
    assert found.faults == ()
    assert found.query_id is not None
    assert found.latest_planned == found.latest_committed
    # Checksums of state have visible names from 4.1 on.
    assert found.spark_version in ("4.0-4.1", installed_line().name)
    healthy = inspect_checkpoint(str(checkpoint), sinks=("none",))
    assert {finding.severity for finding in healthy.findings} <= {Severity.INFO}, healthy.findings
    return found


def test_a_file_source_and_its_list(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    found = run(files(spark, landing), tmp_path / "ck")
    (source,) = found.sources
    assert source.kind == "files"
    assert source.folder is not None
    assert source.folder.file_log is not None
    assert source.folder.file_log.files_seen == 2
    assert source.folder.file_log.last_path.startswith("file:///")
    assert found.offsets_folder.crcs == set(found.offsets_folder.ids)
    assert not found.state.operators


def test_a_delta_source(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    spark.range(5).write.format("delta").save(table)
    spark.range(5).write.format("delta").mode("append").save(table)
    found = run(spark.readStream.format("delta").load(table), tmp_path / "ck")
    (source,) = found.sources
    assert source.kind == "delta"
    assert source.end is not None
    assert "of table" in source.end.describe()


def test_a_rate_source(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(processingTime="1 second").start()
    try:
        for _ in range(120):
            query.awaitTermination(0.5)
            found = read_checkpoint(str(tmp_path / "ck"))
            if (found.latest_committed or 0) >= 1:
                break
    finally:
        query.stop()
    (source,) = read_checkpoint(str(tmp_path / "ck")).sources
    assert source.kind == "rate"
    assert source.folder is not None
    assert source.folder.start_ms is not None
    assert source.end is not None
    assert "s after the first start" in source.end.describe()


def two(stream: DataFrame) -> DataFrame:
    """The stream joined with itself: two sources, four stores."""
    left, right = stream.alias("left"), stream.alias("right")
    near = F.expr("left.id = right.id AND left.at >= right.at - interval 1 minute AND left.at <= right.at")
    return left.join(right, near).select("left.id")


STATEFUL: dict[str, tuple[Callable[[DataFrame], DataFrame], dict[str, str], str, str]] = {
    "deduplication": (lambda stream: stream.dropDuplicates(["id"]), {}, "hdfs", "dedupe"),
    "aggregation": (
        lambda stream: stream.groupBy(F.window("at", "1 second")).count(),
        {},
        "hdfs",
        "stateStoreSave",
    ),
    "aggregation in RocksDB": (
        lambda stream: stream.groupBy(F.window("at", "1 second")).count(),
        {PROVIDER: ROCKSDB},
        "rocksdb",
        "stateStoreSave",
    ),
    "deduplication in RocksDB, format v2, changelog": (
        lambda stream: stream.dropDuplicatesWithinWatermark(["id"]),
        {PROVIDER: ROCKSDB, CHANGELOG: "true", FORMAT: "2"},
        "rocksdb",
        "dedupeWithinWatermark",
    ),
    "join of two streams": (two, {}, "hdfs", "symmetricHashJoin"),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_stateful_query(spark: SparkSession, landing: Path, tmp_path: Path, name: str) -> None:
    transform, confs, provider, operator_name = STATEFUL[name]
    with applied(spark, confs):
        found = run(transform(files(spark, landing)), tmp_path / "ck")
    assert found.state.provider == provider
    (operator,) = found.state.operators
    assert (operator.name, operator.partitions) == (operator_name, 2)
    assert len(operator.stores) == 2 * len(operator.store_names)
    assert len(operator.store_names) == (4 if "join" in name else 1)
    assert found.state.format_v2 == ("v2" in name)
    assert found.formats["commits"] == (2 if "v2" in name else 1)
    assert len(found.sources) == (2 if "join" in name else 1)
    assert operator.schema.startswith("key(")
    assert {versions.latest for versions in operator.stores.values()} == {found.latest_planned + 1}  # type: ignore[operator]
