"""What is said of code that keeps other state than the checkpoint has, held against what Spark's start does with it.

The changed code is run once on a checkpoint of its own: so it is known what it would declare. What is called allowed
has to start, and to go on with the state that is there; what is called unsafe has to fail, or to go on wrongly.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from surestart.declaration import SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.spark.session import applied, spark_version
from surestart.verdict.change import ChangeClass
from surestart.verdict.change_safety import classify_changes

STORE = "spark.sql.streaming.stateStore"
ROCKSDB = {f"{STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
FORMAT = f"{STORE}.checkpointFormatVersion"
FORMAT_2 = {FORMAT: "2"}
SHUFFLE = "spark.sql.shuffle.partitions"
BEFORE = {SHUFFLE: "2", f"{STORE}.maintenanceInterval": "10min"}
SCHEMA = "g INT, k STRING, v INT"
Query = Callable[[Any], Any]


def counted(rows: Any) -> Any:
    return rows.groupBy("g").count()


def distinct(rows: Any) -> Any:
    return rows.dropDuplicates(["g", "k"])


@dataclass(frozen=True)
class Change:
    before: Query
    after: Query
    confs: dict[str, str] = field(default_factory=dict)
    confs_before: dict[str, str] = field(default_factory=dict)


CHANGES = {
    "nothing": Change(counted, counted),
    "a key column more": Change(counted, lambda rows: rows.groupBy("g", "k").count()),
    "a key column less": Change(lambda rows: rows.groupBy("g", "k").count(), counted),
    "another type of the key": Change(counted, lambda rows: rows.groupBy(rows.g.cast("string").alias("g")).count()),
    "another name of the key": Change(counted, lambda rows: rows.groupBy(rows.g.alias("other")).count()),
    "a key that is never null": Change(counted, lambda rows: rows.na.fill(0).groupBy("g").count()),
    "a key that may be null": Change(lambda rows: rows.na.fill(0).groupBy("g").count(), counted),
    "a value more": Change(counted, lambda rows: rows.groupBy("g").agg({"*": "count", "v": "sum"})),
    "a value less": Change(lambda rows: rows.groupBy("g").agg({"*": "count", "v": "sum"}), counted),
    "another type of the value": Change(
        lambda rows: rows.groupBy("g").agg({"v": "max"}),
        lambda rows: rows.selectExpr("g", "cast(v AS BIGINT) AS v").groupBy("g").agg({"v": "max"}),
    ),
    "another name of the value": Change(
        counted, lambda rows: rows.groupBy("g").agg({"*": "count"}).withColumnRenamed("count(1)", "n")
    ),
    "columns of one type in another order": Change(
        lambda rows: rows.groupBy("g", "v").count(), lambda rows: rows.groupBy("v", "g").count()
    ),
    "columns of other types in another order": Change(distinct, lambda rows: rows.dropDuplicates(["k", "g"])),
    "an operator more": Change(counted, lambda rows: rows.dropDuplicates(["k"]).groupBy("g").count()),
    "an operator less": Change(lambda rows: rows.dropDuplicates(["k"]).groupBy("g").count(), counted),
    "no operator": Change(counted, lambda rows: rows.select("g")),
    "an operator where there was none": Change(lambda rows: rows.select("g"), counted),
    "another operator": Change(counted, lambda rows: rows.dropDuplicates(["g"])),
    "another number of partitions": Change(counted, counted, {SHUFFLE: "5"}),
    "RocksDB": Change(counted, counted, ROCKSDB),
    "another format of aggregations": Change(
        counted, counted, {"spark.sql.streaming.aggregation.stateFormatVersion": "1"}
    ),
    "another format, RocksDB": Change(counted, counted, {**ROCKSDB, **FORMAT_2}, ROCKSDB),
    "the former format, RocksDB": Change(counted, counted, {**ROCKSDB, FORMAT: "1"}, {**ROCKSDB, **FORMAT_2}),
}

# What no declaration says. Nothing is said of it either, and the start fails before it reads a row.
NOT_COMPARED = {
    "no operator": "a stage that declares no state is not a stage without state",
    "a key that may be null": "whether a column may be null stands in no declaration",
}


class Runs:
    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.input = folder / "input"
        self.input.mkdir()

    def land(self, file: int) -> None:
        rows = [{"g": number % 3, "k": f"k{number % 4}", "v": number} for number in range(6)]
        (self.input / f"{file}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(self, query: Query, checkpoint: Path, confs: dict[str, str]) -> list[tuple[Any, ...]]:
        """The rows of the last batch, sorted; raises what the start does."""
        given: list[tuple[Any, ...]] = []

        def keep(batch: Any, batch_id: int) -> None:
            given[:] = [tuple(row) for row in batch.collect()]

        with applied(self.spark, {**BEFORE, **confs}):
            rows = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.input))
            writer = query(rows).writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
            writer = writer.outputMode("update").trigger(availableNow=True)
            assert writer.start().awaitTermination(300)
        return sorted(given, key=repr)


def declared_by(checkpoint: Path) -> tuple[str, ...]:
    """As its owner would declare it, from what `surestart inspect` prints."""
    operators = read_checkpoint(str(checkpoint)).state.operators
    return tuple(f"{one.name or 'ours'}: {one.schema}" for one in operators)


def said_of(checkpoint: Path, state: tuple[str, ...], confs: dict[str, str], spark: str) -> set[ChangeClass]:
    source = (SourceDeclaration("files", "input"),)
    stage = StageDeclaration("s", "s", str(checkpoint), source, (), "update", state, tuple(confs.items()))
    return {one.kind for one in classify_changes(stage, read_checkpoint(str(checkpoint)), spark=spark)}


@pytest.mark.chaos
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_allowed_goes_on_and_what_is_unsafe_fails(
    spark: Any, tmp_path: Path, name: str, classic_only: None
) -> None:
    runs, change, line = Runs(spark, tmp_path), CHANGES[name], spark_version(spark)
    runs.land(0)
    runs.land(1)
    checkpoint, own = tmp_path / "checkpoint", tmp_path / "own"
    runs.run(change.before, checkpoint, change.confs_before)
    runs.run(change.after, own, change.confs)
    # The same code keeps the same columns: pinned settings of the checkpoint decide, not those of a new one.
    state = declared_by(checkpoint if change.before is change.after else own)
    said = said_of(checkpoint, state, change.confs, line)
    whole = Path(shutil.copytree(checkpoint, tmp_path / "whole"))
    runs.land(2)
    wanted = runs.run(change.before, whole, change.confs_before)
    try:
        rows, failure = runs.run(change.after, checkpoint, change.confs), ""
    except Exception as error:  # noqa: BLE001 - whatever Spark says is the outcome
        rows, failure = [], str(error)[:300]
    print(f"CHANGE {line} | {name} | {state} | {sorted(one.value for one in said)} | {failure or rows[:3]}")
    if name in NOT_COMPARED:
        assert (bool(failure), said) == (True, set()), NOT_COMPARED[name]
    elif ChangeClass.UNSAFE in said:
        assert failure or rows != wanted, f"called unsafe, and goes on with {rows}"
    elif not said & {ChangeClass.UNDEFINED, ChangeClass.CANNOT_TELL}:
        assert not failure, f"called allowed: {failure}"
        # Renamed or not, they are the rows of the code as it was.
        assert rows == wanted
