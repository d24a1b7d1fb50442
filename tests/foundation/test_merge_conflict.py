"""A MERGE that another commit has overtaken is made again, under the same identity: the stream does not end."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.sinks.delta import merge as delta_merge
from surestart.sinks.delta.merge import DeltaMerge, conflict_of
from surestart.stage import BatchContext

SINK = DeltaMerge("kept", "id INT, version INT", keys=("id",), order=("version",))
PATIENCE = 60.0


@dataclass(frozen=True)
class Gate:
    """The MERGE waits in its first task until somebody else has committed."""

    place: Path

    def wait(self, value: int) -> int:
        armed, reached, opened = (self.place / name for name in ("armed", "reached", "opened"))
        if armed.exists() and not opened.exists():
            reached.touch()
            until(opened)
        return value

    def arm(self, point: str) -> None:
        if point == "merge.before_commit":
            (self.place / "armed").touch()

    def commit_meanwhile(self, spark: Any, table: str) -> None:
        until(self.place / "reached")
        try:
            # A session of its own: the MERGE's identity is a setting of the other one.
            spark.newSession().sql(f"UPDATE {table} SET version = 5 WHERE id = 2")
        finally:
            (self.place / "opened").touch()


def until(file: Path) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        if file.exists():
            return
        time.sleep(0.05)
    raise TimeoutError(file)


def merge(spark: Any, environment: Environment, place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Batch 0 writes 1 and 2; while batch 1 is merged, somebody else changes 2."""
    from pyspark.sql import functions as F

    gate, table = Gate(place), environment.table("kept")
    SINK.prepare(spark, environment)
    writer = SINK.batch_writer(BatchContext(environment, "s", "q", str(place)))
    monkeypatch.setattr(delta_merge, "read_identity", lambda context, spark: "query")
    writer(spark.createDataFrame([(1, 1), (2, 1)], "id INT, version INT"), 0)
    monkeypatch.setattr(delta_merge, "fail_point", gate.arm)
    waiting = F.udf(gate.wait, "int")
    batch = spark.createDataFrame([(1, 2), (2, 2)], "id INT, version INT").withColumn("version", waiting("version"))
    other = threading.Thread(target=gate.commit_meanwhile, args=(spark, table.sql))
    other.start()
    try:
        writer(batch, 1)
    finally:
        other.join()
    return {row.id: row.version for row in spark.read.format("delta").load(table.path).collect()}


@pytest.mark.usefixtures("classic_only")
def test_a_commit_in_between_costs_another_try_and_no_row(
    spark: Any,
    environment: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="surestart.merge"):
        assert merge(spark, environment, tmp_path, monkeypatch) == {1: 2, 2: 5}
    (said,) = [record.getMessage() for record in caplog.records]
    assert "q: batch 1 met another commit in" in said
    assert "is merged again (DELTA_CONCURRENT_" in said


@pytest.mark.long(instead="test_a_commit_in_between_costs_another_try_and_no_row")
@pytest.mark.usefixtures("classic_only")
def test_delta_refuses_it_where_it_is_tried_once(
    spark: Any, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other test is about does happen."""
    monkeypatch.setattr(delta_merge, "_TRIES", 1)
    with pytest.raises(Exception, match="DELTA_CONCURRENT_") as refused:
        merge(spark, environment, tmp_path, monkeypatch)
    assert conflict_of(refused.value)


@pytest.mark.parametrize("text", ["[DELTA_CONCURRENT_TRANSACTION] …", "[DELTA_METADATA_CHANGED] …", "disk full"])
def test_what_another_try_would_not_help_is_raised(text: str) -> None:
    assert conflict_of(RuntimeError(text)) == ""
