"""Positions of a large table are never sent to every task, however small Spark takes them to be."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.spark.every_line import large_side

SOURCE = Path(surestart.__file__).parent
# What Spark expects of these it knows from the size of the landed files themselves.
NAMES_OF_FILES = ("remedies/find_loss.py:there",)


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


def sides_of_positions() -> list[Any]:
    """Where surestart asks which rows a table has or has not: file, line, and the right side as it is written."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "left_anti" not in text and "left_semi" not in text:
            continue
        tree = ast.parse(text)
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            nodes = list(ast.walk(function))
            written = {
                target.id: ast.unparse(node.value)
                for node in nodes
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
                    kinds = {one.value for one in node.args if isinstance(one, ast.Constant)}
                    if kinds & {"left_anti", "left_semi"}:
                        side = ast.unparse(node.args[0])
                        where = f"{path.relative_to(SOURCE)}:{side}"
                        found.append(pytest.param(where, written.get(side, side), id=where))
    return found


@pytest.mark.parametrize(("where", "side"), sides_of_positions())
def test_each_side_is_said_to_be_large_or_sent_on_purpose(where: str, side: str) -> None:
    assert where in NAMES_OF_FILES or "large_side(" in side or "broadcast(" in side, side
