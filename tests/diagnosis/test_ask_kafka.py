"""A Kafka cluster that does not answer is never taken for one without findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, environment_from_settings
from surestart.errors import CannotTell
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.kafka import evidence as kafka_evidence
from surestart.sources.kafka import KafkaSource
from surestart.verdict.ask_kafka import ask_kafka, read_offsets
from surestart.verdict.ask_stages import ask_stage
from surestart.words.finding import Severity
from surestart.words.next_commands import Commands
from tests.diagnosis.environment_by_hand import lay_out
from tests.diagnosis.stage_values import NOW, write_checkpoint


def test_an_unreachable_cluster_is_cannot_tell(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "ck", planned=1, committed=1, offset='{"orders":{"0":5,"1":7}}')
    checkpoint = read_checkpoint(str(folder))

    found = ask_kafka(
        KafkaSource("127.0.0.1:1", "orders"),
        SourceDeclaration("kafka", "orders"),
        checkpoint,
        Commands("ingest"),
        now=NOW,
        timeout_seconds=1,
    )

    assert [finding.severity for finding in found] == [Severity.CANNOT_TELL]
    assert read_offsets(checkpoint, "orders") == {0: 5, 1: 7}
    assert read_offsets(checkpoint, "another") == {}


@dataclass(frozen=True)
class OwnKafka:
    """A Kafka source of the user's own: of the same kind, and of a class that nobody here knows how to ask."""

    def declare(self, environment: Environment) -> SourceDeclaration:
        return SourceDeclaration("kafka", "orders")

    def read_stream(self, spark: Any, environment: Environment) -> Any:
        raise NotImplementedError

    def read_batch(self, spark: Any, environment: Environment) -> Any:
        raise NotImplementedError


def test_a_kafka_source_of_ones_own_class_is_not_fine_because_nobody_asked_it(tmp_path: Path) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(lay_out(tmp_path))}, environ={})
    (ingest, *_) = build_stages({})

    found = ask_stage(environment, replace(ingest, source=OwnKafka()), now=NOW)

    assert ("SOURCE_NOT_READ", Severity.CANNOT_TELL) in {(one.code, one.severity) for one in found.findings}


RETENTION = {"retention.ms": "604800000", "cleanup.policy": "delete"}
WHOLE = {0: 5, 1: 5}


@pytest.mark.parametrize(
    ("told", "partitions", "settings", "said"),
    [
        ({0: 5}, (0, 1), {}, "the offsets of partition 1, retention.ms, cleanup.policy"),
        ({}, (), RETENTION, "its partitions"),
        ({**WHOLE, 1: -1}, (0, 1), RETENTION, "the offsets of partition 1"),
        ({**WHOLE, 0: None}, (0, 1), RETENTION, "the offsets of partition 0"),
        (WHOLE, (0, 1), {**RETENTION, "retention.ms": ""}, "retention.ms"),
        (WHOLE, (0, 1), {**RETENTION, "retention.ms": "a week"}, "retention.ms"),
        (WHOLE, (0, 1), {**RETENTION, "retention.bytes": "1 GB"}, "retention.bytes"),
        (WHOLE, (0, 1), {"retention.ms": "-1"}, "cleanup.policy"),
    ],
)
def test_a_cluster_that_leaves_out_what_was_asked_has_not_answered(
    monkeypatch: pytest.MonkeyPatch, told: Any, partitions: Any, settings: dict[str, str], said: str
) -> None:
    class Cluster:
        def __init__(self, *place: object) -> None: ...

        def describe_topic(self, topic: str) -> Any:
            return SimpleNamespace(topic_id="id", partitions=[SimpleNamespace(id=one) for one in partitions])

        def list_offsets(self, topic: str, numbers: object, which: str, committed: bool = False) -> Any:
            return told

        def describe_configs(self, topic: str) -> dict[str, str]:
            return settings

    monkeypatch.setattr(kafka_evidence, "KafkaAdmin", Cluster)

    with pytest.raises(CannotTell, match=rf"without {said}\n"):
        kafka_evidence.read_kafka_evidence("broker:9092", "orders")


def test_a_topic_without_an_id_is_not_another_one() -> None:
    assert kafka_evidence.known_topic_id(None) == ""
