"""The three hops as a first tutorial writes them: `python -m benchmarks.naive ROOT LANDING [--one-file] …`.

Three writeStreams that run side by side with default settings, text in, no positions, no quarantine, from_json and a
filter, and a MERGE on the keys alone. It does less than this pipeline and is right on this input. It is the denominator
of most ratios, so it gets what it needs to be fair: the same jars by file, tables that exist before they are read, and
in --one-file mode the streams one after another, with nothing else running.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.event_log import event_log_confs

SCHEMA = (
    "sensor_id STRING, room STRING, firmware STRING, reading_time TIMESTAMP, revision INT, "
    "temperature DOUBLE, humidity DOUBLE, battery DOUBLE"
)
GOOD = (
    "sensor_id IS NOT NULL AND reading_time >= '2000-01-01' AND revision >= 0 AND temperature BETWEEN -60 AND 120 "
    "AND humidity BETWEEN 0 AND 100 AND battery BETWEEN 0 AND 100"
)


def plain_session(confs: dict[str, str]) -> SparkSession:
    from surestart.spark.jars import resolve_jars
    from surestart.spark.java import find_java, launcher_home

    # The same Java as ours, where it comes from a wheel too.
    os.environ["JAVA_HOME"] = str(launcher_home(find_java()))
    builder = (
        SparkSession.builder.appName("naive")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.jars", ",".join(str(jar) for jar in resolve_jars()))
    )
    for key, value in confs.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def upsert(gold: str) -> Any:
    def merge(batch_df: Any, batch_id: int) -> None:
        latest = Window.partitionBy("sensor_id", "reading_time").orderBy(F.col("revision").desc())
        updates = batch_df.withColumn("n", F.row_number().over(latest)).where("n = 1").drop("n")
        (
            DeltaTable.forPath(batch_df.sparkSession, gold)
            .alias("t")
            .merge(updates.alias("s"), "t.sensor_id = s.sensor_id AND t.reading_time = s.reading_time")
            .whenMatchedUpdateAll("s.revision > t.revision")
            .whenNotMatchedInsertAll()
            .execute()
        )

    return merge


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("landing")
    parser.add_argument("--one-file", action="store_true")
    parser.add_argument("--files", help="the file source's maxFilesPerTrigger (default: Spark's, no limit)")
    parser.add_argument("--event-log", type=Path)
    parser.add_argument("--stages", default="raw,silver,gold", help="with --one-file: the first of these hops")
    args = parser.parse_args()
    root, one_file = args.root, args.one_file
    spark = plain_session(event_log_confs(args.event_log) if args.event_log else {})
    for table, columns in (("raw", "value STRING, ingested_at TIMESTAMP"), ("silver", SCHEMA), ("gold", SCHEMA)):
        DeltaTable.createIfNotExists(spark).location(f"{root}/{table}").addColumns(
            spark.createDataFrame([], columns).schema
        ).execute()
    limit = {"maxFilesPerTrigger": "1"} if one_file else {}

    files = {"maxFilesPerTrigger": args.files} if args.files else limit
    lines = spark.readStream.format("text").options(**files).load(args.landing)
    to_raw = (
        lines.withColumn("ingested_at", F.current_timestamp())
        .writeStream.format("delta")
        .option("checkpointLocation", f"{root}/checkpoints/raw")
    )
    raw = spark.readStream.format("delta").options(**limit).load(f"{root}/raw")
    to_silver = (
        raw.select(F.from_json("value", SCHEMA).alias("r"))
        .select("r.*")
        .where(GOOD)
        .writeStream.format("delta")
        .option("checkpointLocation", f"{root}/checkpoints/silver")
    )
    silver = spark.readStream.format("delta").options(**limit).load(f"{root}/silver")
    to_gold = silver.writeStream.foreachBatch(upsert(f"{root}/gold")).option(
        "checkpointLocation", f"{root}/checkpoints/gold"
    )
    if one_file:
        for name, writer, path in (
            ("raw", to_raw, f"{root}/raw"),
            ("silver", to_silver, f"{root}/silver"),
            ("gold", to_gold, None),
        ):
            if name not in args.stages.split(","):
                continue
            query = writer.trigger(availableNow=True).start(path) if path else writer.trigger(availableNow=True).start()
            seen: set[int] = set()
            # recentProgress forgets all but the last hundred batches.
            while not query.awaitTermination(1):
                _print_new(name, query, seen)
            _print_new(name, query, seen)
        return
    queries = [to_raw.start(f"{root}/raw"), to_silver.start(f"{root}/silver"), to_gold.start()]
    for query in queries:
        # Everything above it is finished, so this one sees all of its input.
        query.processAllAvailable()
    for query in queries:
        query.stop()


def _print_new(name: str, query: Any, seen: set[int]) -> None:
    for progress in query.recentProgress:
        report = json.loads(progress.json)
        if report["batchId"] in seen or "addBatch" not in report["durationMs"]:
            continue
        seen.add(report["batchId"])
        seconds = report["durationMs"]["triggerExecution"] / 1000
        line = {"stage": name, "batch": report["batchId"], "rows": report["numInputRows"], "seconds": seconds}
        sys.stdout.write(json.dumps({**line, "query_id": report["id"]}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
