"""Rows that a plan would remove and that nobody can bring again, as values, and how they are counted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surestart.environment import Environment
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Link
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.rows_that_stay import removed_rows
from surestart.remedies.loss.still_given import SourceGives
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.every_line import large_side

Marks = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Loss:
    """rows: that would be removed and that nobody can bring again.
    marks: what to keep so that none is removed; empty where none can be kept.
    other_topic: the Kafka topic is not the one that they came from.
    of_stage: all that its tables lose, those included that a stage above loses as well."""

    rows: int = 0
    why: str = ""
    marks: Marks = field(default_factory=dict)
    other_topic: bool = False
    of_stage: int = 0


@dataclass
class LossSearch:
    """The search for rows that a plan would lose. It is asked stage by stage, the first stage first.

    kept: of each stage, the marks below which rows stay; None: none do.
    counted: the lost positions so far, of which those from `before` on are of the stage asked last."""

    spark: SparkSession
    environment: Environment
    links: Mapping[str, Link]
    giving: SourceGives
    kept: dict[str, DataFrame | None] = field(default_factory=dict)
    counted: list[DataFrame] = field(default_factory=list)
    before: int = 0

    def keep(self, link: Link, kept: DataFrame | None) -> None:
        """Notes that these rows of the stage stay, so that none of them is lost."""
        self.kept[link.name] = kept
        del self.counted[self.before :]

    def lost(self, link: Link, rows: DataFrame) -> DataFrame | None:
        """Of rows of the stage: those that it will not be given again."""
        if link.name == self.giving.link.name:
            return self.giving.lost(rows)
        above, marks = self.links[link.upstream], self.kept[link.upstream]
        if marks is None:
            return self.lost(above, rows)
        assert link.input is not None
        missing: DataFrame | None = rows_below(rows, marks)
        if missing is not None and read_columns(self.spark, link.input) is not None:
            missing = not_in(missing, rows_below(read_table(self.spark, link.input), marks))
        again = self.lost(above, removed_rows(rows, marks))
        if missing is None or again is None:
            return missing if again is None else again
        return missing.select(*POSITION).unionAll(again.select(*POSITION))


def count_lost(found: LossSearch, link: Link, rows: DataFrame, where: str = "") -> Loss:
    """where: the table, if it is not the stage's own."""
    lost = found.lost(link, rows)
    return Loss() if lost is None else summarize(found, link, lost, where)


def summarize(found: LossSearch, link: Link, lost: DataFrame, where: str = "") -> Loss:
    groups = _groups(lost)
    if not groups:
        return Loss()
    every = sum(row["n"] for row in groups)
    fresh = groups
    for known in found.counted:
        lost = lost.select(*POSITION).join(large_side(known), list(POSITION), "left_anti")
    if found.counted:
        fresh = _groups(lost)
    found.counted.append(lost.select(*POSITION))
    marks: dict[str, dict[str, int]] = {}
    for row in groups:
        if row["source"] is not None and row["partition"] is not None and row["last"] is not None:
            marks.setdefault(row["source"], {})[str(row["partition"])] = int(row["last"]) + 1
    unplaced = sum(row["n"] for row in groups if None in (row["source"], row["partition"], row["last"]))
    why, other_topic = found.giving.describe([row for row in groups if None not in tuple(row)])
    numbers = sum(row["n"] for row in fresh)
    if link.name != found.giving.link.name or where:
        tables = where or ", ".join(output.table.name for output in link.outputs)
        giver = why if other_topic else f"{found.giving.label} does not give them again"
        why = f"{numbers:,} rows of {tables} are in no table above that stays, and {giver}" if numbers else ""
    if unplaced:
        why = f"{why}; {unplaced:,} rows have no position, and nobody can say whether they come again"
    if other_topic or unplaced:
        marks = {}
    return Loss(numbers, why, marks, other_topic, every)


def rows_below(rows: DataFrame, marks: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    named = F.broadcast(marks.toDF("k_source", "k_partition", "k_below"))
    same = (F.col("source") == F.col("k_source")) & (F.col("partition") == F.col("k_partition"))
    return rows.join(named, same & (F.col("offset") < F.col("k_below")), "left_semi")


def _groups(lost: DataFrame) -> list[Any]:
    from pyspark.sql import functions as F

    counted = lost.groupBy("source", "partition").agg(F.count("*").alias("n"), F.max("offset").alias("last"))
    return counted.collect()
