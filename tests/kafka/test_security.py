"""Credentials reach the cluster and nothing else: no plan, log, report, traceback, declaration or checkpoint."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tarfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli.main import build_parser
from surestart.cli.plan import make_plan
from surestart.errors import CannotTell, Refused, UsageError
from surestart.facts.kafka import security as kafka_security
from surestart.facts.kafka.evidence import read_kafka_evidence
from surestart.facts.kafka.security import (
    SecretPlace,
    Secrets,
    client_settings,
    credential_options,
    kafka_options,
)
from surestart.remedies.basis.chain import read_chain
from surestart.runs.runner import StageFailed, processing_time, run_stages, run_ungated
from surestart.sources.kafka import KafkaSource
from surestart.sources.kafka_secrets import HidesSecrets, Redacted
from surestart.spark.session import applied
from tests.kafka.kafka_client import CANARY, KafkaClient, payloads, raw_stage
from tests.servers import secured_kafka
from tests.servers.secured_kafka import TlsBroker, sasl_bootstrap

WRONG = "wrong-c4nary;pa55"
SASL = {
    "SURESTART_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SURESTART_KAFKA_SASL_MECHANISM": "PLAIN",
    "SURESTART_KAFKA_SASL_USERNAME": "sensor",
    "SURESTART_KAFKA_SASL_PASSWORD": CANARY,
}


@pytest.mark.long(instead="test_no_error_of_a_stage_has_a_secret_in_it_even_where_plans_are_shown")
def test_a_password_is_in_nothing_that_a_run_prints_or_writes(broker, client, topic, tmp_path):
    client.create(topic)
    client.produce(topic, payloads(10))
    _run_and_look(sasl_bootstrap(broker), SASL, topic, tmp_path)


def test_no_error_of_a_stage_has_a_secret_in_it_even_where_plans_are_shown(
    spark, environment, broker, client, topic, monkeypatch
):
    """The second guard alone: the session shows plans, as one that refuses the setting would."""
    client.create(topic)
    for name, value in SASL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("surestart.sources.kafka.hide_plans", lambda session: None)
    with applied(spark, {"spark.sql.maxPlanStringLength": "2000000"}):
        stage = replace(raw_stage(KafkaSource(sasl_bootstrap(broker), topic)), transform=misspelt)
        shown = everything_said(error_of(lambda: stage.transform(stage.source.read_stream(spark, environment))))
        # Spark has it: without the guard there would be nothing to guard.
        assert CANARY in shown
        for error in (
            error_of(lambda: run_ungated(spark, environment, stage)),
            error_of(lambda: run_stages(spark, environment, [stage], trigger=processing_time("1 seconds"))),
        ):
            assert isinstance(error, StageFailed)
            assert "UNRESOLVED_COLUMN" in error.code
            said = everything_said(error)
            assert "***" in said
            assert [part for part in (CANARY, *CANARY.split(";")) if part in said] == []


def misspelt(records: Any) -> Any:
    return records.select("no_such_column")


def error_of(call: Any) -> BaseException:
    with pytest.raises(Exception) as raised:  # noqa: PT011  Whatever it is, its text is looked at.
        call()
    return raised.value


def everything_said(error: BaseException | None) -> str:
    """The error as any logger could print it, with all that is chained to it."""
    if error is None:
        return ""
    own = "".join(traceback.format_exception(error)) + repr(error) + repr(error.args) + repr(vars(error))
    return own + everything_said(error.__cause__) + everything_said(error.__context__)


@pytest.mark.parametrize(
    "raised",
    [UsageError(f"no {CANARY}", meaning="m", next=f"surestart doctor  # {CANARY}", code="C"), ValueError(CANARY)],
)
def test_an_error_keeps_its_kind_and_its_cause_without_the_secret(raised, monkeypatch):
    for name, value in SASL.items():
        monkeypatch.setenv(name, value)

    def fail() -> None:
        with HidesSecrets(KafkaSource("127.0.0.1:1", "t")):
            try:
                raise KeyError(CANARY)
            except KeyError as cause:
                raise raised from cause

    error = error_of(fail)
    assert CANARY not in everything_said(error)
    assert isinstance(error, UsageError | Redacted)
    assert "KeyError: '***'" in str(error.__cause__)
    if isinstance(error, UsageError):
        assert (error.what, error.meaning, str(error.next), error.code) == (
            "no ***",
            "m",
            "surestart doctor  # ***",
            "C",
        )
    # An error without a secret, and one of a stage without any, is the very same.
    plain = ValueError("nothing in it")
    with pytest.raises(ValueError, match="nothing") as same, HidesSecrets(KafkaSource("127.0.0.1:1", "t")):
        raise plain
    assert same.value is plain


def test_where_plans_cannot_be_hidden_nothing_is_read_with_secrets(spark, environment, broker, topic, monkeypatch):
    for name, value in SASL.items():
        monkeypatch.setenv(name, value)
    # A setting that this session refuses to change, as serverless compute refuses the real one.
    monkeypatch.setattr(kafka_security, "_PLAN_LENGTH", "spark.sql.warehouse.dir")
    stage = raw_stage(KafkaSource(sasl_bootstrap(broker), topic))
    with pytest.raises(Refused, match="cannot be set to 0") as refused:
        run_ungated(spark, environment, stage)
    assert refused.value.code == "KafkaPlansNotHidden"
    for name in SASL:
        monkeypatch.delenv(name)
    # Without secrets there is nothing to hide.
    stage.source.read_stream(spark, environment)


def test_a_remedy_that_such_a_session_could_not_start_is_not_planned(spark, environment, monkeypatch):
    """Before anything is asked, paused or cleared."""
    for name, value in SASL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(kafka_security, "_PLAN_LENGTH", "spark.sql.warehouse.dir")
    settings = {"source": "kafka", "bootstrap": "127.0.0.1:1"}
    arguments = build_parser("plan").parse_args(["plan", "reset", "raw-ingest"])
    with pytest.raises(Refused) as refused:
        make_plan(spark, environment, read_chain(environment, build_stages(settings)), arguments, settings)
    assert refused.value.code == "KafkaPlansNotHidden"
    assert "service_credential" in str(refused.value.next)


def test_a_service_credential_is_passed_by_name_and_takes_the_place_of_every_secret(monkeypatch):
    """No workspace is at hand: what Spark's source is given, and who else refuses, is all that can be seen."""
    for name, value in SASL.items():
        monkeypatch.setenv(name, value)
    (raw, *_) = build_stages({"source": "kafka", "bootstrap": "b:9092", "service_credential": "kafka-prod"})
    place = raw.source.security
    assert credential_options(place, on_databricks=True) == {"databricks.serviceCredential": "kafka-prod"}
    assert credential_options(SecretPlace(), on_databricks=False) == {}
    assert (kafka_options(place.read(), on_databricks=True), place.describe()) == ({}, "service credential kafka-prod")
    with pytest.raises(UsageError, match="known to Databricks only"):
        credential_options(place, on_databricks=False)
    with pytest.raises(CannotTell, match="only Spark can log in") as untold:
        raw.source.read_evidence()
    assert "--accept KAFKA_OUT_OF_REACH" in str(untold.value.next)
    with pytest.raises(UsageError) as refused:
        SecretPlace(service_credential=f"user:{CANARY}")
    assert CANARY not in str(refused.value)


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


