"""Positions of a large table are never sent to every task, however small Spark takes them to be."""

from __future__ import annotations

from typing import Any

from surestart.large_side import large_side


def test_a_side_that_spark_takes_for_small_is_sorted_and_merged(spark: Any, capsys: Any) -> None:
    def plan(rows: Any) -> str:
        rows.explain()
        return str(capsys.readouterr().out)

    left, right = spark.range(9), spark.range(3, 5)

    # Spark's own choice, without which there would be nothing to keep it from.
    assert "BroadcastHashJoin" in plan(left.join(right, "id", "left_anti"))
    for how in ("left_anti", "left_semi"):
        planned = plan(left.join(large_side(right), "id", how))
        assert "SortMergeJoin" in planned
        assert "Broadcast" not in planned
    assert sorted(row.id for row in left.join(large_side(right), "id", "left_anti").collect()) == [0, 1, 2, 5, 6, 7, 8]
