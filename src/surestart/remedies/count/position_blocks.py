"""Compares tables by position: exactly, in one pass over each, with one shuffle of a 64th of the rows.

    (source, partition, offset)  ──>  (source, partition, offset div 64)   bit offset mod 64

    block 3 of partition 0      input   1111 1111 …  rows 64
                                output  1101 1111 …  rows 64      one position lost, another one there twice

Each side of a block is a count of rows and a mask of the positions that are there, so that lost, duplicated and strange
positions are `and`s of masks; nothing is sampled or hashed. Positions of a partition come in runs, so a block is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.count.counts import NAMES, CountedPlace, Counts

# So many files or partitions with something to say are looked at one by one; beyond, only the totals are told.
FETCHED = 200_000
_PLACE = ("source", "partition")


@dataclass(frozen=True)
class PartitionLimit:
    """Of one Kafka partition.

    begin: where the stage was told to start.
    first: the oldest offset that the topic has.
    reached: the first offset that the stage has not committed."""

    source: str
    partition: int
    begin: int
    first: int
    reached: int


@dataclass(frozen=True)
class ComparedRows:
    """input: everything there is; None: only the output is counted.
    reached: what the stage has certainly passed, None when `all_reached` or the limits say it."""

    outputs: tuple[DataFrame, ...]
    input: DataFrame | None = None
    reached: DataFrame | None = None
    all_reached: bool = True
    limits: tuple[PartitionLimit, ...] | None = None


def compare_positions(spark: SparkSession, sides: ComparedRows) -> DataFrame:
    """One row per block of 64 positions: the masks lost_mask, there_mask and the numbers of `Counts`."""
    from pyspark.sql import functions as F

    tables: dict[str, DataFrame] = {f"out{number}": rows for number, rows in enumerate(sides.outputs)}
    if sides.input is not None:
        tables["input"] = sides.input
    if sides.reached is not None:
        tables["reached"] = sides.reached
    tagged: DataFrame | None = None
    for name, rows in tables.items():
        one = rows.select(
            *_PLACE,
            F.expr("shiftright(`offset`, 6)").alias("block"),
            F.expr("shiftleft(1L, CAST(`offset` & 63L AS INT))").alias("bit"),
            F.col("offset"),
            F.lit(name).alias("side"),
        )
        tagged = one if tagged is None else tagged.unionAll(one)
    assert tagged is not None
    of_side = {name: F.when(F.col("side") == name, F.col("bit")) for name in tables}
    columns = [F.coalesce(F.bit_or(bit), F.lit(0)).alias(name) for name, bit in of_side.items()]
    columns += [F.count_if(F.col("side") == name).alias(f"{name}_rows") for name in tables]
    range_of = F.col("side").isin("input" if sides.input is not None else list(tables))
    columns.append(F.min(F.when(range_of, F.col("offset"))).alias("first_offset"))
    columns.append(F.max(F.when(range_of, F.col("offset"))).alias("last_offset"))
    blocks = tagged.groupBy(*_PLACE, "block").agg(*columns)
    if sides.limits is not None:
        schema = "source STRING, partition INT, begin_at BIGINT, oldest BIGINT, reached_to BIGINT"
        known = [(one.source, one.partition, one.begin, one.first, one.reached) for one in sides.limits]
        blocks = blocks.join(F.broadcast(spark.createDataFrame(known, schema)), [*_PLACE], "left")
    blocks = blocks.withColumns({name: F.expr(text) for name, text in _masks(sides).items()})
    return blocks.select(*_PLACE, "block", *[F.expr(text).alias(name) for name, text in _numbers(sides).items()])


def _masks(sides: ComparedRows) -> dict[str, str]:
    there = " | ".join(f"out{number}" for number in range(len(sides.outputs)))
    if sides.input is None:
        return {"there_mask": there, "asked": "0L", "must": "0L", "dropped": "0L"}
    if sides.limits is not None:
        # A topic that is no longer the stage's source has no limits: what the table holds of it is gone there.
        return {
            "there_mask": there,
            "asked": f"input & ~({_below('coalesce(begin_at, 0L)')})",
            "must": f"input & ~({_below('coalesce(begin_at, 0L)')}) & ({_below('coalesce(reached_to, 0L)')})",
            "dropped": _below("coalesce(oldest, 9223372036854775807L)"),
        }
    must = "input & reached" if sides.reached is not None else "input" if sides.all_reached else "0L"
    return {"there_mask": there, "asked": "input", "must": must, "dropped": "0L"}


def _below(position: str) -> str:
    """The mask of the block's positions below this one."""
    return (
        f"CASE WHEN {position} - 64 >= block * 64 THEN -1L WHEN {position} <= block * 64 THEN 0L"
        f" ELSE ~shiftleft(-1L, CAST({position} - block * 64 AS INT)) END"
    )


def _numbers(sides: ComparedRows) -> dict[str, str]:
    outputs = [f"out{number}" for number in range(len(sides.outputs))]
    asked = sides.input is not None
    extra = "there_mask & ~input" if asked else "0L"
    lost = "must & ~there_mask"
    return {
        "lost_mask": lost,
        "there_mask": "there_mask",
        "first": "first_offset",
        "last": "last_offset",
        "input": "bit_count(input)" if asked else "0",
        "rows": " + ".join(f"{name}_rows" for name in outputs),
        "distinct": "bit_count(there_mask)",
        "lost": f"bit_count({lost})",
        "duplicated": " + ".join(f"{name}_rows - bit_count({name})" for name in outputs),
        "in_both": f"bit_count({' & '.join(outputs)})" if len(outputs) > 1 else "0",
        "from_nowhere": f"bit_count({extra} & ~dropped)",
        "gone": f"bit_count({extra} & dropped)",
        "pending": "bit_count(asked & ~must & ~there_mask)",
    }


@dataclass(frozen=True)
class FoundPlaces:
    totals: Counts
    place_count: int
    places: tuple[CountedPlace, ...]


def read_places(blocks: DataFrame) -> FoundPlaces:
    """Totals, and each place: first those that something is missing from or wrong with, then the newest others."""
    from pyspark.sql import functions as F

    sums = [name for name in NAMES if name in blocks.columns]
    special = F.expr("lost + duplicated + in_both + from_nowhere + gone + pending > 0")
    by_place = blocks.groupBy(*_PLACE).agg(
        F.min("first").alias("first"), F.max("last").alias("last"), *[F.sum(name).alias(name) for name in sums]
    )
    rows = (
        by_place.withColumn("special", special.cast("int"))
        .withColumn("place", F.struct(*_PLACE))
        .rollup("place")
        .agg(
            F.grouping("place").alias("total"),
            F.count("*").alias("places"),
            F.max("special").alias("special"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            *[F.sum(name).alias(name) for name in sums],
        )
        .orderBy(F.desc("total"), F.desc("special"), F.desc("place"))
        .limit(FETCHED)
        .collect()
    )
    if not rows or not rows[0]["total"] or rows[0]["places"] == 0:
        return FoundPlaces(Counts(), 0, ())
    places = tuple(
        CountedPlace(
            row["place"]["source"], row["place"]["partition"], row["first"], row["last"], _counts(row.asDict(), sums)
        )
        for row in rows[1:]
    )
    return FoundPlaces(_counts(rows[0].asDict(), sums), int(rows[0]["places"]), places)


def _counts(row: Mapping[str, Any], names: Sequence[str]) -> Counts:
    return Counts(**{name: int(row[name] or 0) for name in names})
