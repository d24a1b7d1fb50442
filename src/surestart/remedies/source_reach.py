"""Which of the rows that a plan removes will not come again: from any table of any of its stages, databases included.

    first stage      what its source still gives                                                    (still_given)
    a stage below    its input as it will be: rows of it that stay, and those that come again from above

A position is counted once, in the first stage that loses it. Rows without a position, and those of a table that keeps
none, cannot be told from others: no plan removes them without saying so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from surestart.environment import Environment
from surestart.large_side import large_side
from surestart.remedies.chain import NEWEST, POSITION, Link, Output
from surestart.remedies.kept import removed_rows
from surestart.remedies.missing_positions import not_in
from surestart.remedies.still_given import Giving, read_giving, read_rows
from surestart.sinks.delta_table import read_columns, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Marks = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Loss:
    """rows: that would be removed and that nobody can bring again. marks: what to keep so that none is removed; empty
    where none can be kept. other_topic: the Kafka topic is not the one that they came from. of_stage: all that its
    tables lose, those included that a stage above loses as well."""

    rows: int = 0
    why: str = ""
    marks: Marks = field(default_factory=dict)
    other_topic: bool = False
    of_stage: int = 0


@dataclass
class Reaching:
    """Asked stage by stage, the first one first. kept: of each stage, the marks below which rows stay; None: none do.
    counted: the lost positions so far, of which those from `before` on are of the stage asked last."""

    spark: SparkSession
    environment: Environment
    links: Mapping[str, Link]
    giving: Giving
    kept: dict[str, DataFrame | None] = field(default_factory=dict)
    counted: list[DataFrame] = field(default_factory=list)
    before: int = 0

    def keep(self, link: Link, kept: DataFrame | None) -> None:
        """These rows of the stage stay, and none of them is lost."""
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
        missing: DataFrame | None = _below(rows, marks)
        if missing is not None and read_columns(self.spark, link.input) is not None:
            missing = not_in(missing, _below(read_table(self.spark, link.input), marks))
        again = self.lost(above, removed_rows(rows, marks))
        if missing is None or again is None:
            return missing if again is None else again
        return missing.select(*POSITION).unionAll(again.select(*POSITION))


def reaching(
    spark: SparkSession, environment: Environment, links: Sequence[Link], recorded_topic_id: str = ""
) -> Reaching:
    giving = read_giving(spark, environment, links[0], recorded_topic_id)
    return Reaching(spark, environment, {link.name: link for link in links}, giving)


def find_loss(found: Reaching, link: Link, kept: DataFrame | None) -> Loss:
    """Of the rows of the stage's tables and databases that would go: those that will not come again."""
    found.kept[link.name], found.before = kept, len(found.counted)
    return together(list(_losses(found, link, kept)))


def _losses(found: Reaching, link: Link, kept: DataFrame | None) -> Iterator[Loss]:
    # Where its source gives all of its rows again, it gives those that go.
    asked = link.name == found.giving.link.name and found.giving.gives_all
    rows = None if asked else read_rows(found.spark, link.outputs)
    if rows is not None:
        yield count_lost(found, link, rows if kept is None else removed_rows(rows, kept))
    for output in link.outputs:
        columns = read_columns(found.spark, output.table)
        if columns is not None and not set(POSITION) <= columns.keys():
            yield _without_positions(found, link, output)
    if link.databases:
        from surestart.remedies.database_loss import find_database_loss

        for sink in link.databases:
            yield find_database_loss(found, link, sink, kept)


def count_lost(found: Reaching, link: Link, rows: DataFrame, where: str = "") -> Loss:
    """where: the table, if it is not the stage's own."""
    lost = found.lost(link, rows)
    return Loss() if lost is None else summarize(found, link, lost, where)


def summarize(found: Reaching, link: Link, lost: DataFrame, where: str = "") -> Loss:
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


def hidden_below(found: Reaching, link: Link, marks: Marks) -> int:
    """Rows of the stage's input below these marks that its tables do not have: kept rows would hide them from it."""
    if link.input is None or link.keyed or read_columns(found.spark, link.input) is None:
        return 0
    named = [(source, int(part), mark) for source, parts in marks.items() for part, mark in parts.items()]
    below = found.spark.createDataFrame(named, "source STRING, partition INT, below BIGINT")
    given, have = _below(read_table(found.spark, link.input), below), read_rows(found.spark, link.outputs)
    if have is None:
        return 0
    missing = not_in(given.select(*POSITION), have)
    return 0 if missing is None else missing.count()


def _below(rows: DataFrame, marks: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    named = F.broadcast(marks.toDF("k_source", "k_partition", "k_below"))
    same = (F.col("source") == F.col("k_source")) & (F.col("partition") == F.col("k_partition"))
    return rows.join(named, same & (F.col("offset") < F.col("k_below")), "left_semi")


def _groups(lost: DataFrame) -> list[Any]:
    from pyspark.sql import functions as F

    counted = lost.groupBy("source", "partition").agg(F.count("*").alias("n"), F.max("offset").alias("last"))
    return counted.collect()


def _without_positions(found: Reaching, link: Link, output: Output) -> Loss:
    """By its keys, where it has some and its input is a table; else nobody can tell its rows apart."""
    rows = read_table(found.spark, output.table)
    if output.role == NEWEST and link.input is not None and read_columns(found.spark, link.input) is not None:
        from pyspark.sql import functions as F

        given = link.stage.transform(read_table(found.spark, link.input))
        if set(output.keys) <= set(given.columns):
            keys = given.select(*[F.col(key).alias(f"_given_{key}") for key in output.keys])
            same = reduce(and_, [F.col(key).eqNullSafe(F.col(f"_given_{key}")) for key in output.keys])
            count = rows.join(large_side(keys), same, "left_anti").count()
            why = f"{count:,} keys of {output.table.name} have no row in {link.input.name}"
            return Loss(count, why, of_stage=count) if count else Loss()
    count = rows.count()
    why = f"{output.table.name} has no columns {', '.join(POSITION)}: whether its rows come again cannot be told"
    return Loss(count, why, of_stage=count) if count else Loss()


def together(losses: Sequence[Loss]) -> Loss:
    """Of all stages of a plan, or all tables of a stage. marks: empty as soon as something of it cannot be kept."""
    marks: dict[str, dict[str, int]] = {}
    for loss in losses:
        for source, parts in loss.marks.items():
            known = marks.setdefault(source, {})
            known.update({part: max(mark, known.get(part, 0)) for part, mark in parts.items()})
    return Loss(
        rows=sum(loss.rows for loss in losses),
        why="; ".join(dict.fromkeys(loss.why for loss in losses if loss.why)),
        marks={} if any(loss.of_stage and not loss.marks for loss in losses) else marks,
        other_topic=any(loss.other_topic for loss in losses),
        of_stage=sum(loss.of_stage for loss in losses),
    )
