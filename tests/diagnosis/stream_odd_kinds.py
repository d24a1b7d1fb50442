"""Streams beside the common ones: tables with every feature that changes a log, a name in place of a path, a batch job
that marks its own commits in the same table, and functions with more than one statement."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.diagnosis.stream_damages import (
    ANEW,
    DELETED,
    EMPTIED,
    HEALTHY,
    IN_FLIGHT,
    NO_ID_IN_FLIGHT,
    RESTORED,
    REWOUND,
)
from tests.diagnosis.stream_kinds import BUCKETS, by_function, counts, kind, now, ours, read, to_delta
from tests.diagnosis.stream_lab import Damage, Folder, Kind, Rows, delta_rows, numbers

FEATURES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
}
NIGHTLY = "nightly-job"


def made_with_features(spark: Any, folder: Folder) -> None:
    if not (folder.out / "_delta_log").exists():
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in FEATURES.items())
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT) USING delta CLUSTER BY (id) TBLPROPERTIES ({pairs})")


def with_features(spark: Any, folder: Folder, files: int) -> Any:
    made_with_features(spark, folder)
    return to_delta(read(spark, folder, files), folder)


def rows_by_spark(folder: Folder) -> Rows:
    """A reader of its own knows no physical names of columns."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not (folder.out / "_delta_log").exists():
        return Counter()
    return Counter((row.id,) for row in spark.read.format("delta").load(str(folder.out)).collect())


def by_name(spark: Any, folder: Folder, files: int) -> Any:
    name = folder.root.name.replace("-", "_")
    # In a thread without an active session Delta 4.4 loads the table as one of a path alone, and toTable fails
    # (DELTA_INVALID_V1_TABLE_CALL). This makes the session the thread's.
    spark.createDataFrame([], "id INT")
    writer = now(read(spark, folder, files).writeStream.format("delta"), folder)
    return writer.option("path", str(folder.out)).toTable(f"`{name}`")


def overwriting_schema(spark: Any, folder: Folder, files: int) -> Any:
    counted = read(spark, folder, files).selectExpr(f"id % {BUCKETS} AS id").groupBy("id").count()
    writer = counted.writeStream.format("delta").outputMode("complete").option("overwriteSchema", "true")
    return now(writer, folder).start(str(folder.out))


def batch_job(spark: Any, folder: Folder) -> None:
    """It marks its commits under an id of its own, with a number far above any batch of ours."""
    version = sum(1 for _ in (folder.out / "_delta_log").glob("0*.json")) + 100
    frame = spark.range(1000, 1005).selectExpr("cast(id AS INT) AS id").write.format("delta").mode("append")
    frame.option("txnAppId", NIGHTLY).option("txnVersion", str(version)).save(str(folder.out))


def two_merges(batch: Any, number: int, folder: Folder) -> None:
    """One statement for what is new, one for what is to go: Delta's guide splits them so."""
    spark = batch.sparkSession
    made_with_features(spark, folder)
    batch.createOrReplaceTempView("arrived")
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING (SELECT id FROM arrived WHERE id % 10 = 9) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE"
    )


def without_nines(files: range) -> Rows:
    return Counter({row: count for row, count in numbers(files).items() if row[0] % 10 != 9})


def append_then_delete(batch: Any, number: int, folder: Folder) -> None:
    """Rows that come and rows that go, without a key and without a mark: a replay doubles what stays."""
    made_with_features(batch.sparkSession, folder)
    batch.write.format("delta").mode("append").save(str(folder.out))
    batch.sparkSession.sql(f"DELETE FROM delta.`{folder.out}` WHERE id % 10 = 9")


def delete_then_append(batch: Any, number: int, folder: Folder) -> None:
    """Before MERGE people wrote it so: what comes is taken out first, here with all of its block of twenty."""
    made_with_features(batch.sparkSession, folder)
    low = batch.selectExpr("min(id)").collect()[0][0]
    held = batch.sparkSession.read.format("delta").load(str(folder.out)).where(f"id div 20 = {low} div 20")
    both = batch.unionByName(held).distinct()
    rows = [row.id for row in both.collect()]
    batch.sparkSession.sql(f"DELETE FROM delta.`{folder.out}` WHERE id div 20 = {low} div 20")
    frame = batch.sparkSession.createDataFrame([(row,) for row in rows], "id INT")
    frame.write.format("delta").mode("append").save(str(folder.out))


