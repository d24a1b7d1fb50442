"""One broker for the whole run, shared by every test that needs Kafka; each test makes topics of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.kafka.kafka_client import CANARY, KafkaClient
from tests.servers import secured_kafka
from tests.servers.kafka_broker import KafkaBroker, kafka_broker
from tests.servers.secured_kafka import TlsBroker, sasl_listener

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker([sasl_listener({"sensor": CANARY})]) as running:
        yield running


@pytest.fixture(scope="module")
def tls_broker() -> Iterator[TlsBroker]:
    """Another one, which offers TLS and lets one user in by SCRAM."""
    with secured_kafka.tls_broker() as running:
        KafkaClient(running.bootstrap).allow_scram("sensor", CANARY)
        yield running


@pytest.fixture(scope="session")
def client(broker: KafkaBroker) -> KafkaClient:
    return KafkaClient(broker.bootstrap)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; the topic is not created."""
    return f"{request.node.name.split('[')[0][:60]}-{next(_numbers)}".replace("_", "-")
