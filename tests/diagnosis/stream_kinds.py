"""Kinds of streams as people write them, none by surestart: how each is started, and what its sink has to hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.diagnosis.stream_lab import ROWS, Folder, Kind, Rows, delta_rows, file_sink_rows, numbers

APP_ID = "nightly-ingest"
BUCKETS = 5


def read(spark: Any, folder: Folder, files: int) -> Any:
    stream = spark.readStream.format("text").option("maxFilesPerTrigger", files)
    stream = stream.option("pathGlobFilter", f"part-[0-{folder.newest}]").load(str(folder.input))
    return stream.selectExpr("cast(value AS INT) AS id")


def now(writer: Any, folder: Folder) -> Any:
    return writer.option("checkpointLocation", str(folder.checkpoint)).trigger(availableNow=True)


def to_delta(frame: Any, folder: Folder, mode: str = "append") -> Any:
    return now(frame.writeStream.format("delta").outputMode(mode), folder).start(str(folder.out))


def append(spark: Any, folder: Folder, files: int) -> Any:
    return to_delta(read(spark, folder, files), folder)


def another_writer(spark: Any, folder: Folder) -> None:
    """A second query appends to the same table, from the same input: its rows are above ours by 1000."""
    frame = read(spark, folder, 2).selectExpr("id + 1000 AS id")
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(folder.root / "theirs"))
    writer.trigger(availableNow=True).start(str(folder.out)).awaitTermination()


def ours(rows: Rows) -> Rows:
    return Counter({row: count for row, count in rows.items() if row[0] < 1000})


def by_function(function: Callable[[Any, int, Folder], None]) -> Callable[[Any, Folder, int], Any]:
    def start(spark: Any, folder: Folder, files: int) -> Any:
        frame = read(spark, folder, files)
        return now(
            frame.writeStream.foreachBatch(lambda batch, number: function(batch, number, folder)), folder
        ).start()

    return start


def plain_append(batch: Any, number: int, folder: Folder) -> None:
    batch.write.format("delta").mode("append").save(str(folder.out))


def constant_append(batch: Any, number: int, folder: Folder) -> None:
    writer = batch.write.format("delta").mode("append").option("txnAppId", APP_ID)
    writer.option("txnVersion", str(number)).save(str(folder.out))


def append_to_two(batch: Any, number: int, folder: Folder) -> None:
    plain_append(batch, number, folder)
    batch.selectExpr("id * 2 AS id").write.format("delta").mode("append").save(str(folder.out2))


def merge(batch: Any, number: int, folder: Folder) -> None:
    spark = batch.sparkSession
    if not (folder.out / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT) USING delta")
    batch.createOrReplaceTempView("arrived")
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def insert_new(batch: Any, number: int, folder: Folder) -> None:
    spark = batch.sparkSession
    if not (folder.out / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT) USING delta")
    batch.createOrReplaceTempView("arrived")
    spark.sql(f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")


def merge_with_pair(batch: Any, number: int, folder: Folder) -> None:
    spark = batch.sparkSession
    query_id = json.loads((folder.checkpoint / "metadata").read_text())["id"]
    pair = {"txnAppId": query_id, "txnVersion": str(number)}
    for name, value in pair.items():
        spark.conf.set(f"spark.databricks.delta.write.{name}", value)
    try:
        merge(batch, number, folder)
    finally:
        for name in pair:
            spark.conf.unset(f"spark.databricks.delta.write.{name}")


def to_parquet(spark: Any, folder: Folder, files: int) -> Any:
    return now(read(spark, folder, files).writeStream.format("parquet"), folder).start(str(folder.out))


def dedup(spark: Any, folder: Folder, files: int) -> Any:
    return to_delta(read(spark, folder, files).dropDuplicates(["id"]), folder)


def aggregate(spark: Any, folder: Folder, files: int) -> Any:
    counted = read(spark, folder, files).selectExpr(f"id % {BUCKETS} AS id").groupBy("id").count()
    return to_delta(counted, folder, "complete")


def counts(files: range) -> Rows:
    return Counter((bucket, len(files) * ROWS // BUCKETS) for bucket in range(BUCKETS))


def join(spark: Any, folder: Folder, files: int) -> Any:
    return to_delta(read(spark, folder, files).join(read(spark, folder, files), "id"), folder)


def with_state_in_pandas(spark: Any, folder: Folder, files: int) -> Any:
    from pyspark.sql.streaming.state import GroupStateTimeout

    def each(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
        seen = state.get[0] if state.exists else 0
        for frame in frames:
            seen += len(frame)
            yield frame[["id"]]
        state.update((seen,))

    grouped = read(spark, folder, files).selectExpr("id", f"id % {BUCKETS} AS bucket").groupBy("bucket")
    frame = grouped.applyInPandasWithState(each, "id INT", "seen INT", "append", GroupStateTimeout.NoTimeout)
    return to_delta(frame, folder)


def kind(name: str, start: Any, undeclared: str, declared: str, **more: Any) -> Kind:
    """The sink of the folder `out`, named by KIND, KIND+SAID, or by its path alone where that is ""."""

    def named(head: str) -> Callable[[Folder], tuple[str, ...]]:
        return lambda folder: (f"{head}:{folder.out}" if head else str(folder.out),)

    values = {
        "undeclared": named(undeclared),
        "declared": named(declared),
        "rows": lambda folder: delta_rows(folder.out),
        "expected": numbers,
    }
    return Kind(name, start, **{**values, **more})  # type: ignore[arg-type]


def both(head: str) -> Callable[[Folder], tuple[str, ...]]:
    return lambda folder: (f"{head}:{folder.out}", f"{head}:{folder.out2}")


def both_rows(folder: Folder) -> Rows:
    second = Counter({(2, *row): count for row, count in delta_rows(folder.out2).items()})
    return Counter({(1, *row): count for row, count in delta_rows(folder.out).items()}) + second


def both_expected(files: range) -> Rows:
    return Counter({(1, *row): 1 for row in numbers(files)}) + Counter({(2, row[0] * 2): 1 for row in numbers(files)})


APPEND = kind("append", append, "", "delta-builtin+alone")
TWO_WRITERS = kind(
    "two writers",
    append,
    "",
    "delta-builtin+shared",
    beside=another_writer,
    rows=lambda folder: ours(delta_rows(folder.out)),
)
MERGE = kind("merge", by_function(merge), "foreach-batch", "foreach-batch+alone+keys=id")
INSERT_NEW = kind("insert of new keys", by_function(insert_new), "", "foreach-batch+alone")
MERGE_PAIR = kind("merge with pair", by_function(merge_with_pair), "", "delta-merge+alone+keys=id")
FUNCTION = kind("append in a function", by_function(plain_append), "foreach-batch", "foreach-batch+alone")
CONSTANT = kind("constant id", by_function(constant_append), "foreach-batch", f"foreach-batch+app-id={APP_ID}")
PARQUET = kind("parquet", to_parquet, "parquet", "parquet+alone", rows=lambda folder: file_sink_rows(folder.out))
DEDUP = kind("dedup", dedup, "", "delta-builtin+alone")
AGGREGATE = kind(
    "aggregation",
    aggregate,
    "",
    "delta-builtin+alone",
    rows=lambda folder: delta_rows(folder.out, "id", "count"),
    expected=counts,
)
JOIN = kind("join", join, "", "delta-builtin+alone")
PANDAS = kind("state in pandas", with_state_in_pandas, "", "delta-builtin+alone")
TWO_SINKS = Kind(
    "two sinks",
    by_function(append_to_two),
    both("foreach-batch"),
    both("foreach-batch+alone"),
    both_rows,
    both_expected,
)
KINDS = (
    APPEND, TWO_WRITERS, MERGE, INSERT_NEW, MERGE_PAIR, FUNCTION, CONSTANT, PARQUET, DEDUP, AGGREGATE, JOIN, PANDAS,
    TWO_SINKS,
)  # fmt: skip
