"""Compares a keyed table with the rows it is made from: every key once, with the newest of its rows.

    per key    must   the newest row that the stage has certainly passed
               may    the newest row there is: a batch in flight may have written it already
               have   the row of the keyed table

    have = must                                exact
    no have                                    lost, when there is a must; else pending
    have older than must                       wrong
    have newer than must, among unread rows    a batch in flight; else from nowhere
    have as new, other values                  wrong

Values are compared by a 64-bit hash of the columns that both tables have; keys and order are compared themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from surestart.library_types import Column, DataFrame
from surestart.remedies.count.counts import KEPT_GAPS, Counts, Gap
from surestart.remedies.count.position_gaps import runs_or_extents
from surestart.stage import POSITION

_FETCHED, _EXAMPLES = 20_000, 20
_SUMS = ("input", "rows", "distinct", "lost", "duplicated", "wrong", "from_nowhere", "pending")


@dataclass(frozen=True)
class KeyedRows:
    """everything: the rows that the stage may read.
    reached: those it has certainly passed; None: all, or none, as all_reached says."""

    keyed: DataFrame
    keys: tuple[str, ...]
    order: tuple[str, ...]
    everything: DataFrame
    reached: DataFrame | None = None
    all_reached: bool = True


@dataclass(frozen=True)
class FoundKeys:
    counts: Counts
    gaps: tuple[Gap, ...] = ()
    examples: tuple[str, ...] = ()
    complete: bool = True


def count_newest(stage: str, newest: KeyedRows) -> FoundKeys:
    from pyspark.sql import functions as F

    judged = _judge(newest)
    row = judged.agg(*[F.sum(name).alias(name) for name in _SUMS]).collect()[0]
    counts = Counts(**{name: int(row[name] or 0) for name in _SUMS})
    if not counts.faults:
        return FoundKeys(counts)
    faulty = judged.where("lost + duplicated + wrong + from_nowhere > 0").limit(_FETCHED).collect()
    examples = tuple(
        ", ".join(f"{name}={value}" for name, value in zip(newest.keys, one["keys"], strict=True))
        for one in faulty[:_EXAMPLES]
    )
    if len(faulty) < _FETCHED:
        missing = [one["position"] for one in faulty if one["position"] is not None and (one["lost"] or one["wrong"])]
        gaps, complete = runs_or_extents(stage, [tuple(one) for one in missing])
    else:
        gaps, complete = _extents(stage, judged)
    return FoundKeys(counts, gaps, examples, complete)


def _extents(stage: str, judged: DataFrame) -> tuple[tuple[Gap, ...], bool]:
    """Of each file or partition, from the first position that is missing to the last."""
    from pyspark.sql import functions as F

    missing = judged.where("position IS NOT NULL AND lost + wrong > 0").select("position.*")
    rows = (
        missing.groupBy("source", "partition")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("rows"))
        .orderBy(F.desc("source"), F.desc("partition"))
        .limit(KEPT_GAPS + 1)
        .collect()
    )
    gaps = tuple(Gap(stage, *(row[name] for name in ("source", "partition", "first", "last", "rows"))) for row in rows)
    return gaps[:KEPT_GAPS], len(gaps) <= KEPT_GAPS


def _sides(newest: KeyedRows) -> DataFrame:
    """All rows below each other: keys, row, and the side that each is on."""
    from pyspark.sql import functions as F

    shared = [name for name in newest.keyed.columns if name in newest.everything.columns]
    positioned = set(POSITION) <= set(newest.everything.columns)
    kinds = {field.name: field.dataType for field in newest.everything.schema}

    def side(rows: DataFrame, name: str) -> DataFrame:
        def taken(column: str) -> Column:
            # The table may have a wider type than its input; the union needs one.
            return F.col(column).cast(kinds[column])

        position = F.struct(*POSITION) if positioned and name != "have" else F.lit(None)
        return rows.select(
            F.struct(*[taken(key).alias(key) for key in newest.keys]).alias("keys"),
            F.struct(
                F.struct(*[taken(column).alias(column) for column in newest.order]).alias("ordered"),
                F.xxhash64(*[taken(column) for column in shared]).alias("digest"),
                position.cast("struct<source:string,partition:int,offset:bigint>").alias("position"),
            ).alias("row"),
            F.lit(name).alias("side"),
        )

    sides = side(newest.everything, "may").unionAll(side(newest.keyed, "have"))
    return sides if newest.reached is None else sides.unionAll(side(newest.reached, "must"))


def _judge(newest: KeyedRows) -> DataFrame:
    """One row per key with a 0 or 1 for each of _SUMS."""
    from pyspark.sql import functions as F

    is_may, is_have = F.col("side") == "may", F.col("side") == "have"
    of_must = F.col("side") == "must" if newest.reached is not None else is_may if newest.all_reached else F.lit(False)
    # Only where something may be in flight: a set for each key sorts the table once more.
    all_read = newest.reached is None and newest.all_reached
    unread = [] if all_read else [F.collect_set(F.when(is_may, F.struct("row.ordered", "row.digest"))).alias("unread")]
    found = (
        _sides(newest)
        .groupBy("keys")
        .agg(
            F.max(F.when(of_must, F.col("row"))).alias("must"),
            F.max(F.when(is_may, F.col("row"))).alias("may"),
            F.max(F.when(is_have, F.col("row"))).alias("have"),
            F.count_if(is_have).alias("times"),
            *unread,
        )
    )
    exact = "have.ordered <=> must.ordered AND have.digest <=> must.digest"
    newer = "(must IS NULL OR have.ordered > must.ordered)"
    early = "false" if all_read else f"{newer} AND array_contains(unread, struct(have.ordered, have.digest))"
    kinds_of_fault = {
        "input": "may IS NOT NULL",
        "rows": "true",
        "distinct": "have IS NOT NULL",
        "lost": "have IS NULL AND must IS NOT NULL",
        "from_nowhere": f"have IS NOT NULL AND {newer} AND NOT ({early})",
        "wrong": f"have IS NOT NULL AND NOT {newer} AND NOT ({exact})",
        "pending": "may IS NOT NULL AND (must IS NULL OR may.ordered > must.ordered)"
        " AND NOT (have.ordered <=> may.ordered)",
    }
    numbers = {name: F.expr(f"CAST(coalesce({text}, false) AS INT)") for name, text in kinds_of_fault.items()}
    numbers["rows"] = F.col("times")
    numbers["duplicated"] = F.expr("greatest(times - 1, 0)")
    return found.select("keys", F.col("must.position").alias("position"), *[numbers[n].alias(n) for n in _SUMS])
