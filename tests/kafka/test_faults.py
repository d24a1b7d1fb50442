"""What happens to topics and brokers in real life, and that no record is lost or doubled without a word."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from surestart import BatchProgress
from surestart.environment import Environment
from surestart.errors import Refused, SurestartError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.kafka.evidence import read_kafka_evidence
from surestart.runs.runner import processing_time, run_stage, run_ungated
from surestart.sources.kafka import KafkaSource
from surestart.verdict.kafka_findings import check_positions, check_topic_identity
from surestart.words.finding import Severity
from tests.kafka.kafka_client import payloads, raw_rows, raw_stage


class Enough(Exception):
    """Raised by a test out of on_progress: the runner stops the query and lets it through."""


def _run_until(
    spark: SparkSession, environment: Environment, source: Any, rows: int, after_first_batch: Any
) -> Counter:
    """Runs the raw stage without an end, calls after_first_batch once, and stops when `rows` have arrived."""
    arrived: Counter = Counter()

    def on_progress(progress: BatchProgress) -> None:
        if not arrived:
            after_first_batch()
        arrived[progress.batch] += progress.rows
        if arrived.total() >= rows:
            raise Enough

    with pytest.raises(Enough):
        run_stage(
            spark, environment, raw_stage(source), trigger=processing_time("100 milliseconds"), on_progress=on_progress
        )
    return arrived


def _next_offsets(environment: Environment, topic: str) -> dict[int, int]:
    """Where the checkpoint's last planned batch ends."""
    (source,) = read_checkpoint(environment.checkpoint("raw-ingest")).sources
    return dict(source.end.partitions[topic])


