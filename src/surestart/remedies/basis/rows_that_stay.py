"""Which rows stay: for each partition or file, the first offset that is taken away and comes again.

    source   partition   below        rows with offset < below stay, all others of the output are removed and read again
    sensor   0           1200
    file:…   0           500          a partition or file without a row here is read from its beginning

A definition says how to find these marks from table versions that never change any more, so that planning and
applying, however long between them, find the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from surestart.environment import Environment, Table
from surestart.errors import UsageError
from surestart.facts.delta import read_active_files
from surestart.facts.delta.active_files import is_whole_path
from surestart.facts.delta.pinned import POSITION_TYPES, first_line, read_version, reading_errors
from surestart.library_types import DataFrame, SparkSession
from surestart.spark.delta_table import read_columns
from surestart.spark.every_line import large_side
from surestart.typed import surestart

COLUMNS = "source STRING, partition INT, below BIGINT"
ALL_OF, PROCESSED, NOTHING = "all-of", "processed", "nothing"


@dataclass(frozen=True)
class StayRule:
    """kind   nothing     no row stays
              all-of      what `held` held at these versions, up to the highest offset of each partition
              processed   of the rows of `given` below `within`, those before the first that `held` has not
    held, given   table name -> version
    capped        the same tables' versions now, where `held` is an older one: no more stays than is there
    within        marks of the stage above: its rows from there on are removed too
    at_most       source -> partition -> first offset to read again, where somebody has named it
    at_least      source -> partition -> mark below which rows stay in any case: the source no longer has them
    """

    kind: str
    held: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, int] = field(default_factory=dict)
    capped: Mapping[str, int] = field(default_factory=dict)
    within: Mapping[str, Any] | None = None
    at_most: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    at_least: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


KEEP_NOTHING = StayRule(NOTHING)


def read_rule(body: Mapping[str, Any]) -> StayRule:
    return StayRule(**body)


def find_stay_marks(spark: SparkSession, environment: Environment, rule: StayRule) -> DataFrame:
    """source, partition, below."""
    from pyspark.sql import functions as F

    if rule.kind == NOTHING:
        marks = spark.createDataFrame([], COLUMNS)
    elif rule.kind == ALL_OF:
        marks = _highest(_positions(spark, environment, rule.held))
        if rule.capped:
            there = _highest(_positions(spark, environment, rule.capped)).withColumnRenamed("below", "named")
            marks = marks.join(there, ["source", "partition"]).select(
                "source", "partition", F.least("below", "named").alias("below")
            )
    elif rule.kind == PROCESSED:
        marks = _processed(spark, environment, rule)
    else:
        raise UsageError(
            f"a plan keeps rows by {rule.kind!r}, which this version does not know",
            meaning="Nothing was changed.",
            next=surestart("--version"),
        )
    for least, given in ((True, rule.at_most), (False, rule.at_least)):
        if not given:
            continue
        named = spark.createDataFrame(
            [(source, int(part), int(mark)) for source, parts in given.items() for part, mark in parts.items()],
            "source STRING, partition INT, named BIGINT",
        )
        chosen = F.least("below", "named") if least else F.greatest("below", "named")
        how = "left" if least else "full"
        marks = marks.join(named, ["source", "partition"], how).select("source", "partition", chosen.alias("below"))
    return marks.where("below > 0").select(
        "source", F.col("partition").cast("int").alias("partition"), F.col("below").cast("bigint").alias("below")
    )


def summarize_marks(marks: Sequence[Any]) -> dict[str, Any]:
    """How many marks there are, and a digest of them: applying the plan has to find the very same."""
    lines = sorted(f"{row['source']}\0{row['partition']}\0{row['below']}" for row in marks)
    return {"marks": len(lines), "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def read_at(spark: SparkSession, environment: Environment, name: str, version: int) -> DataFrame:
    """The table as it was then; no row where it was not there."""
    table = environment.table(name)
    if version < 0 or read_columns(spark, table) is None:
        return spark.createDataFrame([], POSITION_TYPES)
    return read_version(spark, table, version)


def removed_rows(rows: DataFrame, kept: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    marks = F.broadcast(kept.toDF("k_source", "k_partition", "k_below"))
    same = (F.col("source") == F.col("k_source")) & (F.col("partition") == F.col("k_partition"))
    return rows.join(marks, same & (F.col("offset") < F.col("k_below")), "left_anti")


def _positions(spark: SparkSession, environment: Environment, tables: Mapping[str, int]) -> DataFrame:
    frames = [
        read_at(spark, environment, name, version).select("source", "partition", "offset")
        for name, version in sorted(tables.items())
    ]
    united = frames[0]
    for frame in frames[1:]:
        united = united.unionAll(frame)
    return united


def _highest(positions: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return positions.groupBy("source", "partition").agg((F.max("offset") + 1).alias("below"))


def _processed(spark: SparkSession, environment: Environment, rule: StayRule) -> DataFrame:
    """The marks up to the first row of the input, by offset, that the output has not; past the end of a partition that
    it has completely."""
    from pyspark.sql import functions as F

    given = _positions(spark, environment, rule.given)
    if rule.within is not None:
        within = find_stay_marks(spark, environment, read_rule(rule.within)).toDF("source", "partition", "k_below")
        given = given.join(F.broadcast(within), ["source", "partition"]).where("offset < k_below").drop("k_below")
    position = ["source", "partition", "offset"]
    found = _positions(spark, environment, rule.held)
    if rule.capped:
        found = found.join(large_side(_positions(spark, environment, rule.capped)), position, "left_semi")
    held = found.groupBy(*position).agg(F.count("*").alias("n"))
    joined = given.join(large_side(held), position, "left")
    first_missing = F.min(F.when(F.col("n").isNull(), F.col("offset")))
    return joined.groupBy("source", "partition").agg(F.coalesce(first_missing, F.max("offset") + 1).alias("below"))


def why_not_readable(spark: SparkSession, environment: Environment, table: Table, version: int) -> str:
    """What keeps that version from being read, such as files that are deleted; "" where all of it is there."""
    if table.path:
        files = read_active_files(table.path, version)
        there = [all(_is_there(table.path, name) for name in (file.path, file.vector_path) if name) for file in files]
        gone = f"{there.count(False)} of {len(files)} files of version {version} of {table.name} are deleted (VACUUM)"
        return "" if all(there) else gone
    from pyspark.sql import functions as F

    try:
        rows = read_at(spark, environment, table.name, version)
        # One column of every file is read. A count would be answered from the log, which knows of no VACUUM.
        rows.agg(F.max(F.xxhash64(rows.columns[0]))).collect()
    except reading_errors() as problem:
        return f"version {version} of {table.name} cannot be read any more: {first_line(problem)}"
    return ""


def _is_there(table: str, name: str) -> bool:
    """A deletion vector lies in a file of its own, which a VACUUM deletes as well. What lies in another store, as the
    files of a clone may, nobody here looks for."""
    if not is_whole_path(name):
        return (Path(table) / name).exists()
    plain = name.removeprefix("file://").removeprefix("file:")
    return not plain.startswith("/") or Path(plain).exists()
