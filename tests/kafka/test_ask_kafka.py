"""What the doctor asks a real broker before a start: lost, expiring, another topic, or nothing to say."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from surestart.declaration import SourceDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.kafka.evidence import read_kafka_evidence
from surestart.runs.runner import StageFailed
from surestart.sources.kafka import KafkaSource
from surestart.verdict.ask_kafka import ask_kafka
from surestart.verdict.kafka_findings import with_lost_positions
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands
from tests.diagnosis.stage_values import DAY, NOW, write_checkpoint
from tests.kafka.kafka_client import KafkaClient, payloads
from tests.servers.kafka_broker import KafkaBroker

PLANNED_AT = NOW - DAY  # what write_checkpoint notes as the time of its batches

LONG = pytest.mark.long(instead="test_a_batch_in_flight_whose_first_records_were_deleted_refuses_the_start")


def ask(
    broker: KafkaBroker, topic: str, folder: Path, offsets: dict[str, int], recorded: str = "", now: int = PLANNED_AT
) -> tuple[Finding, ...]:
    """The doctor's answer for a checkpoint whose next offsets in `topic` are these."""
    place = write_checkpoint(folder / "ck", planned=3, committed=3, offset=json.dumps({topic: offsets}))
    return ask_of(broker, topic, place, recorded, now)


def ask_of(
    broker: KafkaBroker, topic: str, place: Path, recorded: str = "", now: int = PLANNED_AT
) -> tuple[Finding, ...]:
    source = KafkaSource(broker.bootstrap, topic)
    commands = Commands("ingest", "prod")
    declared = SourceDeclaration("kafka", topic)
    checkpoint = read_checkpoint(str(place))
    return ask_kafka(source, declared, checkpoint, commands, recorded_topic_id=recorded, now=now, timeout_seconds=15)


def topic_id(broker: KafkaBroker, topic: str) -> str:
    return read_kafka_evidence(broker.bootstrap, topic).topic_id


def test_the_same_topic_with_unread_records_has_nothing_to_say(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 2)
    client.produce(topic, payloads(20))
    assert ask(broker, topic, tmp_path, {"0": 10, "1": 4}, topic_id(broker, topic)) == ()


@pytest.mark.long(instead="test_a_batch_in_flight_whose_first_records_were_deleted_refuses_the_start")
def test_records_deleted_before_they_were_read_are_looked_at_three_times_and_refuse_the_start(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 2)
    client.produce(topic, payloads(20))
    client.delete_records(topic, {0: 7})
    (found,) = ask(broker, topic, tmp_path, {"0": 3, "1": 10}, topic_id(broker, topic))
    assert (found.code, found.severity) == ("KAFKA_RECORDS_LOST", Severity.UNSAFE)
    assert f"{topic}-0: 4 from 3" in found.evidence
    assert found.evidence.endswith("(the same in 3 samples)")
    assert str(found.next) == "surestart plan reset ingest -e prod -o plan.json"


