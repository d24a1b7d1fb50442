"""The simulator's Kafka side: the records of the files, in several partitions, in transactions or not, counted once."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer

from sensor_pipeline.kafka_simulate import main, read_sent, write_topic
from sensor_pipeline.simulate import Simulation, iter_records, write_files
from sensor_pipeline.stages import PIPELINE, build_stages
from surestart.errors import CannotTell, UsageError
from surestart.facts.kafka.evidence import read_kafka_evidence
from surestart.local.kafka_configuration import free_ports
from surestart.runs.runner import run_stage
from tests.kafka.kafka_client import described

SIMULATION = Simulation(seed=7, devices=30)


def _made(count: int) -> Counter:
    return Counter(record.payload for record in iter_records(SIMULATION, 0, count))


@pytest.mark.parametrize("transactional", [True, False], ids=["transactional", "plain"])
def test_the_topic_holds_the_records_of_the_files_and_the_truth_file_is_the_same(
    broker, topic, tmp_path, transactional
):
    truth, of_files = tmp_path / "truth.json", tmp_path / "files.json"
    for count in (700, 300):
        write_topic(
            *(broker.bootstrap, topic, truth, count),
            simulation=SIMULATION,
            partitions=3,
            transactional=transactional,
        )
        write_files(tmp_path / "landing", of_files, count, SIMULATION)

    read = list(read_sent(broker.bootstrap, topic))

    assert Counter(payload for _, payload in read) == _made(1000)
    assert len({position for position, _ in read}) == 1000
    assert {partition for (_, partition, _), _ in read} == {0, 1, 2}
    assert truth.read_bytes() == of_files.read_bytes()
    # Three aborted records and a marker per partition written to lie beside those that count, twice.
    offsets = sum(one.end for one in read_kafka_evidence(broker.bootstrap, topic).partitions)
    assert offsets > 1006 if transactional else offsets == 1000


def test_what_retention_has_left_is_counted_from_its_first_record(broker, client, topic, tmp_path):
    """By the client's default a reader that stands before the first record goes to the end, and judges none."""
    write_topic(
        *(broker.bootstrap, topic, tmp_path / "t.json", 200), simulation=SIMULATION, partitions=1, transactional=False
    )
    client.delete_records(topic, {0: 150})

    read = list(read_sent(broker.bootstrap, topic))

    assert [position for position, _ in read] == [(topic, 0, offset) for offset in range(150, 200)]


def test_the_records_of_a_sensor_keep_their_order_in_one_partition(broker, topic, tmp_path):
    write_topic(broker.bootstrap, topic, tmp_path / "t.json", 600, simulation=SIMULATION, partitions=3)

    arrived = {payload: position for position, payload in read_sent(broker.bootstrap, topic)}
    # Duplicates are the same bytes twice: only records that are alone can be followed.
    once = {payload for payload, times in _made(600).items() if times == 1}
    by_sensor: dict[bytes, list[tuple[int, int]]] = {}
    for record in iter_records(SIMULATION, 0, 600):
        if record.payload in once:
            _, partition, offset = arrived[record.payload]
            by_sensor.setdefault(record.key, []).append((partition, offset))

    assert len(by_sensor) == 30
    for places in by_sensor.values():
        assert len({partition for partition, _ in places}) == 1
        assert places == sorted(places)


def test_another_simulation_into_the_same_truth_file_is_refused(broker, topic, tmp_path):
    write_topic(broker.bootstrap, topic, tmp_path / "t.json", 10, simulation=SIMULATION)

    with pytest.raises(UsageError, match="made with seed 7 and 30 devices, not 42 and 200"):
        write_topic(broker.bootstrap, topic, tmp_path / "t.json", 10)

    assert len(list(read_sent(broker.bootstrap, topic))) == 10


def test_a_broker_that_is_not_there_is_cannot_tell(topic, tmp_path):
    nowhere = f"127.0.0.1:{free_ports().plain}"

    with pytest.raises(CannotTell, match="did not answer within 1 s"):
        write_topic(nowhere, topic, tmp_path / "t.json", 10, timeout_seconds=1)

    assert not (tmp_path / "t.json").exists()


