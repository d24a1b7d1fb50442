"""Credentials reach the cluster and nothing else: no plan, log, report, traceback, declaration or checkpoint."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_client import CANARY, KafkaClient, payloads

from surestart.errors import CannotTell, UsageError
from surestart.local.kafka_broker import KafkaBroker
from surestart.sources.kafka_evidence import read_kafka_evidence
from surestart.sources.kafka_security import SecretPlace, Secrets, client_settings, kafka_options

WRONG = "wrong-c4nary;pa55"
SASL = {
    "SURESTART_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SURESTART_KAFKA_SASL_MECHANISM": "PLAIN",
    "SURESTART_KAFKA_SASL_USERNAME": "sensor",
    "SURESTART_KAFKA_SASL_PASSWORD": CANARY,
}


def test_a_password_is_in_nothing_that_a_run_prints_or_writes(broker, client, topic, tmp_path):
    client.create(topic)
    client.produce(topic, payloads(10))
    _run_and_look(broker.sasl_bootstrap, SASL, topic, tmp_path)


@pytest.mark.chaos
def test_nor_is_it_over_tls_with_scram(tls_broker, topic, tmp_path):
    client = KafkaClient(tls_broker.bootstrap)
    client.create(topic)
    client.produce(topic, payloads(10))
    _run_and_look(tls_broker.tls_bootstrap, _over_tls(tls_broker), topic, tmp_path)


def test_a_cluster_whose_certificate_is_not_trusted_is_not_talked_to(tls_broker, topic, monkeypatch):
    for name, value in _over_tls(tls_broker).items():
        monkeypatch.setenv(name, value)
    assert not read_kafka_evidence(tls_broker.tls_bootstrap, topic, timeout_seconds=10).exists
    monkeypatch.delenv("SURESTART_KAFKA_SSL_CA_PEM")

    with pytest.raises(CannotTell, match="certificate verify failed"):
        read_kafka_evidence(tls_broker.tls_bootstrap, topic, timeout_seconds=3)


def _over_tls(broker: KafkaBroker) -> dict[str, str]:
    assert broker.certificate is not None
    return {
        **SASL,
        "SURESTART_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "SURESTART_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "SURESTART_KAFKA_SSL_CA_PEM": broker.certificate.pem,
    }


def _run_and_look(bootstrap: str, variables: dict[str, str], topic: str, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("secret_run.py"))]
    done = subprocess.run(
        [*command, bootstrap, topic, str(tmp_path)],
        env={**os.environ, **variables, "WRONG": WRONG},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    # It has read with the right password, been refused with the wrong one, and come to its end.
    assert "ROWS 10" in done.stdout, done.stdout[-3000:]
    assert "StreamingQueryException" in done.stdout
    assert "KafkaOutOfReach" in done.stdout
    assert "Authentication failed" in done.stdout.partition("KafkaOutOfReach")[2]
    assert "SUCCEEDED" not in done.stdout
    assert "DONE" in done.stdout
    # Where a secret could have been: Kafka's list of settings in the log, the plan in explain() and in an error.
    assert "sasl.jaas.config = [hidden]" in done.stdout
    assert "UNRESOLVED_COLUMN" in done.stdout
    assert done.stdout.count("Truncated plan of") >= 3
    for secret in (CANARY, WRONG):
        assert secret not in done.stdout
        for part in secret.split(";"):
            assert part not in done.stdout
        written = [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert written == []
    assert any(tmp_path.rglob("offsets/0"))


class Scope:
    """What dbutils.secrets offers: names can be listed, values read one by one."""

    def __init__(self, scopes: dict[str, dict[str, str]]) -> None:
        self.secrets = self
        self._scopes = scopes

    def list(self, scope: str):
        return [type("Metadata", (), {"key": key}) for key in self._scopes[scope]]

    def get(self, scope: str, key: str) -> str:
        return self._scopes[scope][key]


def test_credentials_come_from_a_secret_scope_by_its_name():
    keys = {name.removeprefix("SURESTART_KAFKA_").lower().replace("_", "-"): value for name, value in SASL.items()}
    secrets = SecretPlace("kafka-prod").read(dbutils=Scope({"kafka-prod": keys}))
    assert secrets.values == SecretPlace().read(environ=SASL).values
    options = kafka_options(secrets, on_databricks=True)
    assert options["kafka.sasl.jaas.config"] == (
        "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="sensor" password="{CANARY}";'
    )
    assert client_settings(secrets)["sasl.password"] == CANARY


def test_a_scope_that_cannot_be_read_is_cannot_tell_and_repeats_nothing():
    with pytest.raises(CannotTell, match="'kafka-prod' cannot be read \\(KeyError\\)"):
        SecretPlace("kafka-prod").read(dbutils=Scope({}))
    with pytest.raises(CannotTell, match="on Databricks only"):
        SecretPlace("kafka-prod").read()


def test_secrets_show_nothing_and_cannot_be_pickled():
    secrets = SecretPlace().read(environ=SASL)
    assert CANARY not in f"{secrets} {secrets!r} {SecretPlace()!r}"
    with pytest.raises(TypeError):
        pickle.dumps(secrets)


def test_no_configuration_means_no_options():
    assert kafka_options(SecretPlace().read(environ={})) == client_settings(SecretPlace().read(environ={})) == {}


def test_tls_with_a_client_certificate_is_the_same_pem_text_for_both_clients():
    values = {
        "security-protocol": "SSL",
        "ssl-ca-pem": "CA",
        "ssl-certificate-pem": "CERTIFICATE",
        "ssl-key-pem": "KEY",
    }
    assert kafka_options(Secrets(values)) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "CA",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "CERTIFICATE",
        "kafka.ssl.keystore.key": "KEY",
    }
    assert client_settings(Secrets(values)) == {
        "security.protocol": "SSL",
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "CERTIFICATE",
        "ssl.key.pem": "KEY",
    }


def test_a_quote_or_backslash_in_a_password_stays_inside_it():
    values = {
        "security-protocol": "SASL_SSL",
        "sasl-mechanism": "SCRAM-SHA-512",
        "sasl-username": "u",
        "sasl-password": 'a"; evil="\\',
    }
    assert kafka_options(Secrets(values))["kafka.sasl.jaas.config"].endswith('password="a\\"; evil=\\"\\\\";')


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"sasl-password": CANARY}, "security-protocol is not set"),
        ({"security-protocol": "sasl_ssl"}, "not one of"),
        ({"security-protocol": "SASL_SSL", "sasl-password": CANARY}, "sasl-mechanism is not set"),
        (
            {"security-protocol": "SASL_SSL", "sasl-mechanism": "PLAIN", "sasl-password": CANARY},
            "sasl-username not set",
        ),
        ({"security-protocol": "SSL", "sasl-mechanism": "PLAIN", "sasl-password": CANARY}, "does not log in"),
        ({"security-protocol": "SSL", "ssl-key-pem": CANARY}, "without the other"),
        (
            {
                "security-protocol": "SASL_SSL",
                "sasl-mechanism": "PLAIN",
                "sasl-username": "u",
                "sasl-password": f"{CANARY}\n",
            },
            "control character",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name_without_their_values(values, named):
    with pytest.raises(UsageError, match=named) as refused:
        kafka_options(Secrets(values))
    assert CANARY not in str(refused.value)
