"""The mirror group: Kafka's own tool shows the stage's lag, and nothing that befalls the mirror reaches the query."""

from __future__ import annotations

import time

import pytest

from surestart.local.kafka_configuration import free_ports
from surestart.runs.runner import run_stage
from surestart.sources.kafka import KafkaSource
from surestart.sources.kafka_mirror import KafkaMirror, mirror_group, read_end_offsets
from tests.kafka.kafka_client import described, payloads, raw_rows, raw_stage


@pytest.mark.long(instead="test_a_query_neither_waits_for_an_unreachable_mirror_nor_fails_with_it")
def test_kafkas_own_tool_shows_the_stages_lag(spark, environment, broker, client, topic, caplog):
    client.create(topic, partitions=2)
    stored = client.produce(topic, payloads(60))
    group = mirror_group(environment, "raw-ingest")
    assert group == "local.sensor-raw-ingest.mirror"
    mirror = KafkaMirror(broker.bootstrap, group)
    source = KafkaSource(broker.bootstrap, topic, max_offsets_per_trigger=20)
    run = run_stage(spark, environment, raw_stage(source), on_progress=mirror)
    mirror.close()
    assert (mirror.failures, run.batches) == (0, 3), caplog.text
    assert 1 <= mirror.told <= 3
    client.produce(topic, payloads(10))
    assert described(broker, group, topic) == {0: (30, 35, 5), 1: (30, 35, 5)}
    assert raw_rows(spark, environment) == stored


@pytest.mark.long(instead="test_end_offsets_are_read_from_dictionaries_and_text_and_only_from_kafka")
def test_a_group_moved_by_anyone_does_not_move_the_stage(spark, environment, broker, client, topic):
    """Never read back: the checkpoint decides, whatever the group says."""
    client.create(topic, partitions=1)
    stored = client.produce(topic, payloads(10), partitions=1)
    group = mirror_group(environment, "raw-ingest")
    mirror = KafkaMirror(broker.bootstrap, group)
    mirror(_report(topic, {"0": 7}))
    mirror.close(30)
    assert described(broker, group, topic) == {0: (7, 10, 3)}
    stage = raw_stage(KafkaSource(broker.bootstrap, topic))
    run_stage(spark, environment, stage)
    assert raw_rows(spark, environment) == stored


def test_a_query_neither_waits_for_an_unreachable_mirror_nor_fails_with_it(caplog):
    mirror = KafkaMirror(f"127.0.0.1:{free_ports().plain}", "g", timeout_seconds=1)
    began = time.monotonic()
    for offset in range(200):
        mirror(_report("t", {"0": offset}))
    assert time.monotonic() - began < 0.5
    mirror.close(30)
    assert mirror.told == 0
    assert mirror.failures >= 1
    assert "g was not moved" in caplog.text


def test_a_report_that_is_no_report_is_logged_and_the_mirror_goes_on(broker, client, topic, caplog):
    client.create(topic, partitions=1)
    mirror = KafkaMirror(broker.bootstrap, topic)
    mirror({"sources": [{"description": "KafkaV2[Subscribe[x]]", "endOffset": {"x": 3}}]})
    deadline = time.monotonic() + 10
    while not mirror.failures and time.monotonic() < deadline:
        pass
    mirror(_report(topic, {"0": 0}))
    mirror.close(30)
    assert (mirror.failures, mirror.told) == (1, 1)
    assert f"{topic} was not moved" in caplog.text


def test_end_offsets_are_read_from_dictionaries_and_text_and_only_from_kafka():
    assert read_end_offsets(_report("t", {"0": 5})) == {"t": {0: 5}}
    text = {"sources": [{"description": "KafkaV2[Subscribe[t]]", "endOffset": '{"t":{"1":6}}'}]}
    assert read_end_offsets(text) == {"t": {1: 6}}
    printed = {"sources": [{"description": "KafkaV2[Subscribe[t]]", "endOffset": "{'t': {'1': 6}}"}]}
    assert read_end_offsets(printed) == {"t": {1: 6}}
    other = {"sources": [{"description": "FileStreamSource[/x]", "endOffset": {"logOffset": 5}}]}
    assert read_end_offsets(other) == read_end_offsets({}) == {}


def _report(topic: str, offsets: dict[str, int]) -> dict:
    return {"sources": [{"description": f"KafkaV2[Subscribe[{topic}]]", "endOffset": {topic: offsets}}]}
