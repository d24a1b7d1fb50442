"""An append of no rows carries a pair and a note, once: what is left where a MERGE can carry neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Table
from surestart.facts.delta import read_history
from surestart.sinks.delta.transaction import append_pair, takes_pairs, transaction
from surestart.spark.delta_table import create_table, read_table

COLUMNS = "k STRING NOT NULL, n INT, day DATE"


NUMBERED = "id BIGINT GENERATED ALWAYS AS IDENTITY, offset BIGINT"


@pytest.fixture(params=["by path", "by name", "by path, numbered", "by name, numbered"])
def table(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Any:
    by_path = Table("pairs", path=str(tmp_path / "pairs"))
    made = by_path if "path" in request.param else Table("pairs", qualified="default.pairs_by_name")
    more = f", {NUMBERED}" if "numbered" in request.param else ""
    create_table(spark, made, COLUMNS + more, ("day",))
    spark.sql(f"INSERT INTO {made.sql} (k, n, day) VALUES ('a', 1, DATE'2026-01-01')").collect()
    yield made
    if made.qualified:
        spark.sql(f"DROP TABLE {made.sql}").collect()


def test_it_makes_one_commit_of_no_rows_for_each_pair(spark: Any, table: Table) -> None:
    for pair in (("app", 3, "first"), ("app", 3, "again"), ("app", 2, "older"), ("other", 0, "second")):
        append_pair(spark, table, *pair)

    history = spark.sql(f"DESCRIBE HISTORY {table.sql}").orderBy("version").collect()
    assert [row["userMetadata"] for row in history[2:]] == ["first", "second"]
    assert [row["operationMetrics"]["numOutputRows"] for row in history[2:]] == ["0", "0"]
    assert [row["isBlindAppend"] for row in history[2:]] == [True, True]
    assert read_table(spark, table).count() == 1
    if table.path:
        pairs = [commit.transactions for commit in read_history(table.path)[2:]]
        assert pairs == [(("app", 3),), (("other", 0),)]


def test_a_merge_that_comes_later_with_that_pair_is_dropped(spark: Any, table: Table) -> None:
    append_pair(spark, table, "app", 3, "note")
    assert takes_pairs(spark)
    with transaction(spark, "app", 3, "again"):
        spark.sql(f"DELETE FROM {table.sql}").collect()
    assert read_table(spark, table).count() == 1