def test_a_certificate_that_is_none_is_named_and_nothing_is_asked(monkeypatch):
    monkeypatch.setenv("SURESTART_KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("SURESTART_KAFKA_SSL_CA_PEM", "/etc/ssl/ca.pem")
    with pytest.raises(UsageError, match=r"ssl\.ca\.pem: not in PEM format") as refused:
        read_kafka_evidence("127.0.0.1:1", "t")
    assert "environment variables SURESTART_KAFKA_*" in refused.value.what


@pytest.mark.chaos
def test_a_client_shows_its_certificate_where_the_broker_wants_one(topic, tmp_path):
    certificate, key = _client_certificate()
    with secured_kafka.tls_broker(certificate) as broker:
        client = KafkaClient(broker.bootstrap)
        client.allow_scram("sensor", CANARY)
        client.create(topic)
        client.produce(topic, payloads(10))
        without = _over_tls(broker)
        shown = {"SURESTART_KAFKA_SSL_CERTIFICATE_PEM": certificate, "SURESTART_KAFKA_SSL_KEY_PEM": key}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in without.items():
                patch.setenv(name, value)
            with pytest.raises(CannotTell, match=r"bad certificate|certificate required"):
                read_kafka_evidence(broker.tls_bootstrap, topic, timeout_seconds=5)
        _run_and_look(broker.tls_bootstrap, {**without, **shown}, topic, tmp_path, key)


def _client_certificate() -> tuple[str, str]:
    """A certificate that signs itself, and its key in PKCS#8, both as PEM."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sensor")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key.private_bytes(*plain).decode()


def _over_tls(broker: TlsBroker) -> dict[str, str]:
    return {
        **SASL,
        "SURESTART_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "SURESTART_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "SURESTART_KAFKA_SSL_CA_PEM": broker.certificate.pem,
    }


def _run_and_look(bootstrap: str, variables: dict[str, str], topic: str, tmp_path: Path, key: str = "") -> None:
    command = [sys.executable, "-m", "tests.kafka.secret_run"]
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
    # Nothing stands in the way of a start, a reset can be planned, and both have been written.
    assert [line for line in done.stdout.splitlines() if line.startswith("COMMAND")] == [
        "COMMAND doctor ENDED 0",
        "COMMAND doctor ENDED 0",
        "COMMAND plan ENDED 0",
        "COMMAND plan ENDED 0",
        "COMMAND history ENDED 0",
    ]
    for name in ("doctor.html", "plan.json", "plan.html"):
        assert topic in (tmp_path / name).read_text()
    (bundle,) = (tmp_path / "bundle").iterdir()
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert any(topic in path.read_text() for path in (tmp_path / "unpacked").rglob("doctor.json"))
    for secret in (CANARY, WRONG):
        assert secret not in done.stdout
        for part in secret.split(";"):
            assert part not in done.stdout
        written = [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert written == []
    for line in key.splitlines()[1:-1]:
        assert line not in done.stdout
        written = [path for path in tmp_path.rglob("*") if path.is_file() and line.encode() in path.read_bytes()]
        assert written == []
    assert any(tmp_path.rglob("offsets/0"))


class Scope:
    """What dbutils.secrets offers: names can be listed, values read one by one."""

    def __init__(self, scopes: dict[str, dict[str, str]]) -> None:
        self.secrets = self
        self._scopes = scopes

    def list(self, scope: str) -> Any:
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


def test_redaction_knows_the_spellings_of_a_password_and_every_line_of_a_key():
    secrets = Secrets({"sasl-password": 'p"w\\d/1', "ssl-key-pem": "-----BEGIN PRIVATE KEY-----\nMIGH\nAgEA\n-----END"})
    jaas = kafka_options(
        Secrets({**secrets.values, "security-protocol": "SASL_SSL", "sasl-mechanism": "PLAIN", "sasl-username": "u",
                 "ssl-certificate-pem": "c"})
    )["kafka.sasl.jaas.config"]  # fmt: skip
    assert secrets.redact(jaas).endswith('required username="u" password="***";')
    assert secrets.redact(f"{secrets.values['sasl-password']} {secrets.values['sasl-password']!r}") == "*** '***'"
    assert secrets.redact("p%22w%5Cd%2F1, then MIGH\\nAgEA") == "***, then ***\\n***"
    assert Secrets({}).redact("nothing to hide") == "nothing to hide"


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
