"""From a topic to gold: records in Confluent's format, a registry with a password, broken records among them."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.runs.runner import run_stage
from tests.avro.avro_bytes import confluent, encode, record
from tests.avro.conftest import Registry

CANARY = "canary-r3gistry"
READING = record(
    "Reading",
    {"name": "sensor_id", "type": "string"},
    {"name": "reading_time", "type": "string"},
    {"name": "revision", "type": "int"},
    {"name": "temperature", "type": "double"},
    {"name": "humidity", "type": "double"},
    {"name": "battery", "type": "double"},
)
# The same with a field more, in another order.
LATER = record("Reading", {"name": "altitude", "type": "int"}, *reversed(READING["fields"]))


@pytest.mark.chaos
def test_every_avro_record_of_a_topic_is_in_gold_by_its_newest_revision_or_in_quarantine(
    spark, environment, broker, client, topic, monkeypatch
):
    registry = Registry()
    try:
        registry.protect("sensor", CANARY)
        registry.register(7, READING, f"{topic}-value")
        registry.register(8, LATER)
        monkeypatch.setenv("SURESTART_REGISTRY_USERNAME", "sensor")
        monkeypatch.setenv("SURESTART_REGISTRY_PASSWORD", CANARY)
        settings = {"source": "kafka", "bootstrap": broker.bootstrap, "topic": topic, "max_offsets_per_trigger": "16"}
        settings |= {"format": "confluent", "registry": registry.url, "subject": f"{topic}-value"}
        client.create(topic, partitions=2)
        sent = Counter()
        for wave in range(2):
            sent += client.produce(topic, payloads(wave))
            for stage in build_stages(settings):
                run_stage(spark, environment, stage)

            assert gold(spark, environment) == newest(wave)
            assert quarantined(spark, environment) == broken(sent)
    finally:
        registry.stop()


def values(sensor: int, revision: int) -> dict:
    time = "2026-01-01T00:00:00Z"
    name, temperature = f"sensor-{sensor}", sensor + revision / 8
    return {"sensor_id": name, "reading_time": time, "revision": revision, "temperature": temperature,
            "humidity": 40.0, "battery": 90.0, "altitude": 3}  # fmt: skip


def readings(wave: int) -> list[tuple[int, int]]:
    """(sensor, revision): thirty sensors, corrected ones among them, later waves with what came before too."""
    return [(sensor, revision) for sensor in range(30 * (wave + 1)) for revision in range(1 + sensor % 3)][::-1]


def payloads(wave: int) -> list[bytes | None]:
    good = [(7, READING) if number % 2 else (8, LATER) for number, _ in enumerate(readings(wave))]
    made = [
        confluent(schema_id, encode(schema, values(*reading)))
        for (schema_id, schema), reading in zip(good, readings(wave), strict=True)
    ]
    unknown = confluent(99, encode(READING, values(1, 9)))
    return [*made[:10], unknown, None, b"{}", made[0][:-3], *made[10:]]


def newest(wave: int) -> Counter:
    last = {}
    for sensor, revision in readings(wave):
        last[sensor] = max(revision, last.get(sensor, 0))
    return Counter((f"sensor-{sensor}", revision, sensor + revision / 8) for sensor, revision in last.items())


def broken(sent: Counter) -> Counter:
    found: Counter = Counter()
    for stored, count in sent.items():
        payload = stored.payload
        if payload is None or payload[:5] not in (b"\0\0\0\0\7", b"\0\0\0\0\x08") or payload in cut():
            found[(stored.partition, stored.offset)] += count
    return found


def cut() -> set[bytes]:
    return {payloads(wave)[13] for wave in range(2)}


def gold(spark: SparkSession, environment: Environment) -> Counter:
    rows = spark.read.format("delta").load(environment.table("sensor_gold").path)
    return Counter(tuple(row) for row in rows.select("sensor_id", "revision", "temperature").collect())


def quarantined(spark: SparkSession, environment: Environment) -> Counter:
    rows = spark.read.format("delta").load(environment.table("sensor_quarantine").path)
    return Counter(tuple(row) for row in rows.select("partition", "offset").collect())
