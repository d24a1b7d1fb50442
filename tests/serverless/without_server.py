"""A client of the twin that no server answers: what serverless refuses is refused in the client already.

`python -m tests.serverless.without_server` prints what was refused, and what surestart made of it."""

from __future__ import annotations

import json
import os
import traceback
from typing import Any

from surestart.sinks.delta.transaction import takes_pairs
from surestart.spark.session import applied, keeps_batch_rows, read_setting
from tests.serverless.test_refusals import KEY, told


def refusals(spark: Any) -> dict[str, str]:
    rows, rate = spark.range(1), spark.readStream.format("rate").load().writeStream.format("noop")
    return {
        "get": told(lambda: spark.conf.get(KEY)),
        "get with a default": told(lambda: spark.conf.get(KEY, "1")),
        "set": told(lambda: spark.conf.set(KEY, "1")),
        "SQL": told(lambda: spark.sql(f"SET {KEY}=1")),
        "persist": told(rows.persist),
        "cache": told(rows.cache),
        "checkpoint": told(rows.checkpoint),
        "trigger": told(lambda: rate.trigger(processingTime="1 second")),
        "start": told(rate.start),
        "rdd": told(lambda: rows.rdd),
    }


def made_of_it(spark: Any) -> dict[str, Any]:
    with applied(spark, {KEY: "1"}) as refused:
        left = sorted(refused)
    return {
        "left as they are": left,
        "read": read_setting(spark, KEY),
        "rows are kept": keeps_batch_rows(spark),
        "a MERGE carries its pair": takes_pairs(spark),
    }


def main() -> None:
    from pyspark.sql.connect.session import SparkSession

    # The discard port: a session is made without a word to its server.
    spark = SparkSession.builder.remote("sc://127.0.0.1:9").create()
    try:
        print(json.dumps({"refused": refusals(spark), "made of it": made_of_it(spark)}), flush=True)
        code = 0
    except Exception:  # noqa: BLE001  Whatever it is, the interpreter's own end would hide it for minutes.
        traceback.print_exc()
        code = 1
    # That end is told to the server, again and again.
    os._exit(code)


if __name__ == "__main__":
    main()
