"""The certificate over a real topic: what the topic has, what the checkpoint has passed, what the table holds."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from surestart.environment import Environment
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.count.certificate import certify
from surestart.remedies.count.counts import Gap
from surestart.runs.runner import run_stage
from surestart.sources.kafka import KafkaSource
from tests.kafka.kafka_client import payloads, raw_stage


def count(spark: SparkSession, environment: Environment, source: Any) -> Any:
    found = certify(spark, environment, read_chain(environment, [raw_stage(source)]))
    return found, found.stages[0]


def delete(spark: SparkSession, environment: Environment, where: Any) -> None:
    spark.sql(f"DELETE FROM {environment.table('sensor_raw').sql} WHERE {where}")


@pytest.mark.long(instead="kafka/test_source.py::test_every_record_arrives_untouched_with_its_position")
def test_a_batch_read_has_the_rows_and_columns_of_the_stream(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    client.produce(topic, payloads(50))
    source = KafkaSource(broker.bootstrap, topic, max_offsets_per_trigger=7)
    run_stage(spark, environment, raw_stage(source))

    rows = source.read_batch(spark, environment)

    table = spark.read.format("delta").load(environment.table("sensor_raw").path).drop("ingested_at")
    assert rows.columns == source.read_stream(spark, environment).columns == table.columns
    assert (rows.exceptAll(table).count(), table.exceptAll(rows).count(), rows.count()) == (0, 0, 50)


@pytest.mark.long(instead="remedies/test_certificate.py::test_a_row_taken_out_of_raw_is_one_lost_row_and_one_gap")
def test_lost_pending_gone_and_doubled_records_are_told_apart(spark, environment, broker, client, topic):
    client.create(topic, partitions=2)
    client.produce(topic, payloads(400))
    source = KafkaSource(broker.bootstrap, topic)
    run_stage(spark, environment, raw_stage(source))
    client.produce(topic, payloads(20))

    found, stage = count(spark, environment, source)
    assert (found.verdict, stage.counts.input, stage.counts.rows, stage.counts.pending) == ("exact", 420, 400, 20)
    assert sorted((one.partition, one.first, one.last, one.counts.rows) for one in stage.places) == [
        (0, 0, 209, 200), (1, 0, 209, 200)
    ]  # fmt: skip

    client.delete_records(topic, {0: 70})
    found, stage = count(spark, environment, source)
    assert (found.verdict, stage.counts.gone, stage.counts.input) == ("exact", 70, 350)

    delete(spark, environment, "partition = 1 AND offset BETWEEN 60 AND 130 OR partition = 0 AND offset IN (10, 199)")
    found, stage = count(spark, environment, source)
    # Offset 10 of partition 0 has left the topic as well: nobody but the table could have told of it.
    assert dict(found.faults) == {"raw-ingest positions: lost": 72}
    assert found.gaps == (Gap("raw-ingest", topic, 1, 60, 130, 71), Gap("raw-ingest", topic, 0, 199, 199, 1))
    assert (stage.counts.pending, stage.counts.gone) == (20, 69)

    found, stage = count(
        spark, environment, KafkaSource(broker.bootstrap, topic, starting_offsets='{"0": -2, "1": 100}')
    )
    assert found.lost == 32


@pytest.mark.chaos
def test_markers_of_transactions_are_neither_lost_nor_do_they_cut_a_gap(spark, environment, broker, client, topic):
    client.create(topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    for abort in (False, True, False, False):
        producer.begin_transaction()
        for payload in payloads(10):
            producer.produce(topic, payload, partition=0)
        producer.flush(60)
        producer.abort_transaction(60) if abort else producer.commit_transaction(60)
    source = KafkaSource(broker.bootstrap, topic)
    run_stage(spark, environment, raw_stage(source))

    found, stage = count(spark, environment, source)
    assert (found.verdict, stage.counts.input, stage.counts.rows) == ("exact", 30, 30)

    # 0-9, marker 10, aborted 11-20, its marker 21, 22-31, marker 32, 33-42, marker 43
    delete(spark, environment, "offset BETWEEN 5 AND 25")
    found, stage = count(spark, environment, source)
    assert found.gaps == (Gap("raw-ingest", topic, 0, 5, 25, 9),)

    row = spark.read.format("delta").load(environment.table("sensor_raw").path).limit(1)
    row.selectExpr("* EXCEPT (offset)", "12L AS offset").select(*row.columns).write.format("delta").mode("append").save(
        environment.table("sensor_raw").path
    )
    assert count(spark, environment, source)[1].counts.from_nowhere == 1


@pytest.mark.chaos
def test_a_topic_that_is_not_there_cannot_be_told(spark, environment, broker, client, topic):
    client.create(topic, partitions=1)
    client.produce(topic, payloads(5), partitions=1)
    source = KafkaSource(broker.bootstrap, topic)
    run_stage(spark, environment, raw_stage(source))
    client.delete(topic)

    found, stage = count(spark, environment, source)
    assert (found.verdict, stage.counts.rows, stage.compared) == ("cannot tell", 5, False)
    assert topic in stage.problem

    away, stage = count(spark, environment, KafkaSource("127.0.0.1:1", topic))
    assert (away.verdict, "127.0.0.1:1" in stage.problem) == ("cannot tell", True)
