"""A small stage for whole streams: Parquet files, one per batch, into the table `events` or `gold`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, environment_from_settings
from surestart.sinks.postgres.sink import PostgresSink
from surestart.stage import Sink, Stage
from tests.postgres.database import arrow, readings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "sensor string, part int, pos bigint, value double"
APPEND = PostgresSink(target="events", mode="append")
UPSERT = PostgresSink(target="gold", mode="upsert", keys=("sensor",), order=("part", "pos"))


@dataclass(frozen=True)
class Files:
    """One file a batch."""

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(environment.landing)

    def declare(self, environment: Environment) -> SourceDeclaration:
        return SourceDeclaration("files", environment.landing)


def stage(sink: Sink) -> Stage:
    return Stage("load", Files(), same, sink)


def same(rows: DataFrame) -> DataFrame:
    return rows


def local(root: Path) -> Environment:
    return environment_from_settings("local", "sensor", {"root": str(root)}, environ={})


def land(root: Path, batch_id: int) -> None:
    """A file with the rows of this batch has arrived."""
    landing = Path(local(root).landing)
    landing.mkdir(parents=True, exist_ok=True)
    draft = root / "draft.parquet"
    pyarrow.parquet.write_table(pa.Table.from_batches([arrow(readings(batch_id))]), draft)
    # Spark takes files by age; written in one millisecond they would come in any order.
    os.utime(draft, (1_700_000_000 + batch_id, 1_700_000_000 + batch_id))
    draft.rename(landing / f"{batch_id:05d}.parquet")
