"""A topic as a source: every record once, untouched, with its position; nothing that was taken back."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Producer

from surestart.errors import UsageError
from surestart.runs.runner import run_stage
from surestart.sources.kafka import KafkaSource
from tests.kafka.kafka_client import payloads, raw_rows, raw_stage


def test_every_record_arrives_untouched_with_its_position(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    stored = client.produce(topic, [*payloads(50), b"", b"\x00\xff\xfe", None])
    run = run_stage(spark, environment, raw_stage(KafkaSource(broker.bootstrap, topic, max_offsets_per_trigger=20)))
    assert raw_rows(spark, environment) == stored
    assert run.batches == 3

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce(topic, b"last", headers=[("trace", b"\x01"), ("trace", None)], timestamp=1767225600123)
    producer.flush(60)
    run_stage(spark, environment, raw_stage(KafkaSource(broker.bootstrap, topic)))
    table = spark.read.format("delta").load(environment.table("sensor_raw").path)
    assert table.count() == 54
    row = table.where("payload = cast('last' as binary)").selectExpr("*", "unix_millis(source_time) AS ms").first()
    assert [(header.key, header.value) for header in row.headers] == [("trace", b"\x01"), ("trace", None)]
    assert (row.source, row.key, row.ms) == (topic, None, 1767225600123)


def test_records_of_an_aborted_transaction_never_reach_raw(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    kept: Counter = Counter()
    taken_back: Counter = Counter()
    for step, stored in enumerate((kept, taken_back, kept)):
        producer.begin_transaction()
        client.produce_with(producer, topic, payloads(10, f"step{step}-"), 2, stored)
        producer.flush(60)
        if stored is taken_back:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    run_stage(spark, environment, raw_stage(KafkaSource(broker.bootstrap, topic)))
    assert raw_rows(spark, environment) == kept
    # The aborted records do lie in the topic: Kafka's default isolation level would have delivered them.
    everything = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic).load()
    )
    assert everything.count() == 30


def test_starting_offsets_count_on_a_new_checkpoint(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    stored = client.produce(topic, payloads(20))
    source = KafkaSource(broker.bootstrap, topic, starting_offsets='{"0": 4, "1": -2}')
    run_stage(spark, environment, raw_stage(source))
    assert raw_rows(spark, environment) == Counter({row: 1 for row in stored if row.partition == 1 or row.offset >= 4})


@pytest.mark.parametrize("wrong", ["latest", "", "{}", '{"0": -1}', '{"0": "5"}', "[3]", '{"a": 1}'])
def test_a_start_that_would_skip_records_is_refused(wrong):
    with pytest.raises(UsageError, match="starting_offsets"):
        KafkaSource("localhost:9092", "sensor", starting_offsets=wrong)


@pytest.mark.parametrize(
    "option",
    ["failOnDataLoss", "startingOffsets", "startingTimestamp", "subscribePattern", "assign", "kafka.group.id",
     "kafka.isolation.level", "kafka.sasl.jaas.config", "kafka.ssl.key.password", "endingOffsets",
     "kafka.allow.auto.create.topics", "kafka.auto.offset.reset"],
)  # fmt: skip
def test_an_option_that_could_lose_records_or_hold_a_secret_is_refused(option):
    with pytest.raises(UsageError, match="is not to be set here"):
        KafkaSource("localhost:9092", "sensor", options=((option, "x"),))


def test_a_source_is_a_plain_value_with_its_choices_declared(environment):
    import pickle

    source = KafkaSource("a:9092,b:9092", "sensor", max_offsets_per_trigger=7, options=(("minPartitions", "4"),))
    assert pickle.loads(pickle.dumps(source)) == source
    told = dict(source.declare(environment).options)
    assert (told["failOnDataLoss"], told["startingOffsets"], told["kafka.isolation.level"]) == (
        "true",
        "earliest",
        "read_committed",
    )
    assert (told["maxOffsetsPerTrigger"], told["minPartitions"]) == ("7", "4")
    with pytest.raises(UsageError, match="bootstrap"):
        KafkaSource("https://user:secret@host", "sensor")
