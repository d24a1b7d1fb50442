"""Whether a former version of a table can still be read, before anything rests on it."""

from __future__ import annotations

from pathlib import Path

from surestart.environment import Environment, Table
from surestart.facts.delta import read_active_files
from surestart.facts.delta.active_files import is_whole_path
from surestart.facts.delta.pinned import first_line, reading_errors
from surestart.remedies.basis.rows_that_stay import read_at
from surestart.spark_types import SparkSession


def deleted_files(spark: SparkSession, environment: Environment, table: Table, version: int) -> tuple[int | str, int]:
    """How many of how many files; of a catalog's table, what kept a file of it from being read."""
    if table.path:
        files = read_active_files(table.path, version)
        there = [all(_is_there(table.path, name) for name in (file.path, file.vector_path) if name) for file in files]
        return there.count(False), len(files)
    from pyspark.sql import functions as F

    try:
        rows = read_at(spark, environment, table.name, version)
        # One column of every file is read. A count would be answered from the log, which knows of no VACUUM.
        rows.agg(F.max(F.xxhash64(rows.columns[0]))).collect()
    except reading_errors() as problem:
        return first_line(problem), 0
    return 0, 0


def _is_there(table: str, name: str) -> bool:
    """A deletion vector lies in a file of its own, which a VACUUM deletes as well. What lies in another store, as the
    files of a clone may, nobody here looks for."""
    if not is_whole_path(name):
        return (Path(table) / name).exists()
    plain = name.removeprefix("file://").removeprefix("file:")
    return not plain.startswith("/") or Path(plain).exists()
