"""A key is in the table once, also where a column of it, its partition or its bound is null or an empty text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.sinks.delta import merge as delta_merge
from surestart.sinks.delta.merge import DeltaMerge
from surestart.stage import BatchContext

COLUMNS = "id STRING, part STRING, at INT, version INT"
Row = tuple[str | None, str | None, int | None, int]

# name: keys, what partitions, what bounds, the rows of each batch, what the table holds then
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], Sequence[Sequence[Row]], Sequence[Row]]] = {
    "partition column null": (
        ("id",), ("part",), (),
        [[("a", None, 1, 1), ("b", "x", 1, 1)], [("a", None, 1, 2), ("b", "x", 1, 2)]],
        [("a", None, 1, 2), ("b", "x", 1, 2)],
    ),
    "partition column an empty text, which Delta stores as null": (
        ("id",), ("part",), (),
        [[("a", "", 1, 1)], [("a", "", 1, 2), ("b", "x", 1, 2)]],
        [("a", None, 1, 2), ("b", "x", 1, 2)],
    ),
    "bound column null": (
        ("id",), (), ("at",),
        [[("a", "x", None, 1), ("b", "x", 7, 1)], [("a", "x", None, 2), ("b", "x", 7, 2)]],
        [("a", "x", None, 2), ("b", "x", 7, 2)],
    ),
    "every bound of a batch null": (
        ("id",), (), ("at",),
        [[("a", "x", None, 1), ("b", "x", 7, 1)], [("a", "x", None, 2)]],
        [("a", "x", None, 2), ("b", "x", 7, 1)],
    ),
    "a key's column null": (
        ("id", "part"), (), (),
        [[("a", None, 1, 1), (None, "x", 1, 1)], [("a", None, 1, 2), (None, "x", 1, 2), ("a", "x", 1, 2)]],
        [("a", None, 1, 2), (None, "x", 1, 2), ("a", "x", 1, 2)],
    ),
    "a key's column, which is the partition, null and empty": (
        ("id", "part"), ("part",), (),
        [
            [("a", "", 1, 1), ("b", None, 1, 1), ("c", None, 1, 1)],
            [("a", None, 1, 2), ("b", "", 1, 3), ("b", None, 1, 2)],
        ],
        [("a", None, 1, 2), ("b", None, 1, 3), ("c", None, 1, 1)],
    ),
    "an empty text in a key that is no partition stays one": (
        ("id",), ("part",), (),
        [[("", "x", 1, 1), (None, "x", 1, 1)], [("", "x", 1, 2)]],
        [("", "x", 1, 2), (None, "x", 1, 1)],
    ),
    "an older row comes late": (
        ("id",), ("part",), ("at",),
        [[("a", "", None, 2)], [("a", None, None, 1)]],
        [("a", None, None, 2)],
    ),
}  # fmt: skip


QUICK = ("a key's column, which is the partition, null and empty",)
LONG = pytest.mark.long(instead="test_a_key_with_nulls_is_merged_and_not_added_again")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=LONG) for name in CASES])
def test_a_key_with_nulls_is_merged_and_not_added_again(
    spark: Any, environment: Environment, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    keys, parts, bounds, batches, wanted = CASES[name]
    sink = DeltaMerge("kept", COLUMNS, keys, ("version",), partition_by=parts, bounded_by=bounds)
    sink.prepare(spark, environment)
    monkeypatch.setattr(delta_merge, "read_identity", lambda context, spark: "query")
    writer = sink.batch_writer(BatchContext(environment, "s", "q", "/checkpoint"))
    for number, rows in enumerate(batches):
        writer(spark.createDataFrame(rows, COLUMNS), number)
    found = spark.read.format("delta").load(environment.table("kept").path).collect()
    assert Counter(tuple(row) for row in found) == Counter(wanted)
