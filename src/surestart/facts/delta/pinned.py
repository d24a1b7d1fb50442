"""Tables at the version they had at one moment, so that a count does not see what is written meanwhile.

The rows of a table, read by pyarrow from its active files: a recount that no Spark code takes part in.

What a plain reader cannot undo is refused rather than miscounted: deletion vectors, renamed columns inside structs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.facts.delta.active_files import ActiveFile, read_active_files
from surestart.facts.delta.checkpoint_parquet import load_pyarrow_parquet
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.delta.log import DeltaLog, read_delta_log
from surestart.library_types import DataFrame, SparkSession
from surestart.spark.delta_table import read_columns
from surestart.typed import delta_name, spark_sql

POSITION_TYPES = "source STRING, partition INT, offset BIGINT"


@dataclass(frozen=True)
class PinnedTable:
    """version None: there is no such table."""

    table: Table
    version: int | None = None
    table_id: str = ""

    @property
    def label(self) -> str:
        return self.table.label


def pin(spark: SparkSession, table: Table) -> PinnedTable:
    if table.path:
        try:
            log = read_delta_log(table.path)
        except NoDeltaLog:
            return PinnedTable(table)
        return PinnedTable(table, log.latest_version, log.table_id)
    if read_columns(spark, table) is None:
        return PinnedTable(table)
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0]
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]
    return PinnedTable(table, int(newest["version"]), str(detail["id"]))


def read_version(spark: SparkSession, table: Table, version: int) -> DataFrame:
    if table.path:
        return spark.read.format("delta").option("versionAsOf", version).load(table.path)
    return spark.sql(f"SELECT * FROM {table.sql} VERSION AS OF {int(version)}")


def read_pinned(spark: SparkSession, pinned: PinnedTable) -> DataFrame | None:
    return None if pinned.version is None else read_version(spark, pinned.table, pinned.version)


def read_pinned_positions(spark: SparkSession, pinned: PinnedTable) -> DataFrame:
    """Empty for a table that is not there."""
    rows = read_pinned(spark, pinned)
    return spark.createDataFrame([], POSITION_TYPES) if rows is None else rows


def reading_errors() -> tuple[type[Exception], ...]:
    """What Spark raises when files or records that a query needs are not there. A failed task comes through Py4J as it
    is; PySpark converts errors of planning only, and Spark Connect has no Py4J."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    except ImportError:
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)


def first_line(error: Exception) -> str:
    """Py4J names its own call first, and the error on the line after it."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if not line.startswith("An error occurred while calling")]
    return next(iter(named), type(error).__name__)[:200]


def read_table_rows(
    path: str, columns: Sequence[str] | None = None, version: int | None = None
) -> Iterator[dict[str, Any]]:
    """Each row of a local table as a dict of the asked-for top-level columns; all columns without an argument."""
    log = read_delta_log(path, version=version)
    fields = _fields(log)
    wanted = list(fields) if columns is None else list(columns)
    unknown = [name for name in wanted if name not in fields]
    if unknown:
        raise KeyError(f"{path} has no column {', '.join(unknown)}; it has {', '.join(fields)}")
    for file in read_active_files(path, version=log.latest_version):
        yield from _file_rows(log, file, {name: fields[name] for name in wanted})


def _file_rows(log: DeltaLog, file: ActiveFile, wanted: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if file.deletion_vector:
        raise CannotTell(
            f"{log.location}: file {file.path} has a deletion vector ({file.deleted_rows} rows deleted)",
            meaning="A bitmap says which of its rows are deleted, and this reader does not decode it.",
            next=spark_sql(f"SELECT count(*) FROM {delta_name(log.location)}"),
            do_not="count the file's rows as they are: deleted ones would be counted.",
            code="DeletionVector",
        )
    parquet = load_pyarrow_parquet(file.path)
    root = local_path(log.location)
    reader = parquet.ParquetFile(local_path(file.path) if file.is_absolute else root / file.path)
    physical = {
        name: str((field.get("metadata") or {}).get("delta.columnMapping.physicalName", name))
        for name, field in wanted.items()
    }
    constants = {
        name: _partition_value(file.partition_values.get(physical[name]), wanted[name].get("type"))
        for name in wanted
        if name in log.partition_columns
    }
    present = set(reader.schema_arrow.names)
    stored = [name for name in wanted if name not in constants and physical[name] in present]
    if not stored:
        # Rows still count when none of the asked-for columns is in the file (added later, or partition columns).
        missing = dict.fromkeys(wanted)
        for _ in range(reader.metadata.num_rows):
            yield {**missing, **constants}
        return
    for batch in reader.iter_batches(columns=[physical[name] for name in stored]):
        values = {name: batch.column(physical[name]).to_pylist() for name in stored}
        for index in range(batch.num_rows):
            yield {name: values[name][index] if name in values else constants.get(name) for name in wanted}


def _fields(log: DeltaLog) -> dict[str, dict[str, Any]]:
    fields = {str(field["name"]): field for field in json.loads(log.schema_text).get("fields", [])}
    if log.properties.get("delta.columnMapping.mode", "none") != "none":
        nested = [name for name, field in fields.items() if isinstance(field.get("type"), dict)]
        if nested:
            raise CannotTell(
                f"{log.location} maps column names and has nested columns ({', '.join(nested)})",
                meaning="The names inside its files differ from those of the table at every level.",
                next=spark_sql(f"SELECT count(*) FROM {delta_name(log.location)}"),
                code="NestedColumnMapping",
            )
    return fields


def _partition_value(text: str | None, type_name: object) -> object:
    """Partition values stand as text in the log; '' and null are both null (PROTOCOL.md)."""
    if text is None or text == "":
        return None
    if type_name in ("byte", "short", "integer", "long"):
        return int(text)
    if type_name in ("float", "double"):
        return float(text)
    if type_name == "boolean":
        return text.lower() == "true"
    if type_name == "date":
        from datetime import date

        return date.fromisoformat(text)
    return text


def local_path(location: str) -> Path:
    """`file:/a%20b` and `/a b` are the same folder."""
    plain = unquote("/" + location.removeprefix("file:").lstrip("/")) if location.startswith("file:") else location
    return Path(plain)
