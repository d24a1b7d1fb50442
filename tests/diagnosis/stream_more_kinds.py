"""More streams as people write them: what guides and forums show beside the kinds of stream_kinds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.diagnosis.stream_damages import (
    ANEW,
    DELETED,
    EMPTIED,
    HEALTHY,
    IN_FLIGHT,
    NO_ID,
    NO_ID_IN_FLIGHT,
    RESTORED,
    REWOUND,
    UNWRITTEN,
)
from tests.diagnosis.stream_kinds import (
    BUCKETS,
    both_expected,
    both_rows,
    by_function,
    kind,
    now,
    read,
    to_delta,
)
from tests.diagnosis.stream_lab import ROWS, Damage, Folder, Kind, Rows, delta_rows, numbers

CONSTANT_OF_TWO = "orders-writer"


def once(spark: Any, folder: Folder, files: int) -> Any:
    """Trigger.Once: all that waits is one batch, whatever the reader's limits say."""
    writer = read(spark, folder, files).writeStream.format("delta").option("checkpointLocation", str(folder.checkpoint))
    return writer.trigger(once=True).start(str(folder.out))


def two_with_one_constant(batch: Any, number: int, folder: Folder) -> None:
    """Databricks' own example of idempotent writes: one txnAppId for two tables, the batch's number as version."""
    pair = {"txnAppId": CONSTANT_OF_TWO, "txnVersion": str(number)}
    batch.write.format("delta").mode("append").options(**pair).save(str(folder.out))
    doubled = batch.selectExpr("id * 2 AS id")
    doubled.write.format("delta").mode("append").options(**pair).save(str(folder.out2))


def merge_that_deletes(batch: Any, number: int, folder: Folder) -> None:
    """A key that comes is set, the next one's mark is taken: every clause of a MERGE in one."""
    spark = batch.sparkSession
    if not (folder.out / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT) USING delta")
    batch.selectExpr("id", "id % 10 = 9 AS gone").createOrReplaceTempView("arrived")
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET id = s.id WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id) VALUES (s.id)"
    )


def without_nines(files: range) -> Rows:
    return Counter({row: count for row, count in numbers(files).items() if row[0] % 10 != 9})


def overwritten(batch: Any, number: int, folder: Folder) -> None:
    """A dashboard's table: each batch replaces the whole of it."""
    batch.write.format("delta").mode("overwrite").save(str(folder.out))


def upsert_of_counts(batch: Any, number: int, folder: Folder) -> None:
    spark = batch.sparkSession
    if not (folder.out / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT, count BIGINT) USING delta")
    batch.createOrReplaceTempView("arrived")
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def update_of_counts(spark: Any, folder: Folder, files: int) -> Any:
    """Delta's guide: an aggregation in output mode update, upserted by a function."""
    counted = read(spark, folder, files).selectExpr(f"id % {BUCKETS} AS id").groupBy("id").count()
    writer = counted.writeStream.outputMode("update")
    return now(writer.foreachBatch(lambda batch, number: upsert_of_counts(batch, number, folder)), folder).start()


