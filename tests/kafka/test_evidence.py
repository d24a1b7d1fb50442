"""Evidence about a topic: true numbers, nothing created, and "cannot tell" when the cluster is out of reach."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from surestart.errors import EXIT_CANNOT_TELL, CannotTell
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.kafka.evidence import KafkaEvidence, PartitionEvidence, measure_lag, read_kafka_evidence
from surestart.local.kafka_configuration import free_ports
from surestart.sources.kafka import KafkaSource
from surestart.verdict.kafka_findings import check_positions, check_topic_identity, look_at_kafka
from surestart.words.finding import Severity
from tests.kafka.kafka_client import payloads


def test_asking_about_a_missing_topic_does_not_create_it(broker, client, topic):
    evidence = read_kafka_evidence(broker.bootstrap, topic)
    assert (evidence.exists, evidence.topic_id, evidence.partitions) == (False, "", ())
    assert topic not in client.topics()
    # The broker makes it for a consumer that merely asks for it.
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    broker.run_tool(consumer, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--timeout-ms", "3000")
    assert topic in client.topics()


def test_offsets_retention_and_open_transactions_are_as_the_broker_has_them(broker, client, topic):
    client.create(topic, 2, **{"retention.ms": "3600000", "retention.bytes": "123456", "cleanup.policy": "delete"})
    client.produce(topic, payloads(20))
    client.delete_records(topic, {0: 3})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for payload in payloads(4, "open-"):
        producer.produce(topic, payload, partition=1)
    producer.flush(60)
    evidence = read_kafka_evidence(broker.bootstrap, topic)
    assert evidence.partitions == (
        PartitionEvidence(0, earliest=3, latest=10, end=10),
        PartitionEvidence(1, earliest=0, latest=10, end=14),
    )
    assert (evidence.retention_ms, evidence.retention_bytes, evidence.cleanup_policy) == (3600000, 123456, "delete")
    found = check_positions(evidence, {0: 10, 1: 10})
    assert [(finding.code, finding.severity) for finding in found] == [("KAFKA_TRANSACTION_OPEN", Severity.INFO)]
    assert found[0].evidence.startswith("4 offsets in 1 partition(s)")
    # The command that the finding names, run by the same class as kafka-transactions.sh.
    asked = broker.run_tool("org.apache.kafka.tools.TransactionsCommand", *str(found[0].next).split()[1:])
    assert (asked.returncode, asked.stdout.split()[:2]) == (0, ["Topic", "Partition"]), asked
    producer.commit_transaction(60)
    # The broker writes its marker a moment later; it takes an offset of its own.
    deadline = time.monotonic() + 30
    after = evidence
    while after.by_partition[1].latest < 15 and time.monotonic() < deadline:
        after = read_kafka_evidence(broker.bootstrap, topic)
    assert after.by_partition[1] == PartitionEvidence(1, earliest=0, latest=15, end=15)
    assert after.topic_id == evidence.topic_id


def _evidence(*partitions: PartitionEvidence) -> KafkaEvidence:
    from datetime import UTC, datetime

    return KafkaEvidence("c:9092", "t", "id", partitions, 3600000, None, "delete", datetime(2026, 1, 1, tzinfo=UTC))


def test_lag_counts_what_is_unread_lost_and_beyond_the_end():
    evidence = _evidence(PartitionEvidence(0, 5, 20, 20), PartitionEvidence(1, 0, 7, 9), PartitionEvidence(2, 0, 4, 4))
    lags = {lag.partition: (lag.lag, lag.lost, lag.beyond) for lag in measure_lag(evidence, {0: 2, 1: 12, 3: 6})}
    # 0: 2..4 lost, 5..19 unread. 1: three past the end. 2: new, all unread. 3: gone.
    assert lags == {0: (15, 3, 0), 1: (0, 0, 3), 2: (4, 0, 0), 3: (0, 0, 6)}
    codes = [finding.code for finding in check_positions(evidence, {0: 2, 1: 12, 3: 6})]
    assert codes == [
        "KAFKA_RECORDS_LOST",
        "KAFKA_OFFSETS_BEYOND_END",
        "KAFKA_PARTITIONS_GONE",
        "KAFKA_TRANSACTION_OPEN",
    ]


def test_a_partition_that_an_existing_checkpoint_does_not_know_is_read_from_zero():
    """Spark stops where it begins elsewhere: ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO."""
    evidence = _evidence(PartitionEvidence(0, 0, 20, 20), PartitionEvidence(1, 500, 520, 520))
    (found,) = check_positions(evidence, {0: 20})
    assert (found.code, found.severity) == ("KAFKA_RECORDS_LOST", Severity.UNSAFE)
    assert "500 offsets in 1 partition(s) were deleted before they were read: t-1: 500 from 0" in found.evidence
    # A new checkpoint begins where the topic does.
    assert check_positions(evidence, {}) == ()


def test_a_batch_in_flight_is_lost_by_its_start_and_beyond_by_its_end():
    evidence = _evidence(PartitionEvidence(0, 28, 40, 40), PartitionEvidence(1, 0, 25, 25))
    found = check_positions(evidence, {0: 20, 1: 20}, ends={0: 30, 1: 30})
    assert [finding.code for finding in found] == ["KAFKA_RECORDS_LOST", "KAFKA_OFFSETS_BEYOND_END"]
    assert "8 offsets in 1 partition(s) were deleted before they were read: t-0: 8 from 20" in found[0].evidence
    assert "t-1: 5 past its end" in found[1].evidence
    # A partition that was new in that batch, and is gone.
    (gone,) = check_positions(evidence, {0: 28, 1: 0}, ends={0: 30, 1: 10, 2: 3})
    assert (gone.code, gone.evidence[-1]) == ("KAFKA_PARTITIONS_GONE", "2")


def test_a_cluster_that_tells_no_topic_ids_is_cannot_tell_at_every_start():
    nameless = replace(_evidence(PartitionEvidence(0, 0, 5, 5)), topic_id="")
    assert nameless.exists
    for recorded in ("", "id"):
        (found,) = check_topic_identity(recorded, nameless)
        assert (found.code, found.severity) == ("KAFKA_TOPIC_ID_UNKNOWN", Severity.CANNOT_TELL)


def test_without_the_client_nothing_can_be_told_and_the_finding_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    (found,) = look_at_kafka(KafkaSource("127.0.0.1:1", "sensor"), read_checkpoint(str(tmp_path))).findings
    assert (found.code, found.severity) == ("KAFKA_OUT_OF_REACH", Severity.CANNOT_TELL)
    assert "pip install 'confluent-kafka" in str(found.next)
    assert "start gate" in found.meaning


def test_a_cluster_out_of_reach_is_cannot_tell_within_the_time_limit_and_never_silence(tmp_path):
    nowhere = f"127.0.0.1:{free_ports().plain}"
    began = time.monotonic()
    with pytest.raises(CannotTell) as error:
        read_kafka_evidence(nowhere, "sensor", timeout_seconds=1)
    assert time.monotonic() - began < 10
    assert error.value.exit_code == EXIT_CANNOT_TELL
    assert nowhere in error.value.what
    assert "within 1 s" in error.value.what
    found = look_at_kafka(KafkaSource(nowhere, "sensor"), read_checkpoint(str(tmp_path)), timeout_seconds=1).findings
    assert [(finding.code, finding.severity) for finding in found] == [("KAFKA_OUT_OF_REACH", Severity.CANNOT_TELL)]
