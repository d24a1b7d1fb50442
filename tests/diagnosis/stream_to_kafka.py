"""A stream into Kafka, which keeps no record of the batches that it was sent, only when each record came."""

from __future__ import annotations

from collections import Counter
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.diagnosis.stream_kinds import now, read
from tests.diagnosis.stream_lab import ROWS, Folder, Kind, Rows, numbers


def topic_of(folder: Folder) -> str:
    return f"lab-{folder.root.name}"


def to_kafka(bootstrap: str) -> Kind:
    def start(spark: Any, folder: Folder, files: int) -> Any:
        frame = read(spark, folder, files).selectExpr("cast(id AS STRING) AS value")
        writer = now(frame.writeStream.format("kafka"), folder).option("kafka.bootstrap.servers", bootstrap)
        return writer.option("topic", topic_of(folder)).start()

    def rows(folder: Folder) -> Rows:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic_of(folder), "enable.auto.commit": False})
        try:
            return _read_all(consumer, topic_of(folder))
        finally:
            consumer.close()

    def copy(base: Folder, folder: Folder) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        # The last ten are batch 4: a name says whether that one was sent.
        sent = records(base)[: -ROWS if "before-the-sink" in folder.root.name else None]
        for value, time in sent:
            producer.produce(topic_of(folder), str(value), timestamp=time)
        producer.flush()

    def records(folder: Folder) -> list[tuple[int, int]]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic_of(folder), "enable.auto.commit": False})
        try:
            return sorted(read_records(consumer, topic_of(folder)), key=lambda one: one[1])
        finally:
            consumer.close()

    def undeclared(folder: Folder) -> tuple[str, ...]:
        return (f"kafka:{topic_of(folder)}",)

    def declared(folder: Folder) -> tuple[str, ...]:
        return (f"kafka+alone://{bootstrap}/{topic_of(folder)}",)

    return Kind("kafka", start, undeclared, declared, rows, numbers, copy=copy)


def _read_all(consumer: Consumer, topic: str) -> Rows:
    return Counter((value,) for value, _ in read_records(consumer, topic))


def read_records(consumer: Consumer, topic: str) -> list[tuple[int, int]]:
    """(value, time)"""
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    ends = {one: consumer.get_watermark_offsets(TopicPartition(topic, one), 30)[1] for one in partitions}
    consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])
    found: list[tuple[int, int]] = []
    wanted = sum(ends.values())
    while len(found) < wanted:
        message = consumer.poll(30)
        assert message is not None, f"{topic} gave {len(found)} of {wanted} records"
        assert message.error() is None, message.error()
        found.append((int(message.value()), message.timestamp()[1]))
    return found
