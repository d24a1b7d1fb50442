"""The same hops as one plain batch job: `python -m benchmarks.spark_batch ROOT LANDING`. The engine's ceiling.

It uses this pipeline's own transforms, so it makes the same four tables with the same columns, with default settings
and without checkpoints, transactions or a MERGE: it can run once, on everything, into empty tables.
"""

from __future__ import annotations

import argparse

from pyspark.sql import functions as F

from benchmarks.naive import plain_session
from sensor_pipeline.deserialize import to_readings
from sensor_pipeline.merge_gold import to_gold
from sensor_pipeline.raw_ingest import to_raw
from sensor_pipeline.records import KEYS, NEWEST
from surestart.sinks.delta.merge import newest_per_key
from surestart.sources.files import split_lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("landing")
    args = parser.parse_args()
    root = args.root
    spark = plain_session({"spark.sql.session.timeZone": "UTC"})
    files = spark.read.format("binaryFile").load(args.landing)
    to_raw(split_lines(files)).write.format("delta").save(f"{root}/raw")
    readings = to_readings(spark.read.format("delta").load(f"{root}/raw")).persist()
    readings.where(F.col("reason").isNotNull()).write.format("delta").save(f"{root}/quarantine")
    readings.where(F.col("reason").isNull()).drop("payload", "reason").write.format("delta").save(f"{root}/silver")
    readings.unpersist()
    good = spark.read.format("delta").load(f"{root}/silver")
    newest_per_key(to_gold(good), KEYS, NEWEST).write.format("delta").partitionBy("reading_date").save(f"{root}/gold")
    spark.stop()


if __name__ == "__main__":
    main()
