"""The local broker with listeners that let nobody in without a password: SASL/PLAIN, and SCRAM-SHA-512 inside TLS.

The key and the certificate of the TLS listener are made by the JDK's own keytool. The certificate signs itself and
names 127.0.0.1 and localhost, so a client checks the host name as it would elsewhere.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surestart.local.kafka_configuration import Listener, free_ports
from surestart.spark.java import Java, find_java
from tests.servers.kafka_broker import KafkaBroker, kafka_broker

_PASSWORD = "SURESTART_KEYSTORE_PASSWORD"
_SASL = """\
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required {users};
"""
_TLS = """\
listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\\
  org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.ssl.keystore.type=PKCS12
listener.name.sasl_ssl.ssl.keystore.location={certificate.keystore}
listener.name.sasl_ssl.ssl.keystore.password={certificate.password}
listener.name.sasl_ssl.ssl.key.password={certificate.password}
"""
_CLIENTS = """\
listener.name.sasl_ssl.ssl.client.auth=required
listener.name.sasl_ssl.ssl.truststore.type=PEM
listener.name.sasl_ssl.ssl.truststore.certificates={authority}
"""


@dataclass(frozen=True)
class BrokerCertificate:
    """pem: what a client has to trust."""

    keystore: Path
    password: str = field(repr=False)
    pem: str = field(repr=False)


@dataclass(frozen=True)
class TlsBroker:
    """tls_bootstrap: its listener that wants TLS, and inside it SCRAM-SHA-512 and a user that the cluster knows."""

    broker: KafkaBroker
    tls_bootstrap: str
    certificate: BrokerCertificate

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap


def sasl_listener(users: Mapping[str, str]) -> Listener:
    """On a free port. users: name and password, who may come in by SASL/PLAIN."""
    named = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return Listener("SASL_PLAINTEXT", free_ports().plain, _SASL.format(users=named))


def sasl_bootstrap(broker: KafkaBroker) -> str:
    """The listener that wants SASL/PLAIN, of a broker that has no other one more."""
    return f"127.0.0.1:{broker.others[0].port}"


@contextmanager
def tls_broker(client_authority: str = "") -> Iterator[TlsBroker]:
    """A broker that also listens with TLS and a certificate of its own; with a client_authority (PEM) it lets in only
    who shows a certificate that this authority has signed."""
    with tempfile.TemporaryDirectory(prefix="surestart-kafka-tls-") as folder:
        certificate = make_certificate(find_java(), Path(folder))
        clients = _CLIENTS.format(authority=client_authority.replace("\n", "\\n")) if client_authority else ""
        listener = Listener("SASL_SSL", free_ports().plain, _TLS.format(certificate=certificate) + clients)
        with kafka_broker([listener]) as broker:
            yield TlsBroker(broker, f"127.0.0.1:{listener.port}", certificate)


def make_certificate(java: Java, folder: Path) -> BrokerCertificate:
    """A new key and certificate are in the folder."""
    keystore, password = folder / "keystore.p12", secrets.token_urlsafe(18)
    shared = ("-alias", "broker", "-keystore", str(keystore), "-storetype", "PKCS12", "-storepass:env", _PASSWORD)
    _keytool(
        *(java, password, "-genkeypair", *shared, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"),
        *("-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost"),
    )
    return BrokerCertificate(keystore, password, _keytool(java, password, "-exportcert", "-rfc", *shared))


def _keytool(java: Java, password: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(_find_keytool(java)), *arguments],
        env={**os.environ, _PASSWORD: password},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _find_keytool(java: Java) -> Path:
    """Beside the Java that really runs: the one that is found may be a launcher, such as that of a Spark session."""
    asked = [str(java.executable), "-XshowSettings:properties", "-version"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stderr
    home = re.search(r"java\.home = (.+)", told)
    assert home, told
    return Path(home[1].strip()) / "bin" / "keytool"
