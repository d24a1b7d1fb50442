"""A topic as a sink, asked of a real broker: what came to it, when, and where. Streams that write there restart in
`make matrix`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Acceptance, Verdict
from tests.checkpoint.checkpoint_maker import make_checkpoint, offsets_text
from tests.kafka.kafka_client import payloads
from tests.servers.kafka_broker import KafkaBroker


def send(broker: KafkaBroker, topic: str, count: int, at: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for payload in payloads(count):
        producer.produce(topic, payload, partition=0, timestamp=at)
    producer.flush(60)


@pytest.mark.parametrize(
    ("committed", "sent_after", "said", "expected"),
    [
        (5, False, "+alone", (Acceptance.ACCEPTS, Verdict.SAFE)),
        (4, False, "+alone", (Acceptance.ACCEPTS, Verdict.SAFE)),
        (4, True, "+alone", (Acceptance.DUPLICATES, Verdict.UNSAFE)),
        (5, True, "+alone", (Acceptance.DUPLICATES, Verdict.UNSAFE)),
        (5, True, "", (Acceptance.CANNOT_TELL, Verdict.CANNOT_TELL)),
    ],
)
def test_what_came_since_decides(broker, client, topic, tmp_path: Path, committed, sent_after, said, expected) -> None:
    client.create(topic, 2)
    make_checkpoint(tmp_path, committed=range(committed))
    planned = int(time.time() * 1000) - 500
    (tmp_path / "offsets/4").write_text(offsets_text('{"orders":{"0":140,"1":60}}', timestamp_ms=planned))
    send(broker, topic, 3, planned - 2_000)
    if sent_after:
        send(broker, topic, 7, int(time.time() * 1000) + 2_000)

    found = inspect_checkpoint(str(tmp_path), sinks=(f"kafka{said}://{broker.bootstrap}/{topic}",))

    assert (found.acceptance, found.verdict) == expected, [one.code for one in found.findings]
    if sent_after:
        evidence = next(one.evidence for one in found.findings if one.code == "TOPIC_HOLDS_LATER_RECORDS")
        assert "up to 7 records" in evidence
        assert "partition 0 offsets 3 to 9" in evidence


def test_a_topic_that_is_not_there_is_not_made_by_asking(broker, client, topic, tmp_path: Path) -> None:
    make_checkpoint(tmp_path, planned=(), committed=())
    found = inspect_checkpoint(str(tmp_path), sinks=(f"kafka://{broker.bootstrap}/{topic}",))
    assert found.acceptance is Acceptance.ACCEPTS
    assert topic not in client.topics()


def test_a_topic_that_is_gone_leaves_it_open(broker, topic, tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    found = inspect_checkpoint(str(tmp_path), sinks=(f"kafka+alone://{broker.bootstrap}/{topic}",))
    assert found.acceptance is Acceptance.CANNOT_TELL
    assert found.verdict is not Verdict.SAFE