@pytest.mark.long(instead="kafka/test_source.py::test_every_record_arrives_untouched_with_its_position")
def test_a_broker_killed_and_restarted_in_mid_stream_costs_no_record(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    stored = client.produce(topic, payloads(400))

    def kill_and_restart() -> None:
        broker.kill()
        # The query is left alone with a dead broker for as long as a start takes.
        threading.Thread(target=broker.start).start()

    source = KafkaSource(broker.bootstrap, topic, max_offsets_per_trigger=100)
    batches = _run_until(spark, environment, source, 400, kill_and_restart)
    assert raw_rows(spark, environment) == stored
    assert len(batches) == 4


@pytest.mark.long(instead="kafka/test_source.py::test_every_record_arrives_untouched_with_its_position")
def test_partitions_added_while_running_are_read_from_their_first_record(spark, environment, broker, client, topic):
    client.create(topic, partitions=1)
    stored = client.produce(topic, payloads(10), partitions=1)

    def grow() -> None:
        client.add_partitions(topic, 4)
        stored.update(client.produce(topic, payloads(40, "new-"), partitions=4))

    _run_until(spark, environment, KafkaSource(broker.bootstrap, topic), 50, grow)
    assert raw_rows(spark, environment) == stored
    assert {row.partition for row in stored} == {0, 1, 2, 3}


def test_records_deleted_below_the_checkpoint_stop_the_run_and_are_counted(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    before = client.produce(topic, payloads(20))
    stage = raw_stage(KafkaSource(broker.bootstrap, topic))
    run_stage(spark, environment, stage)
    client.produce(topic, payloads(40, "unread-"))
    offsets = _next_offsets(environment, topic)
    assert offsets == {0: 10, 1: 10}

    # Up to the checkpoint: everything deleted had been read.
    client.delete_records(topic, {0: 10, 1: 10})
    assert check_positions(read_kafka_evidence(broker.bootstrap, topic), offsets) == ()

    client.delete_records(topic, {0: 17, 1: 12})
    found = check_positions(read_kafka_evidence(broker.bootstrap, topic), offsets)
    assert [(finding.code, finding.severity) for finding in found] == [("KAFKA_RECORDS_LOST", Severity.UNSAFE)]
    assert "9 offsets in 2 partition(s)" in found[0].evidence
    assert f"{topic}-0: 7 from 10" in found[0].evidence
    assert f"{topic}-1: 2 from 10" in found[0].evidence

    # Started all the same, Spark stops too, and nothing of the batch is in the table.
    with pytest.raises(SurestartError) as refused:
        run_stage(spark, environment, stage)
    assert refused.value.code == "KAFKA_RECORDS_LOST"
    with pytest.raises(SurestartError) as stopped:
        run_ungated(spark, environment, stage)
    # Whichever of the two partitions was read first; Spark 3.5 has other words, and no name for it.
    cause = str(stopped.value.__cause__)
    named = r"Could not read records in offset \[10, 30\) for topic partition|Cannot fetch offset 10 .*TopicPartition:"
    assert re.search(f"({named}) {topic}-[01]", cause)
    assert stopped.value.code.startswith("KAFKA_DATA_LOSS")
    assert raw_rows(spark, environment) == before


@pytest.mark.long(instead="test_records_deleted_below_the_checkpoint_stop_the_run_and_are_counted")
def test_records_deleted_while_the_query_runs_are_counted_by_partition(spark, environment, broker, client, topic):
    client.create(topic, partitions=1)
    client.produce(topic, payloads(10), partitions=1)
    ends = [10]

    def delete_what_has_just_come(progress: BatchProgress) -> None:
        # The query may be quicker and read all of it; then there is a next time.
        ends.append(ends[-1] + 30)
        client.produce(topic, payloads(30), partitions=1)
        client.delete_records(topic, {0: ends[-1] - 5})

    stage = raw_stage(KafkaSource(broker.bootstrap, topic))
    with pytest.raises(SurestartError) as stopped:
        run_stage(
            spark, environment, stage, trigger=processing_time("1 seconds"), on_progress=delete_what_has_just_come
        )

    assert "KAFKA_RECORDS_LOST: 25 offsets in 1 partition(s) were deleted" in stopped.value.what
    assert f"{topic}-0: 25 from {ends[-2]}" in stopped.value.what
    assert str(stopped.value.next).startswith("surestart plan reset raw-ingest")
    assert "failOnDataLoss" in stopped.value.do_not
    # The next start says the same of the batch in flight.
    with pytest.raises(Refused) as refused:
        run_stage(spark, environment, stage)
    assert refused.value.code == "KAFKA_RECORDS_LOST"
    assert f"{topic}-0: 25 from {ends[-2]}" in refused.value.what


def test_a_topic_made_again_under_its_name_is_told_by_its_id_where_spark_sees_nothing(
    spark, environment, broker, client, topic
):
    client.create(topic, partitions=1)
    client.produce(topic, payloads(10), partitions=1)
    stage = raw_stage(KafkaSource(broker.bootstrap, topic))
    run_stage(spark, environment, stage)
    recorded = read_kafka_evidence(broker.bootstrap, topic).topic_id
    assert check_topic_identity(recorded, read_kafka_evidence(broker.bootstrap, topic)) == ()

    client.delete(topic)
    missing = read_kafka_evidence(broker.bootstrap, topic)
    assert [finding.code for finding in check_topic_identity(recorded, missing)] == ["KAFKA_TOPIC_MISSING"]
    client.create(topic, partitions=1)
    other = client.produce(topic, payloads(5, "other-"), partitions=1)

    evidence = read_kafka_evidence(broker.bootstrap, topic)
    offsets = _next_offsets(environment, topic)
    assert [finding.code for finding in check_topic_identity(recorded, evidence)] == ["KAFKA_TOPIC_REPLACED"]
    assert [finding.code for finding in check_positions(evidence, offsets)] == ["KAFKA_OFFSETS_BEYOND_END"]

    other.update(client.produce(topic, payloads(10, "more-"), partitions=1))
    grown = read_kafka_evidence(broker.bootstrap, topic)
    found = check_topic_identity(recorded, grown)
    assert [(finding.code, finding.severity) for finding in found] == [("KAFKA_TOPIC_REPLACED", Severity.UNSAFE)]
    assert recorded in found[0].evidence
    assert grown.topic_id in found[0].evidence
    # By offsets alone nothing is wrong, and Spark goes by offsets alone: ten records of the new topic are never read.
    assert check_positions(grown, offsets) == ()
    # The start gate goes by the id that the first run has recorded.
    with pytest.raises(Refused) as refused:
        run_stage(spark, environment, stage)
    assert refused.value.code == "KAFKA_TOPIC_REPLACED"
    run_ungated(spark, environment, stage)
    read = raw_rows(spark, environment)
    assert sum(count for row, count in read.items() if row in other) == 5
    assert other.total() == 15


def test_an_unrecorded_topic_id_is_cannot_tell_and_never_safe(broker, client, topic):
    client.create(topic)
    found = check_topic_identity("", read_kafka_evidence(broker.bootstrap, topic))
    assert [finding.severity for finding in found] == [Severity.CANNOT_TELL]