def summed_up(spark: Any, folder: Folder) -> None:
    """From here on each commit leaves a checkpoint of version 2, and the older commits are gone from the log."""
    table = f"delta.`{folder.out}`"
    pairs = "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({pairs})")
    newest = max(path.stem for path in (folder.out / "_delta_log").glob("0*.json") if path.stem.isdigit())
    for path in (folder.out / "_delta_log").glob("0*.json"):
        if path.stem.isdigit() and path.stem < newest:
            path.unlink()


def optimized(spark: Any, folder: Folder) -> None:
    """Its files are rewritten, and some of its rows deleted by a vector and put back."""
    table = f"delta.`{folder.out}`"
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"INSERT INTO {table} VALUES (3)")


def in_flight_summed_up(spark: Any, folder: Folder) -> None:
    summed_up(spark, folder)
    IN_FLIGHT.do(spark, folder)


def rewound_summed_up(spark: Any, folder: Folder) -> None:
    summed_up(spark, folder)
    REWOUND.do(spark, folder)


WITH_FEATURES = kind("every feature", with_features, "", "delta-builtin+alone", rows=rows_by_spark)
BY_NAME = kind("by name", by_name, "", "delta-builtin+alone")
OVERWRITING = kind(
    "complete with overwriteSchema",
    overwriting_schema,
    "",
    "delta-builtin+alone",
    rows=lambda folder: delta_rows(folder.out, "id", "count"),
    expected=counts,
)
BESIDE_A_JOB = kind(
    "beside a batch job that marks its commits",
    lambda spark, folder, files: to_delta(read(spark, folder, files), folder),
    "",
    "delta-builtin+shared",
    beside=batch_job,
    rows=lambda folder: ours(delta_rows(folder.out)),
)
TWO_MERGES = kind(
    "two merges",
    by_function(two_merges),
    "foreach-batch",
    "foreach-batch+alone+keys=id",
    rows=rows_by_spark,
    expected=without_nines,
)
APPEND_THEN_DELETE = kind(
    "append then delete",
    by_function(append_then_delete),
    "foreach-batch",
    "foreach-batch+alone",
    rows=rows_by_spark,
    expected=without_nines,
)
DELETE_THEN_APPEND = kind(
    "delete then append",
    by_function(delete_then_append),
    "foreach-batch",
    "foreach-batch+alone",
    rows=rows_by_spark,
)
ODD_KINDS = (WITH_FEATURES, BY_NAME, OVERWRITING, BESIDE_A_JOB, TWO_MERGES, APPEND_THEN_DELETE, DELETE_THEN_APPEND)
ODD_CASES: list[tuple[Kind, Damage]] = [
    *((one, HEALTHY) for one in ODD_KINDS),
    (WITH_FEATURES, Damage("summed up", summed_up, healthy=True)),
    (WITH_FEATURES, Damage("optimized", optimized, healthy=True)),
    (WITH_FEATURES, Damage("summed up, in flight", in_flight_summed_up)),
    (WITH_FEATURES, Damage("summed up, rewound", rewound_summed_up)),
    *((WITH_FEATURES, damage) for damage in (IN_FLIGHT, DELETED, REWOUND, EMPTIED, RESTORED)),
    *((BY_NAME, damage) for damage in (IN_FLIGHT, REWOUND, NO_ID_IN_FLIGHT)),
    *((OVERWRITING, damage) for damage in (IN_FLIGHT, REWOUND, ANEW)),
    *((BESIDE_A_JOB, damage) for damage in (IN_FLIGHT, DELETED, REWOUND, NO_ID_IN_FLIGHT)),
    *((TWO_MERGES, damage) for damage in (IN_FLIGHT, REWOUND)),
    (DELETE_THEN_APPEND, IN_FLIGHT),
    *((APPEND_THEN_DELETE, damage) for damage in (IN_FLIGHT, REWOUND)),
]