@pytest.mark.parametrize("batch", [pytest.param(0, marks=LONG), 1])
def test_a_batch_in_flight_whose_first_records_were_deleted_refuses_the_start(
    broker, client: KafkaClient, topic: str, tmp_path: Path, batch: int
) -> None:
    """It reads 20 to 30 again. Batch 0 begins where the source's own note says."""
    client.create(topic, 2)
    client.produce(topic, payloads(80))
    client.delete_records(topic, {0: 28})
    folder = write_checkpoint(tmp_path / "ck", planned=batch, committed=batch - 1 if batch else None)
    starts, ends = json.dumps({topic: {"0": 20, "1": 20}}), json.dumps({topic: {"0": 30, "1": 30}})
    head = (folder / "offsets/0").read_text().splitlines()[:2]
    for number, offsets in enumerate((starts, ends) if batch else (ends,)):
        (folder / f"offsets/{number}").write_text("\n".join([*head, offsets]))
    (folder / "sources/0").mkdir(parents=True)
    (folder / "sources/0/0").write_text("\0v1\n" + (json.dumps({topic: {"0": 0, "1": 0}}) if batch else starts))
    (found,) = ask_of(broker, topic, folder, topic_id(broker, topic))
    assert (found.code, found.severity) == ("KAFKA_RECORDS_LOST", Severity.UNSAFE)
    assert f"8 offsets in 1 partition(s) were deleted before they were read: {topic}-0: 8 from 20" in found.evidence

    # Once it is committed they have been read.
    (folder / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert ask_of(broker, topic, folder, topic_id(broker, topic)) == ()


def test_a_reading_that_was_begun_without_a_batch_begins_at_its_own_note(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    """Killed between the source's note and the first plan: where reading begins is settled, and of which topic."""
    client.create(topic, 1)
    client.produce(topic, payloads(10), partitions=1)
    folder = write_checkpoint(tmp_path / "ck", planned=None, committed=None)
    (folder / "sources/0").mkdir(parents=True)
    (folder / "sources/0/0").write_text("\0v1\n" + json.dumps({topic: {"0": 4}}))
    assert ask_of(broker, topic, folder, topic_id(broker, topic)) == ()
    (replaced,) = ask_of(broker, topic, folder, "another-id")
    assert replaced.code == "KAFKA_TOPIC_REPLACED"
    client.delete_records(topic, {0: 6})
    (lost,) = ask_of(broker, topic, folder, topic_id(broker, topic))
    assert f"{topic}-0: 2 from 4" in lost.evidence


@pytest.mark.long(
    instead="kafka/test_faults.py::test_records_deleted_below_the_checkpoint_stop_the_run_and_are_counted"
)
def test_an_error_about_lost_records_says_which_partitions_lost_how_many(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 2)
    client.produce(topic, payloads(20))
    place = str(write_checkpoint(tmp_path / "ck", planned=1, committed=1, offset=json.dumps({topic: {"0": 2, "1": 2}})))
    source, commands = KafkaSource(broker.bootstrap, topic), Commands("ingest", "prod")
    error = StageFailed("stage 'ingest' stopped: x", meaning="Planned.", next="surestart explain X", code="X")
    told = "Some data may have been lost because they are not available in Kafka any more; either"

    assert with_lost_positions(error, "Connection refused", source, place, commands) is error
    # By now the cluster has them all, as after a change of leader.
    assert "has every record of the batch now" in with_lost_positions(error, told, source, place, commands).what
    client.delete_records(topic, {0: 7})
    counted = with_lost_positions(error, told, source, place, commands)
    assert f"{topic}-0: 5 from 2" in counted.what
    assert (type(counted), counted.code) == (StageFailed, "X")
    assert str(counted.next) == "surestart plan reset ingest -e prod -o plan.json"
    silent = with_lost_positions(error, told, replace(source, bootstrap="127.0.0.1:1"), place, commands)
    assert "how many records are concerned is not known: 127.0.0.1:1 was asked" in silent.what


@pytest.mark.long(instead="test_a_batch_in_flight_whose_first_records_were_deleted_refuses_the_start")
def test_a_new_partition_whose_first_records_were_deleted_refuses_the_start(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 1)
    client.add_partitions(topic, 2)
    client.produce(topic, payloads(20))
    client.delete_records(topic, {1: 5})
    (found,) = ask(broker, topic, tmp_path, {"0": 10}, topic_id(broker, topic))
    assert (found.code, found.severity) == ("KAFKA_RECORDS_LOST", Severity.UNSAFE)
    assert f"{topic}-1: 5 from 0" in found.evidence


@pytest.mark.long(instead="test_a_topic_that_is_gone_or_was_never_recorded")
def test_a_topic_made_again_with_fewer_partitions_is_told_by_its_id_and_by_them(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 2)
    recorded = topic_id(broker, topic)
    client.delete(topic)
    client.create(topic, 1)
    # The broker answers with what it knew before for a moment.
    deadline = time.monotonic() + 30
    while topic_id(broker, topic) == recorded and time.monotonic() < deadline:
        pass
    found = ask(broker, topic, tmp_path, {"0": 0, "1": 5}, recorded)
    assert {finding.code for finding in found} == {"KAFKA_TOPIC_REPLACED", "KAFKA_PARTITIONS_GONE"}
    assert {finding.severity for finding in found} == {Severity.UNSAFE}


def test_a_topic_that_is_gone_or_was_never_recorded(broker, client: KafkaClient, topic: str, tmp_path: Path) -> None:
    (missing,) = ask(broker, topic, tmp_path / "missing", {"0": 5}, "an-id")
    assert (missing.code, missing.severity) == ("KAFKA_TOPIC_MISSING", Severity.UNSAFE)
    client.create(topic, 1)
    (unknown,) = ask(broker, topic, tmp_path / "unknown", {"0": 0})
    assert (unknown.code, unknown.severity) == ("KAFKA_TOPIC_NOT_RECORDED", Severity.CANNOT_TELL)


def test_unread_records_have_a_time_at_which_they_expire(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    """Retention of a day, the last batch planned 23 hours ago: an hour is left. Nothing unread, no clock."""
    client.create(topic, 1, **{"retention.ms": str(DAY)})
    client.produce(topic, payloads(5), partitions=1)
    recorded = topic_id(broker, topic)
    late = PLANNED_AT + 23 * 3_600_000
    (found,) = ask(broker, topic, tmp_path / "behind", {"0": 2}, recorded, now=late)
    assert (found.code, found.severity) == ("SOURCE_RETENTION_CLOCK", Severity.ATTENTION)
    assert "3 unread offsets" in found.evidence
    assert "1 h 0 min from now" in found.meaning
    assert ask(broker, topic, tmp_path / "early", {"0": 2}, recorded, now=PLANNED_AT) == ()
    assert ask(broker, topic, tmp_path / "done", {"0": 5}, recorded, now=late) == ()


def test_records_behind_an_open_transaction_are_told_and_do_not_stop_a_start(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"waiting", partition=0)
    producer.flush(60)
    (found,) = ask(broker, topic, tmp_path, {"0": 0}, topic_id(broker, topic))
    producer.abort_transaction(60)
    assert (found.code, found.severity) == ("KAFKA_TRANSACTION_OPEN", Severity.INFO)