def counts(files: range) -> Rows:
    return Counter((bucket, len(files) * ROWS // BUCKETS) for bucket in range(BUCKETS))


def static_join(spark: Any, folder: Folder, files: int) -> Any:
    names = spark.range(1000).selectExpr("cast(id AS INT) AS id")
    return to_delta(read(spark, folder, files).join(names, "id"), folder)


def union(spark: Any, folder: Folder, files: int) -> Any:
    """Two sources of one folder that differ in an option, so that Spark keeps both."""
    odd = spark.readStream.format("text").option("maxFilesPerTrigger", files).option("pathGlobFilter", "*")
    other = odd.load(str(folder.input)).selectExpr("cast(value AS INT) + 500 AS id")
    return to_delta(read(spark, folder, files).unionByName(other), folder)


def twice(files: range) -> Rows:
    rows = numbers(files)
    return rows + Counter({(row[0] + 500,): count for row, count in rows.items()})


def partitioned(spark: Any, folder: Folder, files: int) -> Any:
    frame = read(spark, folder, files).selectExpr("id", "id % 3 AS part")
    return now(frame.writeStream.format("parquet").partitionBy("part"), folder).start(str(folder.out))


def as_text(format: str) -> Any:
    def start(spark: Any, folder: Folder, files: int) -> Any:
        return now(read(spark, folder, files).writeStream.format(format), folder).start(str(folder.out))

    return start


def sessions(spark: Any, folder: Folder, files: int) -> Any:
    """Each number is a session of its own, which is written once the watermark has passed its end."""
    timed = read(spark, folder, files).selectExpr("id", "timestamp_seconds(id * 100) AS at")
    grouped = timed.withWatermark("at", "0 seconds").groupBy(F.session_window("at", "10 seconds"), "id")
    return to_delta(grouped.count().select("id"), folder)


def ended(files: range) -> Rows:
    """The newest session is open."""
    rows = numbers(files)
    return Counter({row: count for row, count in rows.items() if row != max(rows)})


def listed(folder: Path) -> list[Path]:
    """The files that a file sink counts as its own."""
    log = folder / "_spark_metadata"
    logged = [path for path in log.iterdir() if path.name[0] != "."] if log.exists() else []
    lines = [line for path in logged for line in path.read_text().splitlines()[1:]]
    return sorted({Path(json.loads(line)["path"].removeprefix("file://")) for line in lines})


def text_rows(folder: Folder) -> Rows:
    values = [line for path in listed(folder.out) for line in path.read_text().split()]
    return Counter((json.loads(one)["id"] if one.startswith("{") else int(one),) for one in values)


def partitioned_rows(folder: Folder) -> Rows:
    import pyarrow.parquet as parquet

    files = [parquet.ParquetFile(path).read() for path in listed(folder.out)]
    return Counter((value,) for file in files for value in file.column("id").to_pylist())


def backup_of_its_own_age(spark: Any, folder: Folder) -> None:
    """As `rsync -a` or an image of the disk puts it back: no file is younger than it was."""
    shutil.rmtree(folder.checkpoint)
    shutil.copytree(folder.root / "early", folder.checkpoint)
    for path in sorted(folder.checkpoint.rglob("*"), reverse=True):
        former = folder.root / "early" / path.relative_to(folder.checkpoint)
        shutil.copystat(former, path)
    shutil.copystat(folder.root / "early", folder.checkpoint)


ONCE = kind("trigger once", once, "", "delta-builtin+alone")
ONE_CONSTANT = Kind(
    "one constant for two tables",
    by_function(two_with_one_constant),
    lambda folder: (f"foreach-batch:{folder.out}", f"foreach-batch:{folder.out2}"),
    lambda folder: tuple(f"foreach-batch+app-id={CONSTANT_OF_TWO}:{one}" for one in (folder.out, folder.out2)),
    both_rows,
    both_expected,
)
MERGE_DELETE = kind(
    "merge that deletes",
    by_function(merge_that_deletes),
    "foreach-batch",
    "foreach-batch+alone+keys=id",
    expected=without_nines,
)
UPSERT = kind(
    "update mode upserted",
    update_of_counts,
    "foreach-batch",
    "foreach-batch+alone+keys=id",
    rows=lambda folder: delta_rows(folder.out, "id", "count"),
    expected=counts,
)
STATIC = kind("join with a table", static_join, "", "delta-builtin+alone")
UNION = kind("union of two sources", union, "", "delta-builtin+alone", expected=twice)
SESSIONS = kind("session windows", sessions, "", "delta-builtin+alone", expected=ended)
PARTITIONED = kind("partitioned parquet", partitioned, "parquet", "parquet+alone", rows=partitioned_rows)
CSV = kind("csv", as_text("csv"), "csv", "csv+alone", rows=text_rows)
JSON = kind("json", as_text("json"), "json", "json+alone", rows=text_rows)
OLD_BACKUP = Damage("a backup of its own age put back", backup_of_its_own_age)
MORE_KINDS = (
    ONCE, ONE_CONSTANT, MERGE_DELETE, UPSERT, STATIC, UNION, SESSIONS, PARTITIONED, CSV, JSON,
)  # fmt: skip
MORE_CASES: list[tuple[Kind, Damage]] = [
    *((one, HEALTHY) for one in MORE_KINDS),
    # One batch has all: no former batch to go back to.
    *((ONCE, damage) for damage in (DELETED, NO_ID)),
    *((ONE_CONSTANT, damage) for damage in (IN_FLIGHT, REWOUND, DELETED, RESTORED)),
    *((MERGE_DELETE, damage) for damage in (IN_FLIGHT, UNWRITTEN, REWOUND, ANEW)),
    *((UPSERT, damage) for damage in (IN_FLIGHT, REWOUND, DELETED, OLD_BACKUP)),
    *((STATIC, damage) for damage in (IN_FLIGHT, NO_ID_IN_FLIGHT, OLD_BACKUP, ANEW)),
    *((UNION, damage) for damage in (IN_FLIGHT, REWOUND, EMPTIED)),
    *((SESSIONS, damage) for damage in (IN_FLIGHT, UNWRITTEN, REWOUND, OLD_BACKUP)),
    *((PARTITIONED, damage) for damage in (IN_FLIGHT, UNWRITTEN, REWOUND, DELETED, OLD_BACKUP)),
    *((CSV, damage) for damage in (IN_FLIGHT, DELETED)),
    *((JSON, damage) for damage in (REWOUND, NO_ID_IN_FLIGHT)),
]  # fmt: skip
