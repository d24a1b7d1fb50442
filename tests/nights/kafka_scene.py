"""The same pipeline reading from a broker of its own folder, as `make kafka` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sensor_pipeline.count import Account, count_rows
from sensor_pipeline.kafka_simulate import read_begins, read_sent, write_topic
from surestart.facts.kafka.admin import KafkaAdmin
from surestart.facts.kafka.security import SecretPlace
from surestart.local.kafka_detached import start_detached, stop_detached
from tests.foundation.rows import run_all
from tests.nights.scene import Scene

TOPIC = "sensor"
FIRST = "surestart run all --root .surestart/kafka-tables --set source=kafka"


@dataclass(frozen=True)
class KafkaScene(Scene):
    bootstrap: str = ""

    @property
    def root(self) -> Path:
        return self.place / ".surestart" / "kafka-tables"

    def admin(self) -> AdminClient:
        """To be kept until its answer is there."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def land(self, readings: int = 100) -> None:
        write_topic(self.bootstrap, TOPIC, self.root / f"truth-{TOPIC}.json", readings)

    def run_all(self) -> None:
        run_all(self.spark, self.environment, source="kafka")

    def assert_exact(self) -> None:
        """Over the topic that there is: what retention has taken cannot come again."""
        found = self._count()
        assert found.is_exact, found

    def assert_all_read(self) -> None:
        found = self._count()
        assert found.is_exact, found
        assert not found.pending, found

    def _count(self) -> Account:
        records = read_sent(self.bootstrap, TOPIC)
        return count_rows(self.environment, records, begins=lambda: read_begins(self.bootstrap, TOPIC))

    def make_anew(self) -> None:
        """Another topic has the name of the former one."""
        admin = self.admin()
        admin.delete_topics([TOPIC])[TOPIC].result(60)
        while KafkaAdmin(self.bootstrap, SecretPlace(), 5).describe_topic(TOPIC) is not None:
            pass
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(60)

    def forget_before(self, offsets: dict[int, int]) -> None:
        """Retention has taken what lies before these offsets."""
        places = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
        admin = self.admin()
        for done in admin.delete_records(places).values():
            done.result(60)

    def ends(self) -> dict[int, int]:
        from surestart.facts.kafka.evidence import read_kafka_evidence

        found = read_kafka_evidence(self.bootstrap, TOPIC, SecretPlace())
        return {one.partition: one.end for one in found.partitions}


@contextmanager
def kafka_scene(scene: Scene) -> Iterator[KafkaScene]:
    """Three runs from a broker at the same place; both are gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(scene.place)
        folder = scene.place / ".surestart" / "kafka"
        broker = start_detached(folder)
        try:
            own = KafkaScene(scene.spark, scene.place, broker.bootstrap)
            for _ in range(3):
                own.land(200)
                own.run_all()
            yield own
        finally:
            stop_detached(folder)
