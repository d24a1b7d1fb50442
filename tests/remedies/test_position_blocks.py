"""Masks against sets: the same numbers and the same runs for positions drawn at random."""

from __future__ import annotations

import random
from typing import Any

import pytest

from surestart.remedies.count import position_gaps
from surestart.remedies.count.counts import Gap
from surestart.remedies.count.position_blocks import ComparedRows, PartitionLimit, compare_positions, read_places
from surestart.remedies.count.position_gaps import gaps_of_positions, read_gaps, runs_or_extents

PLACES = [("a", 0), ("a", 1), ("b", 0)]
SCHEMA = "source STRING, partition INT, offset BIGINT"


def test_masks_count_as_sets_do(spark: Any) -> None:
    rng = random.Random(20261118)
    # Dense and sparse places, both ends of a block, far offsets; each position in some of the tables.
    offsets = [*range(0, 200), *range(4032, 4100), 2**40 - 1, 2**40]
    everything = [(source, partition, offset) for source, partition in PLACES for offset in offsets]
    given = {position for position in everything if rng.random() < 0.9}
    reached = {position for position in given if rng.random() < 0.8}
    good = [position for position in everything if rng.random() < 0.5] * 2
    good = good[: int(len(good) * 0.6)]
    bad = [position for position in everything if rng.random() < 0.2]

    def frame(rows: Any) -> Any:
        return spark.createDataFrame(sorted(rows), SCHEMA)

    blocks = compare_positions(
        spark, ComparedRows((frame(good), frame(bad)), frame(given), frame(reached), all_reached=False)
    ).cache()
    found = read_places(blocks)
    gaps, complete = read_gaps(spark, blocks, "stage", PLACES)
    blocks.unpersist()

    there = set(good) | set(bad)
    for place in found.places:
        mine = {position for position in everything if position[:2] == (place.source, place.partition)}
        assert (place.first, place.last) == (min(given & mine)[2], max(given & mine)[2])
        assert place.counts.lost == len((reached & mine) - there)
    counts = found.totals
    assert (found.place_count, counts.input, counts.rows) == (3, len(given), len(good) + len(bad))
    assert (counts.distinct, counts.in_both) == (len(there), len(set(good) & set(bad)))
    assert counts.duplicated == len(good) - len(set(good)) + len(bad) - len(set(bad))
    assert (counts.lost, counts.pending) == (len(reached - there), len(given - reached - there))
    assert (counts.from_nowhere, counts.gone) == (len(there - given), 0)
    assert complete
    assert gaps == runs(reached - there, there)


def runs(lost: set[tuple[str, int, int]], there: set[tuple[str, int, int]]) -> tuple[Gap, ...]:
    found: list[Gap] = []
    broken = True
    for source, partition, offset in sorted(lost | there):
        if (source, partition, offset) in there:
            broken = True
            continue
        last = found[-1] if found else None
        if broken or last is None or (last.source, last.partition) != (source, partition):
            found.append(Gap("stage", source, partition, offset, offset, 1))
        else:
            found[-1] = Gap("stage", source, partition, last.first, offset, last.rows + 1)
        broken = False
    return tuple(reversed(found))


def test_limits_cut_inside_a_block(spark: Any) -> None:
    """Kafka: told to start at 70, oldest record 75, committed up to 191; the table has 60 to 79 and 195."""
    given = spark.createDataFrame([("t", 0, offset) for offset in range(75, 256)], SCHEMA)
    table = spark.createDataFrame([("t", 0, offset) for offset in [*range(60, 80), 195]] + [("old", 0, 3)], SCHEMA)
    limit = PartitionLimit("t", 0, begin=70, first=75, reached=191)

    found = read_places(compare_positions(spark, ComparedRows((table,), given, limits=(limit,))))

    counts = found.totals
    assert (counts.lost, counts.pending) == (191 - 80, 256 - 191 - 1)
    assert (counts.gone, counts.from_nowhere) == (15 + 1, 0)

    beyond = read_places(
        compare_positions(spark, ComparedRows((table,), given.where("offset < 195"), limits=(limit,)))
    ).totals
    assert beyond.from_nowhere == 1


def test_single_positions_are_joined_to_runs() -> None:
    assert gaps_of_positions("gold", [("f", 0, 2), ("f", 0, 1), ("f", 0, 4), ("g", 0, 5)]) == (
        Gap("gold", "g", 0, 5, 5, 1),
        Gap("gold", "f", 0, 4, 4, 1),
        Gap("gold", "f", 0, 1, 2, 2),
    )


def test_too_many_runs_are_one_stretch_for_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = [("f", 0, 2), ("f", 0, 4), ("f", 0, 5), ("f", 1, 9), ("g", 0, 5)]
    assert runs_or_extents("gold", positions) == (gaps_of_positions("gold", positions), True)
    monkeypatch.setattr(position_gaps, "KEPT_GAPS", 3)
    stretches = (Gap("gold", "g", 0, 5, 5, 1), Gap("gold", "f", 1, 9, 9, 1), Gap("gold", "f", 0, 2, 5, 3))
    assert runs_or_extents("gold", positions) == (stretches, True)
    monkeypatch.setattr(position_gaps, "KEPT_GAPS", 2)
    assert runs_or_extents("gold", positions) == (stretches[:2], False)
