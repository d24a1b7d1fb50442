"""Ranges of positions of a source, and the bounded read of their rows.

Also finds the rows whose position another table does not have. Blocks of 64 positions are compared first, and only the
rows of blocks that lack something are joined: of two tables of five million rows, 2.9 s instead of 4.5 s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surestart.environment import Environment
from surestart.facts.kafka.evidence import KafkaEvidence
from surestart.library_types import Column, DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION
from surestart.sources.abilities import folder_of, topic_of
from surestart.spark.every_line import large_side
from surestart.stage import Stage

# Every query's text has them all; a hole in more files than this is no small part of the folder any more.
_NAMES = 2_000
_COLUMNS = "r_source STRING, r_partition INT, r_first BIGINT, r_last BIGINT"


@dataclass(frozen=True)
class Range:
    source: str
    partition: int
    first: int
    last: int


def read_range_rows(spark: SparkSession, environment: Environment, stage: Stage, ranges: Sequence[Range]) -> DataFrame:
    """The rows of the stage's source whose position lies in one of the ranges."""
    topic, folder = topic_of(stage.source), folder_of(stage.source)
    if topic is not None:
        rows = topic.read_batch(spark, environment, narrow_evidence(topic.read_evidence(), topic.topic, ranges))
    elif folder is not None:
        rows = folder.read_batch(spark, environment, _file_names(ranges))
    else:
        rows = stage.source.read_batch(spark, environment)
    return inside(spark, rows, ranges)


def inside(spark: SparkSession, rows: DataFrame, ranges: Sequence[Range]) -> DataFrame:
    """Those whose position lies in one of the ranges."""
    from pyspark.sql import functions as F

    values = [(one.source, one.partition, one.first, one.last) for one in ranges]
    marks = F.broadcast(spark.createDataFrame(values, _COLUMNS))
    same = (F.col("source") == F.col("r_source")) & (F.col("partition") == F.col("r_partition"))
    between = F.col("offset").between(F.col("r_first"), F.col("r_last"))
    return rows.join(marks, same & between, "left_semi")


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same positions, each in one range only, newest last; neighbours are one."""
    found: list[Range] = []
    for one in sorted(ranges, key=lambda one: (one.source, one.partition, one.first)):
        last = found[-1] if found else None
        if last and (last.source, last.partition) == (one.source, one.partition) and one.first <= last.last + 1:
            found[-1] = replace(last, last=max(last.last, one.last))
        else:
            found.append(one)
    return found


def _file_names(ranges: Sequence[Range]) -> tuple[str, ...]:
    """The names of the files that the ranges are in; none where Spark could not find the files by them."""
    names = {one.source.rpartition("/")[2] for one in ranges}
    # Spark compares with names that it has encoded as a part of a URL: a space would be %20, and the file left out.
    plain = all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)
    return tuple(sorted(names)) if plain and len(names) <= _NAMES else ()


def narrow_evidence(evidence: KafkaEvidence, topic: str, ranges: Sequence[Range]) -> KafkaEvidence:
    """For each partition, only from the first offset that is wanted to the last: a hole of a minute needs no week of a
    topic."""
    narrowed = []
    for one in evidence.partitions:
        wanted = [part for part in ranges if (part.source, part.partition) == (topic, one.partition)]
        first = max(one.earliest, min((part.first for part in wanted), default=one.latest))
        last = min(one.latest, max((part.last + 1 for part in wanted), default=first))
        narrowed.append(replace(one, earliest=min(first, last), latest=last))
    return replace(evidence, partitions=tuple(narrowed))


# So many partitions or files are named in the query, so that Delta leaves out every file without them.
_LITERALS = 200


def not_in(rows: DataFrame, there: DataFrame) -> DataFrame | None:
    """The rows whose position the other table has not; None: there is no such row. A row without a position is always
    one."""
    from pyspark.sql import functions as F

    bounds = [F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("n")]
    extents = rows.groupBy("source", "partition").agg(*bounds).limit(_LITERALS + 1).collect()
    if not extents:
        return None
    there = there.select(*POSITION)
    if len(extents) <= _LITERALS:
        there = _within(there, extents)
    blocks = _blocks(rows, mine=True).unionAll(_blocks(there, mine=False)).groupBy("source", "partition", "block")
    of = {side: F.bit_or(F.when(F.col("mine") == (side == "ours"), F.col("bit"))) for side in ("ours", "theirs")}
    masks = blocks.agg(F.count_if("mine").alias("n"), *[mask.alias(side) for side, mask in of.items()])
    unplaced = "source IS NULL OR partition IS NULL OR block IS NULL"
    if masks.where(f"n > 0 AND ({unplaced} OR (ours & ~coalesce(theirs, 0L)) <> 0)").isEmpty():
        return None
    return rows.join(large_side(there), list(POSITION), "left_anti")


def _within(there: DataFrame, extents: Sequence[Any]) -> DataFrame:
    from pyspark.sql import functions as F

    found: Column = F.lit(False)
    for row in extents:
        if row["source"] is None or row["partition"] is None or row["first"] is None:
            continue
        here = (F.col("source") == row["source"]) & (F.col("partition") == row["partition"])
        found = found | (here & F.col("offset").between(row["first"], row["last"]))
    return there.where(found)


def _blocks(rows: DataFrame, mine: bool) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.select(
        "source",
        "partition",
        F.expr("shiftright(CAST(`offset` AS BIGINT), 6)").alias("block"),
        F.expr("shiftleft(1L, CAST(`offset` & 63L AS INT))").alias("bit"),
        F.lit(mine).alias("mine"),
    )
