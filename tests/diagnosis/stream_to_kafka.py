"""A stream into Kafka, which keeps no record of the batches that it was sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from stream_kinds import now, read
from stream_lab import Folder, Kind, Rows, numbers


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
        for (value,), count in rows(base).items():
            for _ in range(count):
                producer.produce(topic_of(folder), str(value))
        producer.flush()

    def named(folder: Folder) -> tuple[str, ...]:
        return (f"kafka:{topic_of(folder)}",)

    return Kind("kafka", start, named, named, rows, numbers, copy=copy)


def _read_all(consumer: Consumer, topic: str) -> Rows:
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    ends = {one: consumer.get_watermark_offsets(TopicPartition(topic, one), 30)[1] for one in partitions}
    consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])
    found: Rows = Counter()
    wanted = sum(ends.values())
    while sum(found.values()) < wanted:
        message = consumer.poll(30)
        assert message is not None, f"{topic} gave {sum(found.values())} of {wanted} records"
        assert message.error() is None, message.error()
        found[(int(message.value()),)] += 1
    return found
