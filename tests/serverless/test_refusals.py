"""Each refusal of the twin refuses: in the client and, by a foreachBatch function, in the worker."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from surestart.words.spark_errors import condition_of
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]
# One number, of two names.
NOT_ON_VOLUMES = errno.errorcode[errno.EOPNOTSUPP]
KEY = "spark.databricks.delta.snapshotPartitions"


def told(act: Callable[[], Any]) -> str:
    """The name of the refusal; "" where there is none."""
    try:
        act()
    except PySparkException as refusal:
        return condition_of(refusal)
    except OSError as refusal:
        return errno.errorcode[refusal.errno or 0]
    return ""


def asked_of(spark: Any, rows: Any) -> dict[str, str]:
    return {
        "get": told(lambda: spark.conf.get(KEY)),
        "get with a default": told(lambda: spark.conf.get(KEY, "1")),
        "set": told(lambda: spark.conf.set(KEY, "1")),
        "unset": told(lambda: spark.conf.unset(KEY)),
        "SQL": told(lambda: spark.sql(f"SET {KEY}=1")),
        "one of the six": told(lambda: spark.conf.set("spark.sql.session.timeZone", "UTC")),
        "persist": told(rows.persist),
        "cache": told(rows.cache),
        "checkpoint": told(rows.checkpoint),
        "local checkpoint": told(rows.localCheckpoint),
        "cache a table": told(lambda: spark.catalog.cacheTable("t")),
        "cache in SQL": told(lambda: spark.sql("CACHE LAZY TABLE t")),
        "global view": told(lambda: rows.createGlobalTempView("seen")),
        "context": told(lambda: spark.sparkContext),
        "rdd": told(lambda: rows.rdd),
    }


REFUSED = {
    **dict.fromkeys(("get", "get with a default", "set", "unset", "SQL"), twin.NOT_A_SETTING),
    **dict.fromkeys(("persist", "cache", "checkpoint", "local checkpoint", "global view"), twin.NOT_HERE),
    **dict.fromkeys(("cache a table", "cache in SQL"), twin.NOT_HERE),
    "one of the six": "",
    "context": "JVM_ATTRIBUTE_NOT_SUPPORTED",
    "rdd": "NOT_IMPLEMENTED",
}


def test_the_client_is_refused(spark: Any) -> None:
    # Of its own, and so by another name in 3.5; the worker is one of the server's line.
    own = {} if hasattr(PySparkException, "getCondition") else {"context": "NOT_IMPLEMENTED"}
    assert asked_of(spark, spark.range(1)) == {**REFUSED, **own}


def test_a_trigger_without_end_is_refused(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert told(lambda: stream.trigger(processingTime="1 second")) == twin.NOT_WITHOUT_END
    assert told(stream.start) == twin.NOT_WITHOUT_END


def test_volumes_have_no_lock_and_no_end_to_append_to(volumes: Path) -> None:
    with (volumes / "file").open("w") as file:
        assert told(lambda: fcntl.flock(file, fcntl.LOCK_EX)) == NOT_ON_VOLUMES
    assert told(lambda: (volumes / "file").open("a")) == NOT_ON_VOLUMES
    assert told(lambda: os.open(volumes / "file", os.O_WRONLY | os.O_APPEND)) == NOT_ON_VOLUMES
    assert (volumes / "file").read_text() == ""


def test_the_worker_is_refused_and_has_no_variables(
    spark: Any, tmp_path: Path, volumes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURESTART_ROOT", "somewhere")
    answers, query = written_by(spark, tmp_path, look_around(volumes, tmp_path / "answers"))
    assert answers.pop("variables") == []
    assert (answers.pop("write"), answers.pop("read")) == ("EACCES", "EACCES")
    assert answers == REFUSED
    assert [report["numInputRows"] for report in query.recentProgress] == [0]


def test_in_one_run_a_second_action_gives_nothing(spark: Any, tmp_path: Path, worker_with: Callable[..., None]) -> None:
    plain, _ = written_by(spark, tmp_path / "plain", count_twice(tmp_path / "plain.json"))
    worker_with(**{twin.EMPTY_SECOND: "1"})
    empty, _ = written_by(spark, tmp_path / "empty", count_twice(tmp_path / "empty.json"))
    assert (plain, empty) == ({"counts": [3, 3]}, {"counts": [3, 0]})


def look_around(volumes: Path, answers: Path) -> tuple[Path, Any]:
    (volumes / "there").write_text("x")

    def look(batch: Any, number: int) -> None:
        found: dict[str, Any] = asked_of(batch.sparkSession, batch)
        found["variables"] = [name for name in os.environ if name.startswith(("DATABRICKS_", "SURESTART_"))]
        found["write"] = told(lambda: (volumes / "new").write_text("x"))
        found["read"] = told((volumes / "there").read_text)
        answers.write_text(json.dumps(found))

    return answers, look


def count_twice(answers: Path) -> tuple[Path, Any]:
    def count(batch: Any, number: int) -> None:
        answers.write_text(json.dumps({"counts": [batch.count(), batch.count()]}))

    return answers, count


def written_by(spark: Any, folder: Path, asks: tuple[Path, Any]) -> tuple[dict[str, Any], Any]:
    """What the function told of the one batch of three rows that it was given."""
    answers, function = asks
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "rows.txt").write_text("a\nb\nc\n")
    stream = spark.readStream.format("text").load(f"{folder}/in").writeStream.foreachBatch(function)
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination(120)
    return json.loads(answers.read_text()), query
