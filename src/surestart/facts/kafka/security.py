"""Where the secrets of a Kafka cluster or a schema registry are kept, and, for a moment, the secrets themselves.

    SecretPlace (frozen, only names)        Secrets (values, never printed, pickled or stored)
    scope "kafka-prod"  ── dbutils.secrets ──┐
    environment         ── SURESTART_… ──────┴──> kafka_options(...)    for Spark's Kafka source
                                             └──> client_settings(...)  for confluent-kafka

    key in the scope      variable                          example
    security-protocol     SURESTART_KAFKA_SECURITY_PROTOCOL SASL_SSL
    sasl-mechanism        SURESTART_KAFKA_SASL_MECHANISM    PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512
    sasl-username         SURESTART_KAFKA_SASL_USERNAME
    sasl-password         SURESTART_KAFKA_SASL_PASSWORD
    ssl-ca-pem            SURESTART_KAFKA_SSL_CA_PEM        the certificates themselves, in PEM
    ssl-certificate-pem   SURESTART_KAFKA_SSL_CERTIFICATE_PEM
    ssl-key-pem           SURESTART_KAFKA_SSL_KEY_PEM       PKCS#8, not encrypted: the place keeps it secret

On Databricks a Unity Catalog service credential takes the place of all of these: Spark's source is given its name, and
there is no password that a plan could show. Nothing else can log in with it.

PEM text instead of key stores: Java and librdkafka both read it, and no file has to lie on every executor.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import quote

from surestart.errors import CannotTell, Refused, UsageError
from surestart.library_types import SparkSession
from surestart.spark.session import runs_on_databricks
from surestart.typed import surestart, typed
from surestart.words.spark_errors import condition_of

KAFKA_KEYS = (
    "security-protocol",
    "sasl-mechanism",
    "sasl-username",
    "sasl-password",
    "ssl-ca-pem",
    "ssl-certificate-pem",
    "ssl-key-pem",
)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CREDENTIAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class SecretPlace:
    """Names only: safe in a plan, a declaration, a log. scope "" means environment variables; where service_credential
    is given, neither is read."""

    scope: str = ""
    prefix: str = "SURESTART_KAFKA_"
    service_credential: str = ""

    def __post_init__(self) -> None:
        if self.service_credential and not _CREDENTIAL.fullmatch(self.service_credential):
            # Not repeated: somebody may have pasted a password.
            raise _unusable("service_credential is not the name of one: letters, digits, '_', '-' and '.'")

    def describe(self) -> str:
        if self.service_credential:
            return f"service credential {self.service_credential}"
        return f"secret scope {self.scope}" if self.scope else f"environment variables {self.prefix}*"

    def read(
        self, keys: tuple[str, ...] = KAFKA_KEYS, *, environ: Mapping[str, str] | None = None, dbutils: Any = None
    ) -> Secrets:
        """The values that are there; a key that is not set is left out."""
        if self.service_credential:
            return Secrets({})
        if not self.scope:
            variables = os.environ if environ is None else environ
            found = {key: variables.get(self.prefix + key.upper().replace("-", "_"), "") for key in keys}
        else:
            found = _read_scope(self.scope, keys, dbutils)
        return Secrets({key: value for key, value in found.items() if value})


@dataclass(frozen=True)
class Secrets:
    """Lives as long as the call that needs it."""

    values: Mapping[str, str] = field(repr=False)

    def redact(self, text: str) -> str:
        """The text without any spelling of the password or the private key."""
        for part in sorted(self._parts(), key=len, reverse=True):
            text = text.replace(part, "***")
        return text

    def _parts(self) -> set[str]:
        password, key = self.values.get("sasl-password", ""), self.values.get("ssl-key-pem", "")
        # A key is quoted line by line too; the marks around it are in every key.
        lines = {line for line in key.splitlines() if line and not line.startswith("-----")}
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        plain = (password, escaped, key)
        written = {*plain, *(json.dumps(one)[1:-1] for one in plain), *(repr(one)[1:-1] for one in plain)}
        return {part for part in written | lines | {quote(password, safe="")} if part}

    def __str__(self) -> str:
        return f"Secrets({len(self.values)} hidden)"

    __repr__ = __str__

    def __reduce__(self) -> NoReturn:
        # A pickled one would travel into checkpoints, plans and worker processes.
        raise TypeError("secrets are not to be pickled; pickle their SecretPlace")


def kafka_options(secrets: Secrets, *, on_databricks: bool = False) -> dict[str, str]:
    """Options for Spark's Kafka source; empty when nothing is configured."""
    values = _checked(secrets.values)
    options: dict[str, str] = {}
    if "security-protocol" in values:
        options["kafka.security.protocol"] = values["security-protocol"]
    if "sasl-mechanism" in values:
        module = _LOGIN_MODULES[values["sasl-mechanism"]]
        # Databricks moved Kafka's own classes into a package of its own.
        module = f"kafkashaded.{module}" if on_databricks else module
        user, password = _quoted(values.get("sasl-username", "")), _quoted(values.get("sasl-password", ""))
        options["kafka.sasl.mechanism"] = values["sasl-mechanism"]
        options["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
    if "ssl-ca-pem" in values:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": values["ssl-ca-pem"]}
    if "ssl-certificate-pem" in values:
        options |= {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": values["ssl-certificate-pem"],
            "kafka.ssl.keystore.key": values["ssl-key-pem"],
        }
    return options


def credential_options(place: SecretPlace, *, on_databricks: bool) -> dict[str, str]:
    """The option of Databricks' own Kafka source, from runtime 16.1 on; empty where no service credential is named."""
    if place.service_credential and not on_databricks:
        raise _unusable(
            f"{place.describe()} is known to Databricks only, and this is another Spark: it would log in as nobody"
        )
    return {"databricks.serviceCredential": place.service_credential} if place.service_credential else {}


_PLAN_LENGTH = "spark.sql.maxPlanStringLength"


def hide_plans(spark: SparkSession) -> None:
    """Plans that this session prints from now on, in explain() and in error messages, are cut off before their text.

    Spark hides a source's secrets in a plan, but not in the copy of the options that the plan keeps for the older
    source interface: a misspelt column after this source puts the password into the traceback. Spark's own redaction
    works in explain() only. Measured on Spark 4.0.5: docs/decisions/0008-kafka-secrets-in-plans.md.
    Where it cannot be set, nothing is read with secrets: what Spark prints afterwards is out of anybody's hands.
    """
    from pyspark.errors import PySparkException

    try:
        spark.conf.set(_PLAN_LENGTH, "0")
        held = spark.conf.get(_PLAN_LENGTH)
    except PySparkException as error:
        held = f"refused: {condition_of(error) or type(error).__name__}"
    if held != "0":
        raise Refused(
            f"{_PLAN_LENGTH} cannot be set to 0 in this session ({held}), and the Kafka source has credentials",
            meaning="Spark would print the password with the plan, into logs and tracebacks. Nothing was read.",
            next=surestart(
                "run",
                "raw-ingest",
                "--set",
                "secret_scope=",
                "--set",
                "service_credential=kafka-prod",
                note="the name of a Unity Catalog service credential, which has no password; "
                "or run it as before on a job cluster",
            ),
            do_not="take the password out of its place and put it elsewhere: the plan shows it wherever it came from.",
            code="KafkaPlansNotHidden",
        )


def client_settings(secrets: Secrets) -> dict[str, str]:
    """Settings for confluent-kafka (librdkafka); empty when nothing is configured."""
    names = {
        "security-protocol": "security.protocol",
        "sasl-mechanism": "sasl.mechanism",
        "sasl-username": "sasl.username",
        "sasl-password": "sasl.password",
        "ssl-ca-pem": "ssl.ca.pem",
        "ssl-certificate-pem": "ssl.certificate.pem",
        "ssl-key-pem": "ssl.key.pem",
    }
    return {names[key]: value for key, value in _checked(secrets.values).items()}


def refused_settings(problem: Exception, place: SecretPlace) -> UsageError:
    """The client was given settings that it cannot use, a certificate that is none for example; nothing was asked."""
    return _unusable(f"{place.read().redact(problem.args[0].str())} ({place.describe()})")


def _checked(values: Mapping[str, str]) -> Mapping[str, str]:
    """Names what is missing or unknown; never a value except protocol and mechanism, which are no secrets."""
    protocol = values.get("security-protocol", "")
    mechanism = values.get("sasl-mechanism", "")
    if values and protocol not in _PROTOCOLS:
        raise _unusable(f"security-protocol is {protocol or 'not set'}, not one of {', '.join(_PROTOCOLS)}")
    if protocol.startswith("SASL"):
        if mechanism not in _LOGIN_MODULES:
            raise _unusable(f"sasl-mechanism is {mechanism or 'not set'}, not one of {', '.join(_LOGIN_MODULES)}")
        missing = [key for key in ("sasl-username", "sasl-password") if key not in values]
        if missing:
            raise _unusable(f"{' and '.join(missing)} not set, and {protocol} needs them")
    elif mechanism:
        raise _unusable(f"sasl-mechanism is {mechanism}, but security-protocol {protocol} does not log in")
    if ("ssl-certificate-pem" in values) != ("ssl-key-pem" in values):
        raise _unusable("one of ssl-certificate-pem and ssl-key-pem is set without the other")
    return values


def _quoted(value: str) -> str:
    if any(ord(character) < 32 for character in value):
        raise _unusable("sasl-username or sasl-password contains a control character, a line break for example")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read_scope(scope: str, keys: tuple[str, ...], dbutils: Any) -> dict[str, str]:
    if dbutils is None and not runs_on_databricks():
        raise CannotTell(
            f"secret scope {scope!r} can be read on Databricks only, and this is not a Databricks cluster",
            meaning="The credentials are not at hand, so nothing was connected.",
            next=surestart(
                "run", "raw-ingest", "--set", "secret_scope=", note="with SURESTART_KAFKA_* variables instead"
            ),
            code="SecretsOutOfReach",
        )
    if dbutils is None:
        from databricks.sdk.runtime import dbutils
    try:
        present = {entry.key for entry in dbutils.secrets.list(scope)}
    except Exception as error:  # noqa: BLE001  Databricks raises its JVM's error, which has no class here.
        raise CannotTell(
            f"secret scope {scope!r} cannot be read ({type(error).__name__})",
            meaning="It does not exist, or whoever runs this may not read it.",
            next=typed("databricks", "secrets", "list-secrets", scope),
            do_not="put the password into a job parameter or a cluster's environment: others can read those.",
            code="SecretsOutOfReach",
        ) from None
    return {key: dbutils.secrets.get(scope, key) for key in keys if key in present}


def _unusable(what: str) -> UsageError:
    return UsageError(
        f"Kafka security settings do not fit together: {what}",
        meaning="The cluster would refuse the connection, or the connection would not be what was meant.",
        next=surestart("run", "raw-ingest", note="after setting the keys listed in docs/kafka.md"),
        do_not="put a secret on the command line or into databricks.yml: both are kept where others can read them.",
        code="KafkaSecurity",
    )
