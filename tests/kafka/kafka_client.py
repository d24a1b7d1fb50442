"""What the Kafka tests do to a cluster: make topics, produce, delete, and read a raw table back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from sensor_pipeline.raw_ingest import to_raw
from sensor_pipeline.records import RAW_COLUMNS
from surestart.environment import Environment
from surestart.sinks.delta.append import DeltaAppend
from surestart.sources.kafka import KafkaSource
from surestart.stage import Stage
from tests.servers.kafka_broker import KafkaBroker

# The password that must be found nowhere.
CANARY = "canary-pa55;w0rd-5up3r"

Rows = Counter  # of Record


class Record(NamedTuple):
    """A record with all that the broker keeps of it; timestamp in ms."""

    partition: int
    offset: int
    payload: bytes | None
    key: bytes | None
    topic: str
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


# The class behind kafka-consumer-groups.sh.
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class KafkaClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int = 2, **config: str) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(60)
        self._until_led(topic, partitions)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(60)
        deadline = time.monotonic() + 30
        while topic in self.topics() and time.monotonic() < deadline:
            pass

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=30).topics)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(60)
        self._until_led(topic, total)

    def _until_led(self, topic: str, partitions: int) -> None:
        """The broker makes a partition at once and tells of it, and of its leader, a moment later."""
        deadline = time.monotonic() + 30
        while self._led(topic) != partitions:
            assert time.monotonic() < deadline, f"{topic}: {self._led(topic)} of {partitions} partitions are led"

    def _led(self, topic: str) -> int:
        told = self.admin.list_topics(timeout=30).topics.get(topic)
        return sum(partition.leader >= 0 for partition in told.partitions.values()) if told else 0

    def delete_records(self, topic: str, before: dict[int, int]) -> None:
        places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for future in self.admin.delete_records(places).values():
            future.result(60)

    def allow_scram(self, user: str, password: str) -> None:
        """The user may log in by SCRAM-SHA-512. The broker keeps a salted hash, so it cannot be told at its start."""
        told = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, told, password.encode())
        self.admin.alter_user_scram_credentials([change])[user].result(60)

    def produce(self, topic: str, payloads: Iterable[bytes | None], partitions: int = 2, **config: Any) -> Rows:
        """Round robin over the partitions; returns what the broker says it stored, by the delivery reports."""
        stored: Rows = Counter()
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **config})
        self.produce_with(producer, topic, payloads, partitions, stored)
        assert producer.flush(60) == 0
        return stored

    def produce_with(self, producer: Any, topic: str, payloads: Any, partitions: int, stored: Rows) -> None:
        def delivered(headers: Any, error: Any, message: Any) -> None:
            assert error is None, error
            place = (message.partition(), message.offset(), message.value(), message.key(), message.topic())
            stored[Record(*place, message.timestamp()[1], headers)] += 1

        for number, payload in enumerate(payloads):
            # Of two kinds, so that a row that got another record's is seen.
            key, headers = f"k{number % 7}".encode(), (("number", str(number).encode()), ("empty", None))
            where = {"key": key, "headers": list(headers), "partition": number % partitions}
            producer.produce(topic, payload, **where, on_delivery=partial(delivered, headers))
            producer.poll(0)


def described(broker: KafkaBroker, group: str, topic: str) -> dict[int, tuple[int, int, int]]:
    """Partition -> (current offset, log end offset, lag), as kafka-consumer-groups --describe prints it. Other tests'
    topics are in the same group."""
    shown = broker.run_tool(GROUPS_TOOL, "--bootstrap-server", broker.bootstrap, "--describe", "--group", group)
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith(group)]
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows if row[1] == topic}


def payloads(count: int, prefix: str = "v") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


def raw_stage(source: KafkaSource) -> Stage:
    return Stage("raw-ingest", source, to_raw, DeltaAppend("sensor_raw", RAW_COLUMNS))


def raw_rows(spark: SparkSession, environment: Environment) -> Rows:
    table = spark.read.format("delta").load(environment.table("sensor_raw").path)
    return Counter(
        Record(
            row.partition,
            row.offset,
            _bytes(row.payload),
            _bytes(row.key),
            row.source,
            row.ms,
            tuple((header.key, _bytes(header.value)) for header in row.headers or ()),
        )
        for row in table.selectExpr("*", "unix_millis(source_time) AS ms").collect()
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
