"""Remedies of a stage that reads a topic: each record is in the table once, by the broker's own reports."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from surestart import Plan
from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.position_sets import Range, narrow_evidence
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill
from surestart.remedies.planning.plan_replay import ReplayFrom, plan_replay
from surestart.remedies.planning.plan_reset import plan_reset, plan_reset_beside
from surestart.remedies.planning.wanted import Request
from surestart.runs.runner import run_stage
from surestart.sources.kafka import KafkaSource
from tests.kafka.kafka_client import KafkaClient, payloads, raw_rows, raw_stage
from tests.servers.kafka_broker import KafkaBroker


class Stood:
    """A topic of two partitions whose records are in the raw table."""

    def __init__(
        self, spark: SparkSession, environment: Environment, broker: KafkaBroker, client: KafkaClient, topic: str
    ) -> None:
        self.spark, self.environment, self.client, self.topic = spark, environment, client, topic
        self.stage = raw_stage(KafkaSource(broker.bootstrap, topic, max_offsets_per_trigger=16))
        self.chain = read_chain(environment, [self.stage])
        client.create(topic, partitions=2)
        self.stored = client.produce(topic, payloads(40))
        assert self.run() == 40

    def more(self, count: int = 10, partitions: int = 2) -> None:
        self.stored += self.client.produce(self.topic, payloads(count, "more-"), partitions=partitions)

    def run(self) -> int:
        return run_stage(self.spark, self.environment, self.stage).rows

    def rows(self) -> Any:
        return raw_rows(self.spark, self.environment)

    def reset(self, **given: Any) -> Any:
        return self._plan(plan_reset, **given)

    def beside(self, **given: Any) -> Any:
        return self._plan(plan_reset_beside, **given)

    def replay(self, begin: ReplayFrom, **given: Any) -> Any:
        request = Request(settings={}, run=False, **given)
        return plan_replay(self.spark, self.environment, self.chain, "raw-ingest", begin, request)

    def apply(self, plan: Plan) -> Any:
        return apply_plan(self.spark, self.environment, self.chain, plan, lambda plan: plan.target)

    def undo(self, plan: Plan, **given: Any) -> None:
        undo_remedy(self.spark, self.environment, self.chain, plan, lambda plan: plan.target, **given)

    def backfill(self, ranges: Any, between: Any) -> Any:
        request = Request(settings={}, run=False)
        return plan_backfill(self.spark, self.environment, self.chain, "raw-ingest", ranges, between, request)

    def _plan(self, make: Any, **given: Any) -> Any:
        request = Request(settings={}, **{"run": False, **given})
        return make(self.spark, self.environment, self.chain, "raw-ingest", request)


@pytest.fixture
def stood(spark: SparkSession, environment: Environment, broker: KafkaBroker, client: KafkaClient, topic: str) -> Stood:
    return Stood(spark, environment, broker, client, topic)


def removed(plan: Plan) -> int:
    return sum(effect.rows for effect in plan.effects if effect.action == "remove rows")


@pytest.mark.chaos
def test_a_reset_reads_the_topic_again_from_its_first_offset(stood) -> None:
    plan = stood.reset(run=True)
    assert removed(plan) == 40
    stood.more()

    done = stood.apply(plan)

    assert done.certificate["exact"], done.certificate["faults"]
    stood.more()
    assert stood.run() == 10
    assert stood.rows() == stood.stored


@pytest.mark.chaos
def test_named_offsets_of_a_partition_are_read_again_and_the_others_are_not(stood) -> None:
    plan = stood.replay(ReplayFrom(positions={stood.topic: {"0": 7}}))
    # Offsets 7 to 19 of partition 0; partition 1 is not named and stays.
    assert removed(plan) == 13
    stood.apply(plan)
    stood.more()

    assert stood.run() == 13 + 10
    assert stood.rows() == stood.stored


def test_a_lost_checkpoint_goes_on_at_the_offsets_that_the_table_holds(stood) -> None:
    shutil.rmtree(stood.environment.checkpoint("raw-ingest"))
    # A partition that was never seen is read from its first record.
    stood.client.add_partitions(stood.topic, 3)
    stood.more(30, partitions=3)
    with pytest.raises(Refused):
        stood.run()
    plan = stood.replay(ReplayFrom(output=True))
    assert removed(plan) == 0

    stood.apply(plan)

    assert stood.run() == 30
    assert stood.rows() == stood.stored


@pytest.mark.long(instead="test_a_backfill_asks_for_no_more_of_a_topic_than_its_ranges")
def test_a_hole_is_filled_from_its_offsets_by_range_and_by_time(stood) -> None:
    table = stood.environment.table("sensor_raw").sql
    stood.spark.sql(f"DELETE FROM {table} WHERE partition = 0 AND offset BETWEEN 3 AND 6")
    stood.spark.sql(f"DELETE FROM {table} WHERE partition = 1 AND offset = 9")
    noon = int(time.time() * 1000)

    assert stood.backfill((), ArrivalTime(first=noon)).steps == ()
    part = stood.backfill([Range(stood.topic, 0, 5, 99)], ArrivalTime(first=noon - 3_600_000, last=noon))
    assert part.steps[0].arguments["ranges"] == [[stood.topic, 0, 5, 6]]
    stood.apply(part)
    stood.more()
    assert stood.run() == 10
    rest = stood.backfill((), ArrivalTime())
    assert sorted(rest.steps[0].arguments["ranges"]) == [[stood.topic, 0, 3, 4], [stood.topic, 1, 9, 9]]
    stood.apply(rest)

    assert stood.rows() == stood.stored


def test_a_backfill_asks_for_no_more_of_a_topic_than_its_ranges(stood) -> None:
    evidence = stood.stage.source.read_evidence()
    wanted = [Range(stood.topic, 0, 3, 4), Range(stood.topic, 0, 9, 9999), Range("other", 1, 0, 5)]
    narrowed = narrow_evidence(evidence, stood.topic, wanted)
    assert [(one.earliest, one.latest) for one in narrowed.partitions] == [(3, 20), (20, 20)]


@pytest.mark.long(
    instead="kafka/test_faults.py::test_records_deleted_below_the_checkpoint_stop_the_run_and_are_counted"
)
def test_records_that_left_the_topic_are_not_removed_unless_their_number_is_named(stood) -> None:
    stood.client.delete_records(stood.topic, {0: 5})
    with pytest.raises(Refused, match="5 rows would be lost for ever"):
        stood.reset()
    with pytest.raises(Refused, match="--accept-loss 4 was given, 5 rows would be lost"):
        stood.reset(accept_loss=4)
    # Behind them nothing is lost.
    assert removed(stood.replay(ReplayFrom(positions={stood.topic: {"0": 5}}))) == 15
    assert stood.reset(accept_loss=5).loss == 5


@pytest.mark.long(instead="kafka/test_simulate.py::test_what_retention_has_left_is_counted_from_its_first_record")
def test_rows_that_a_compacted_topic_has_no_more_are_counted_one_by_one(
    spark, environment, broker, client, topic
) -> None:
    """Between the first and the last offset: by the numbers that the cluster gives, nothing has gone."""
    # Closed after a second, and cleaned as soon as the broker looks.
    config = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    client.create(topic, partitions=1, **config)
    stored = client.produce(topic, payloads(200), partitions=1)
    stage = raw_stage(KafkaSource(broker.bootstrap, topic))
    chain, ask = read_chain(environment, [stage]), Request(settings={}, run=False)
    assert run_stage(spark, environment, stage).rows == 200
    assert plan_reset(spark, environment, chain, "raw-ingest", ask).loss == 0
    left = compacted(client, topic, stored)
    gone = 200 - left
    assert gone > 100

    with pytest.raises(Refused, match=rf": {gone} rows would be lost for ever: .* compaction has removed") as refused:
        plan_reset(spark, environment, chain, "raw-ingest", ask)

    assert refused.value.code == "SourceLostRows"
    kept = plan_reset(spark, environment, chain, "raw-ingest", replace(ask, keep_lost=True))
    assert kept.loss == 0
    apply_plan(spark, environment, chain, kept, lambda plan: plan.target)
    run_stage(spark, environment, stage)
    offsets = [(record.partition, record.offset) for record in raw_rows(spark, environment).elements()]
    assert len(offsets) == len(set(offsets))
    assert set(stored) <= set(raw_rows(spark, environment))


def compacted(client: KafkaClient, topic: str, stored: Any) -> int:
    """How many of these records the topic has once its log was cleaned; a segment is closed by the next record."""
    soon = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    (done,) = client.admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "1", incremental_configs=[soon])]
    ).values()
    done.result(60)
    producer = Producer({"bootstrap.servers": client.bootstrap, "log_level": 0})
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        producer.produce(topic, b"later", key=b"later", partition=0)
        assert producer.flush(60) == 0
        left = offsets_of(client, topic) & {record.offset for record in stored}
        if len(left) < len(stored):
            return len(left)
    raise TimeoutError(topic)


def offsets_of(client: KafkaClient, topic: str) -> set[int]:
    found: set[int] = set()
    reader = Consumer({"bootstrap.servers": client.bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        place = TopicPartition(topic, 0, 0)
        reader.assign([place])
        _, end = reader.get_watermark_offsets(place, timeout=30)
        while max(found, default=-1) < end - 1:
            message = reader.poll(10)
            assert message is not None
            assert message.error() is None
            found.add(message.offset())
    finally:
        reader.close()
    return found


@pytest.mark.chaos
def test_records_that_left_the_topic_stay_or_go_as_the_plan_has_said(stood) -> None:
    stood.client.delete_records(stood.topic, {0: 5})
    kept = stood.reset(keep_lost=True)
    assert (kept.loss, removed(kept)) == (0, 35)
    stood.apply(kept)
    assert stood.run() == 35
    assert stood.rows() == stood.stored

    accepted = stood.reset(accept_loss=5)
    assert accepted.loss == 5
    stood.apply(accepted)
    stood.more()
    assert stood.run() == 45
    gone = {row[:2] for row in stood.stored if row.partition == 0 and row.offset < 5}
    left = {row: count for row, count in stood.stored.items() if row[:2] not in gone}
    assert (len(gone), stood.rows()) == (5, left)


@pytest.mark.chaos
def test_records_that_leave_the_topic_after_the_plan_stop_the_apply_before_they_are_removed(stood) -> None:
    plan = stood.reset()
    stood.client.delete_records(stood.topic, {1: 3})
    with pytest.raises(Refused, match="3 rows would be lost for ever, 0 when this was planned"):
        stood.apply(plan)
    assert stood.rows() == stood.stored
    stood.more()
    assert stood.run() == 10
    assert stood.rows() == stood.stored


@pytest.mark.chaos
def test_an_undo_that_the_topic_cannot_make_good_is_refused(stood) -> None:
    plan = stood.reset()
    stood.apply(plan)
    stood.more()
    assert stood.run() == 50
    # The new records of partition 0, which the former table never had.
    stood.client.delete_records(stood.topic, {0: 25})
    with pytest.raises(Refused, match="5 rows that arrived since would be lost for ever"):
        stood.undo(plan)
    assert stood.rows() == stood.stored


@pytest.mark.long(
    instead="kafka/test_faults.py::test_a_topic_made_again_under_its_name_is_told_by_its_id_where_spark_sees_nothing"
)
def test_rows_of_a_topic_that_was_made_again_are_never_kept_under_the_new_one(stood) -> None:
    stood.client.delete(stood.topic)
    stood.client.create(stood.topic, partitions=2)
    # More than before: no offset of the former topic is missing in the new one.
    fresh = stood.client.produce(stood.topic, payloads(60, "new-"))
    for begin in (ReplayFrom(output=True), ReplayFrom(positions={stood.topic: {"0": 7}}), ReplayFrom(batch=1)):
        with pytest.raises(Refused) as refused:
            stood.replay(begin)
        assert (refused.value.code, "reset raw-ingest" in str(refused.value.next)) == ("TopicReplaced", True)
    with pytest.raises(Refused, match="40 rows would be lost for ever") as lost:
        stood.reset()
    assert "--accept-loss 40" in str(lost.value.next)
    assert "--keep-lost" not in str(lost.value.next)
    with pytest.raises(UsageError, match="cannot be said by position"):
        stood.reset(keep_lost=True)

    plan = stood.reset(accept_loss=40)
    stood.apply(plan)
    assert stood.run() == 60
    assert stood.rows() == fresh
    # The former checkpoint stands at offset 20 of the former topic.
    with pytest.raises(Refused, match="has read from another topic of the same name"):
        stood.undo(plan, accept_loss=60)
    assert stood.rows() == fresh


@pytest.mark.chaos
def test_a_topic_is_read_beside_and_what_arrives_meanwhile_comes_once(stood) -> None:
    plan = stood.beside(run=True)
    stood.more()
    assert stood.run() == 10
    table = stood.environment.table("sensor_raw").path

    done = apply_plan(
        stood.spark,
        stood.environment,
        stood.chain,
        plan,
        lambda plan: plan.target,
        # Between the count and the swap.
        lambda line: stood.more() if line.startswith("note where") else None,
    )

    assert done.certificate["exact"], done.certificate["faults"]
    assert stood.rows() == stood.stored
    commits = stood.spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
    read_since = [int(row["operationMetrics"]["numOutputRows"]) for row in commits[:1]]
    assert read_since == [10]