def test_the_command_says_in_four_parts_what_a_broker_did_not_do(topic, tmp_path, capsys, monkeypatch):
    command = ["--bootstrap", f"127.0.0.1:{free_ports().plain}", "--topic", topic, "--root", str(tmp_path)]

    assert main([*command, "--timeout", "1"]) == 4
    told = capsys.readouterr().err
    assert told.startswith("KafkaUnreachable: Kafka at 127.0.0.1")
    assert [line.split(":")[0] for line in told.splitlines()[1:]] == ["Meaning", "Next"]

    monkeypatch.setenv("SURESTART_KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("SURESTART_KAFKA_SSL_CA_PEM", "no certificate")
    assert main(command) == 2
    assert "KafkaSecurity: Kafka security settings do not fit together: Failed to create" in capsys.readouterr().err
    with pytest.raises(UsageError, match="not in PEM format"):
        list(read_sent("127.0.0.1:1", topic))
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert main(command) == 2
    assert "KafkaClientNotInstalled" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_transaction_that_a_second_producer_took_over_is_told(broker, topic, tmp_path, monkeypatch):
    """Its producer is fenced: begin, send and commit all fail by the client's own exception."""
    write_topic(broker.bootstrap, topic, tmp_path / "t.json", 10, simulation=SIMULATION)
    fence = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"sensor-simulator-{topic}"})

    def fenced(*arguments: Any) -> list[Any]:
        fence.init_transactions(30)
        return list(iter_records(*arguments))

    monkeypatch.setattr("sensor_pipeline.kafka_simulate.iter_records", fenced)
    with pytest.raises(CannotTell, match=r"were not (sent|delivered)") as failed:
        write_topic(broker.bootstrap, topic, tmp_path / "t.json", 10, simulation=SIMULATION)
    assert failed.value.code == "KafkaNotDelivered"
    assert len(list(read_sent(broker.bootstrap, topic))) == 10


def _caught_up(ends: dict[int, int]) -> dict[int, tuple[int, int, int]]:
    return {number: (end, end, 0) for number, end in ends.items()}


@pytest.mark.long(instead="kafka/test_source.py::test_every_record_arrives_untouched_with_its_position")
def test_the_three_stages_from_kafka_are_exact_and_kafkas_own_tool_shows_their_lag(
    spark, environment, broker, topic, tmp_path
):
    command = ["--bootstrap", broker.bootstrap, "--topic", topic, "--partitions", "3", "--root", environment.root]
    settings = {"source": "kafka", "bootstrap": broker.bootstrap, "topic": topic, "mirror": "true"}
    stages = build_stages({**settings, "max_offsets_per_trigger": "300"})
    assert main([*command, "--readings", "800"]) == 0
    assert run_stage(spark, environment, stages[0]).batches >= 3
    # A second run goes on where the first one stopped; what comes after it is the lag.
    assert main([*command, "--readings", "200", "--plain"]) == 0
    for stage in stages:
        run_stage(spark, environment, stage)
    account = PIPELINE.count(environment, settings)
    assert (account.produced, account.raw, account.faults) == (1000, 1000, {})

    ends = {one.partition: one.end for one in read_kafka_evidence(broker.bootstrap, topic).partitions}
    group = "local.sensor-raw-ingest.mirror"
    # A busy machine may take longer to tell the group than the run waits for it.
    deadline = time.monotonic() + 30
    while (shown := described(broker, group, topic)) != _caught_up(ends) and time.monotonic() < deadline:
        pass
    assert shown == _caught_up(ends)

    assert main([*command, "--readings", "100", "--plain"]) == 0

    shown = described(broker, group, topic)
    assert sum(lag for _, _, lag in shown.values()) == 100
    # Nobody has read them yet, so none of them is lost.
    account = PIPELINE.count(environment, settings)
    assert (account.produced, account.faults, account.pending) == (1100, {}, {"raw-ingest": 100})
    assert {number: current for number, (current, _, _) in shown.items()} == ends
