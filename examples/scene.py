"""What an example stands on, and your streams have already: a session, and somebody else who makes the input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import surestart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(os.environ.get("SURESTART_EXAMPLES", "/tmp/surestart-examples"))
BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
ORDER = "id BIGINT, customer BIGINT, amount BIGINT, at TIMESTAMP"
EACH_TIME = 100


def session() -> SparkSession:
    """Spark with Delta and Kafka on this machine; on a cluster `spark` is there already."""
    return surestart.local_session("surestart examples")


def new_orders(folder: Path) -> list[dict[str, Any]]:
    """The next hundred orders, a second apart. A note in the folder says how many there were before."""
    folder.mkdir(parents=True, exist_ok=True)
    count = folder / "_count"
    first = int(count.read_text()) if count.exists() else 0
    count.write_text(str(first + EACH_TIME))
    return [order(number) for number in range(first, first + EACH_TIME)]


def order(number: int) -> dict[str, Any]:
    minutes, seconds = divmod(number, 60)
    at = f"2026-01-01 {minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
    return {"id": number, "customer": number % 10, "amount": number % 7, "at": at}


def orders_as_files(folder: Path) -> None:
    """One more file of orders has landed."""
    orders = new_orders(folder)
    text = "".join(f"{json.dumps(one)}\n" for one in orders)
    (folder / f"{orders[0]['id']:09d}.json").write_text(text, encoding="utf-8")


def orders_as_table(spark: SparkSession, folder: Path) -> None:
    """The Delta table of orders has one more commit."""
    orders = new_orders(folder.with_name(f"{folder.name}_made"))
    rows = spark.createDataFrame(orders, "id BIGINT, customer BIGINT, amount BIGINT, at STRING")
    rows.selectExpr("id", "customer", "amount", "CAST(at AS TIMESTAMP) AS at").coalesce(1).write.format("delta").mode(
        "append"
    ).save(str(folder))


def orders_as_records(spark: SparkSession, folder: Path, topic: str) -> None:
    """The topic has a hundred orders more."""
    values = [(json.dumps(one),) for one in new_orders(folder)]
    rows = spark.createDataFrame(values, "value STRING")
    rows.write.format("kafka").option("kafka.bootstrap.servers", BOOTSTRAP).option("topic", topic).save()
