"""The side of a join that may be as large as a table, however small Spark takes it to be.

Spark sends the smaller side of a join to every task when it expects less than 10 MB of it. It goes by the size of the
files, and positions are a small part of those and compress well: those of ten million rows passed for small, and an
undo ended after 300 s with `Could not execute broadcast`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def large_side(rows: DataFrame) -> DataFrame:
    """The same rows; a join that they are the right side of sorts and merges."""
    return rows.hint("merge")
