"""Sends the simulator's records to a Kafka topic and reads them back for the count: same records, same truth file.

    record n ── key: its sensor ──> partition by Kafka's own hash ──> position (topic, partition, offset)

transactional: each 5,000 records are one transaction, and a last one is aborted on purpose: a reader that does not ask
for committed records only would count it as well.
Run it: python -m sensor_pipeline.kafka_simulate --bootstrap 127.0.0.1:9092 --topic sensor --readings 10000
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sensor_pipeline.simulate import Simulation, Truth, iter_records, read_truth, save_truth
from sensor_pipeline.tally import RowPosition
from surestart import (
    CannotTell,
    SecretPlace,
    SurestartError,
    UsageError,
    client_settings,
    import_client,
    read_kafka_evidence,
    refused_settings,
)
from surestart.typed import surestart, typed

_PER_TRANSACTION = 5000
_SECONDS = 30


def write_topic(
    bootstrap: str,
    topic: str,
    truth_path: Path,
    readings: int,
    *,
    simulation: Simulation | None = None,
    partitions: int = 2,
    transactional: bool = True,
    security: SecretPlace | None = None,
    timeout_seconds: float = _SECONDS,
) -> Truth:
    """`readings` more records are in the topic, made if there was none, and the truth file counts them."""
    import_client()
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    wanted = simulation or Simulation()
    before = _begin(truth_path, wanted)
    place = security or SecretPlace()
    common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **client_settings(place.read())}
    try:
        admin = AdminClient(common)
    except KafkaException as problem:
        raise refused_settings(problem, place) from None
    try:
        if topic not in admin.list_topics(timeout=timeout_seconds).topics:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout_seconds)
    except KafkaException as problem:
        raise _unreachable(bootstrap, problem, timeout_seconds) from None
    settings: dict[str, Any] = {**common, "enable.idempotence": True, "linger.ms": 50}
    if transactional:
        settings["transactional.id"] = f"sensor-simulator-{topic}"
    producer = Producer(settings)
    if transactional:
        try:
            producer.init_transactions(timeout_seconds)
        except KafkaException as problem:
            raise _unreachable(bootstrap, problem, timeout_seconds) from None
    kinds, first, end = Counter(dict(before.kinds)), before.records, before.records + readings
    while first < end:
        count = min(_PER_TRANSACTION, end - first)
        records = list(iter_records(wanted, first, count))
        _send(producer, topic, [(record.key, record.payload) for record in records], transactional)
        kinds.update(record.kind for record in records)
        first += count
        # After the commit: a crash in between makes the next run send this part again, as a real producer would.
        save_truth(truth_path, Truth(wanted.seed, wanted.devices, first, tuple(sorted(kinds.items()))))
    if transactional:
        _send(producer, topic, [(b"aborted", b"aborted on purpose")] * 3, transactional, commit=False)
    return Truth(wanted.seed, wanted.devices, first, tuple(sorted(kinds.items())))


def _begin(truth_path: Path, wanted: Simulation) -> Truth:
    before = read_truth(truth_path) or Truth(wanted.seed, wanted.devices, 0)
    if (before.seed, before.devices) != (wanted.seed, wanted.devices):
        raise UsageError(
            f"{truth_path} was made with seed {before.seed} and {before.devices} devices, "
            f"not {wanted.seed} and {wanted.devices}",
            meaning="Mixing two simulations would make the truth file wrong. Nothing was sent.",
            next=typed(
                "python", "-m", "sensor_pipeline.kafka_simulate", "--seed", before.seed, "--devices", before.devices
            ),
        )
    return before


def read_sent(
    bootstrap: str, topic: str, security: SecretPlace | None = None
) -> Iterator[tuple[RowPosition, bytes | None]]:
    """Every committed record that the topic holds now, with its position. Joins no group and creates no topic."""
    import_client()
    from confluent_kafka import Consumer, KafkaException

    place = security or SecretPlace()
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "surestart-count",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        # After retention offset 0 is gone. The client's default would then go to the end, and judge nothing.
        "auto.offset.reset": "earliest",
        "log_level": 0,
        **client_settings(place.read()),
    }
    try:
        consumer = Consumer(settings)
    except KafkaException as refusal:
        raise refused_settings(refusal, place) from None
    try:
        yield from _read_to_end(consumer, topic)
    except KafkaException as problem:
        raise _unreachable(bootstrap, problem) from None
    finally:
        consumer.close()


def _read_to_end(consumer: Any, topic: str) -> Iterator[tuple[RowPosition, bytes | None]]:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

    waiting = set(consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in waiting])
    heard = time.monotonic()
    while waiting:
        # consume waits out its time unless so many messages are there, so the last few must not wait long.
        messages = consumer.consume(5000, timeout=0.2)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SECONDS:
            raise CannotTell(
                f"{len(waiting)} partitions of topic {topic!r} gave nothing for {_SECONDS} s before their end",
                meaning="The count is not complete and was given up.",
                next=surestart("kafka", "status"),
                code="KafkaSilent",
            )
        for message in messages:
            problem = message.error()
            if problem is None:
                yield (topic, message.partition(), message.offset()), message.value()
            elif problem.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise KafkaException(problem)


def read_begins(bootstrap: str, topic: str, security: SecretPlace | None = None) -> dict[tuple[str, int], int]:
    """The first offset that each partition still has. A compacted topic forgets records anywhere: its end, so that none
    of its rows is taken for one from nowhere."""
    evidence = read_kafka_evidence(bootstrap, topic, security)
    compacted = "compact" in evidence.cleanup_policy
    return {(topic, one.partition): one.end if compacted else one.earliest for one in evidence.partitions}


def _send(
    producer: Any, topic: str, messages: list[tuple[bytes, bytes]], transactional: bool, commit: bool = True
) -> None:
    from confluent_kafka import KafkaException

    try:
        _deliver(producer, topic, messages, transactional, commit)
    except KafkaException as problem:
        raise CannotTell(
            f"{len(messages)} records were not sent to {topic!r} for certain: {problem.args[0].str()}",
            meaning="The truth file does not count them. What did arrive is in the topic.",
            next=surestart("kafka", "status"),
            code="KafkaNotDelivered",
        ) from None


def _deliver(producer: Any, topic: str, messages: list[tuple[bytes, bytes]], transactional: bool, commit: bool) -> None:
    failed: list[str] = []

    def delivered(problem: Any, message: Any) -> None:
        if problem is not None:
            failed.append(str(problem))

    if transactional:
        producer.begin_transaction()
    for key, payload in messages:
        while True:
            try:
                producer.produce(topic, payload, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(1)
    left = producer.flush(_SECONDS)
    if left or failed:
        raise CannotTell(
            f"{left + len(failed)} of {len(messages)} records were not delivered to {topic!r}: "
            f"{failed[0] if failed else 'no answer'}",
            meaning="The truth file does not count them. What did arrive is in the topic.",
            next=surestart("kafka", "status"),
            code="KafkaNotDelivered",
        )
    if transactional and commit:
        producer.commit_transaction(_SECONDS)
    elif transactional:
        producer.abort_transaction(_SECONDS)


def _unreachable(bootstrap: str, problem: Exception, seconds: float = _SECONDS) -> CannotTell:
    return CannotTell(
        f"Kafka at {bootstrap} did not answer within {seconds:g} s: {problem.args[0].str()}",
        meaning="Nothing was sent and nothing was counted.",
        next=surestart("kafka", "start"),
        code="KafkaUnreachable",
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sensor_pipeline.kafka_simulate", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--topic", default="sensor")
    parser.add_argument("--readings", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2, help="when the topic is made (default 2)")
    parser.add_argument("--plain", action="store_true", help="without transactions")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--timeout", type=float, default=_SECONDS, help=f"seconds for an answer (default {_SECONDS})")
    parser.add_argument("--root", default=".surestart/local-kafka", help="where the truth file is kept")
    args = parser.parse_args(argv)
    try:
        truth = write_topic(
            args.bootstrap,
            args.topic,
            Path(args.root) / f"truth-{args.topic}.json",
            args.readings,
            simulation=Simulation(args.seed, args.devices),
            partitions=args.partitions,
            transactional=not args.plain,
            timeout_seconds=args.timeout,
        )
    except SurestartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stderr.write(f"{args.readings} records made in topic {args.topic}, {truth.records} in all\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
