"""Runs of missing positions, from the masks of `position_blocks`.

    block   0          1          2          3
    lost    ........   ....####   ########   ##......       one gap: from the middle of block 1 into block 3
    there   ########   ####....   ........   ..######

Positions that neither side has (Kafka's transaction markers, compacted records) do not end a run; a row that is there
does. Whole blocks are joined by Spark, so that a lost partition of a billion rows is one line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.count.counts import KEPT_GAPS, Gap

_PLACES = 500
_PIECES = 20_000
_ALL = (1 << 64) - 1


@dataclass(frozen=True)
class _Piece:
    """A run inside one block or over whole blocks.

    order: the rank of its first and last block among the blocks of its partition.
    open_left: no row is there before it in its first block."""

    source: str
    partition: int
    first: int
    last: int
    rows: int
    first_rank: int
    last_rank: int
    open_left: bool
    open_right: bool


def read_gaps(
    spark: SparkSession, blocks: DataFrame, stage: str, places: Sequence[tuple[str, int]]
) -> tuple[tuple[Gap, ...], bool]:
    """The newest runs in these places, newest first, and whether they are all."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    chosen = sorted(places, reverse=True)[:_PLACES]
    wanted = F.broadcast(spark.createDataFrame(chosen, "source STRING, partition INT"))
    by_block = Window.partitionBy("source", "partition").orderBy("block")
    ranked = (
        blocks.join(wanted, ["source", "partition"], "left_semi")
        .where("lost_mask <> 0 OR there_mask <> 0")
        .select("source", "partition", "block", "lost_mask", "there_mask", "lost")
        .withColumn("rank", F.row_number().over(by_block))
        .withColumn("whole", F.expr("CAST(lost_mask <> 0 AND there_mask = 0 AS INT)"))
        .withColumn("run", F.expr("rank") - F.sum("whole").over(by_block))
        .where("lost_mask <> 0")
        .withColumn("run", F.expr("CASE WHEN whole = 1 THEN run ELSE -rank END"))
    )
    rows = (
        ranked.groupBy("source", "partition", "run")
        .agg(
            F.min("block").alias("first_block"),
            F.max("block").alias("last_block"),
            F.min("rank").alias("first_rank"),
            F.max("rank").alias("last_rank"),
            F.min_by("lost_mask", "block").alias("first_mask"),
            F.max_by("lost_mask", "block").alias("last_mask"),
            F.max("there_mask").alias("there_mask"),
            F.sum("lost").alias("lost"),
        )
        .orderBy(F.desc("source"), F.desc("partition"), F.desc("last_block"))
        .limit(_PIECES)
        .collect()
    )
    pieces: list[_Piece] = []
    for row in rows:
        source, partition, block = str(row["source"]), int(row["partition"]), int(row["first_block"])
        ranks = int(row["first_rank"]), int(row["last_rank"])
        first, last = int(row["first_mask"]) & _ALL, int(row["last_mask"]) & _ALL
        if row["there_mask"] == 0:
            low, high = block * 64 + _bits(first)[0], int(row["last_block"]) * 64 + _bits(last)[-1]
            pieces.append(_Piece(source, partition, low, high, int(row["lost"]), *ranks, True, True))
        else:
            pieces += _pieces_of_block(source, partition, block, ranks[0], first, int(row["there_mask"]) & _ALL)
    gaps = sorted(
        _joined(stage, sorted(pieces, key=lambda piece: (piece.source, piece.partition, piece.first))),
        key=lambda gap: (gap.source, gap.partition, gap.last),
        reverse=True,
    )
    complete = len(rows) < _PIECES and len(places) <= _PLACES and len(gaps) <= KEPT_GAPS
    return tuple(gaps[:KEPT_GAPS]), complete


def _bits(mask: int) -> list[int]:
    return [number for number in range(64) if mask >> number & 1]


def _pieces_of_block(source: str, partition: int, block: int, rank: int, lost: int, there: int) -> Iterator[_Piece]:
    runs: list[list[int]] = []
    broken = True
    for number in range(64):
        if there >> number & 1:
            broken = True
        elif lost >> number & 1:
            if broken:
                runs.append([])
            runs[-1].append(number)
            broken = False
    for run in runs:
        yield _Piece(
            source=source,
            partition=partition,
            first=block * 64 + run[0],
            last=block * 64 + run[-1],
            rows=len(run),
            first_rank=rank,
            last_rank=rank,
            open_left=there & ((1 << run[0]) - 1) == 0,
            open_right=there >> run[-1] == 0,
        )


def _joined(stage: str, pieces: Iterable[_Piece]) -> Iterator[Gap]:
    former: _Piece | None = None
    gap: Gap | None = None
    for piece in pieces:
        touches = (
            former is not None
            and (former.source, former.partition) == (piece.source, piece.partition)
            and former.last_rank + 1 == piece.first_rank
            and former.open_right
            and piece.open_left
        )
        if touches and gap is not None:
            gap = Gap(stage, gap.source, gap.partition, gap.first, piece.last, gap.rows + piece.rows)
        else:
            if gap is not None:
                yield gap
            gap = Gap(stage, piece.source, piece.partition, piece.first, piece.last, piece.rows)
        former = piece
    if gap is not None:
        yield gap


def runs_or_extents(stage: str, positions: Iterable[tuple[str, int, int]]) -> tuple[tuple[Gap, ...], bool]:
    """Runs of neighbouring offsets; where these are too many, one stretch for each file or partition, with rows between
    that are not missing. And whether that is all."""
    runs = gaps_of_positions(stage, positions)
    if len(runs) <= KEPT_GAPS:
        return runs, True
    places: dict[tuple[str, int], list[Gap]] = {}
    for run in runs:
        places.setdefault((run.source, run.partition), []).append(run)
    found = [
        Gap(stage, source, partition, min(g.first for g in own), max(g.last for g in own), sum(g.rows for g in own))
        for (source, partition), own in places.items()
    ]
    return tuple(found[:KEPT_GAPS]), len(found) <= KEPT_GAPS


def gaps_of_positions(stage: str, positions: Iterable[tuple[str, int, int]]) -> tuple[Gap, ...]:
    """Single positions as runs of neighbouring offsets, newest first."""
    gaps: list[Gap] = []
    for source, partition, offset in sorted(set(positions)):
        last = gaps[-1] if gaps else None
        if last and (last.source, last.partition, last.last + 1) == (source, partition, offset):
            gaps[-1] = Gap(stage, source, partition, last.first, offset, last.rows + 1)
        else:
            gaps.append(Gap(stage, source, partition, offset, offset, 1))
    return tuple(reversed(gaps))
