"""Rows of tables as multisets, and a pipeline run on the shared session."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from sensor_pipeline.count import Account, count_rows, read_landed
from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.runs.runner import StageRun, run_stage

TABLES = ("sensor_raw", "sensor_readings_deserialized", "sensor_quarantine", "sensor_gold")


def land(environment: Environment, readings: int, per_file: int = 500) -> None:
    write_files(Path(environment.landing), Path(environment.root) / "truth.json", readings, per_file=per_file)


def run_all(spark: Any, environment: Environment, **settings: str) -> list[StageRun]:
    return [run_stage(spark, environment, stage) for stage in build_stages(settings)]


def account(environment: Environment) -> Account:
    """What a stage has not read is a fault here: these tests count after every stage has run to the end."""
    found = count_rows(environment, read_landed(environment.landing))
    return replace(
        found, faults={**found.faults, **{f"{stage}: not read": rows for stage, rows in found.pending.items()}}
    )


TIMES = ("ingested_at", "deserialized_at", "source_time")


def table_rows(spark: Any, environment: Environment, table: str) -> Counter[tuple[Any, ...]]:
    """Every row, the times of its batches and its file left out: only they may differ in two runs over the same input.
    Paths are cut to the file's name, so that two environments can be compared."""
    frame = spark.read.format("delta").load(environment.table(table).path).drop(*TIMES)
    position = frame.columns.index("source")
    rows: Counter[tuple[Any, ...]] = Counter()
    for row in frame.collect():
        values = [repr(value) for value in row]
        values[position] = row[position].rsplit("/", 1)[-1]
        rows[tuple(values)] += 1
    return rows


def whole_rows(spark: Any, environment: Environment) -> dict[str, Counter[tuple[Any, ...]]]:
    """Every row of each table with every column: what a replay in the same environment may not change."""
    return {
        table: Counter(
            tuple(map(repr, row)) for row in spark.read.format("delta").load(environment.table(table).path).collect()
        )
        for table in TABLES
        if Path(environment.table(table).path).exists()
    }


def batch_times(environment: Environment, stage: str) -> dict[int, int]:
    """The time of each batch that the stage has planned, as its checkpoint holds it, in milliseconds."""
    offsets = Path(environment.checkpoint(stage)) / "offsets"
    return {
        int(path.name): json.loads(path.read_text().splitlines()[1])["batchTimestampMs"]
        for path in offsets.iterdir()
        if path.name.isdecimal()
    }


def times_in(spark: Any, environment: Environment, table: str, column: str) -> set[int]:
    """The different times that a column of the table holds, in milliseconds."""
    frame = spark.read.format("delta").load(environment.table(table).path)
    return {row[0] for row in frame.selectExpr(f"unix_millis(`{column}`)").distinct().collect()}
