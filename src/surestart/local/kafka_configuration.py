"""What the local broker is told: its properties, its log, its ports, its storage.

listeners   PLAINTEXT and CONTROLLER; with users SASL_PLAINTEXT (PLAIN); with a certificate SASL_SSL (SCRAM-SHA-512);
            all on 127.0.0.1; with a client authority SASL_SSL wants a certificate of the client as well
one of everything   one node, one replica, one partition for Kafka's own topics: it starts in seconds
automatic creation of topics on, as on most clusters: a tool that merely asks about a topic must not make it
"""

from __future__ import annotations

import random
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from surestart.errors import CannotTell
from surestart.local.kafka_certificate import BrokerCertificate
from surestart.spark.java import Java

# Below 32768, where the system takes ports for outgoing connections: a broker that is down for a second must find its
# own port free when it comes back.
_PORTS = range(20_000, 32_000)

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners={listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
num.network.threads=2
num.io.threads=2
background.threads=2
log.cleaner.dedupe.buffer.size=8388608
"""
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
_LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.stdout.ref=stdout
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d %p %m (%c{1})%n
"""


@dataclass(frozen=True)
class Ports:
    plain: int
    sasl: int
    controller: int
    tls: int = 0


def free_ports(plain: int = 0) -> Ports:
    """Four ports that nothing listens on now; `plain` as given if it is."""
    chosen: list[int] = []
    for port in (plain, *random.sample(_PORTS, 200)):
        if port and port not in chosen and _is_free(port):
            chosen.append(port)
        if len(chosen) == 4:
            return Ports(*chosen)
    raise CannotTell(
        f"fewer than four free ports among 200 tried between {_PORTS.start} and {_PORTS.stop}",
        meaning="The broker has nowhere to listen.",
        next="ss -ltn",
        code="NoFreePort",
    )


def are_free(ports: Ports) -> bool:
    return all(_is_free(port) for port in (ports.plain, ports.sasl, ports.controller, ports.tls) if port)


def write_configuration(
    folder: Path,
    ports: Ports,
    users: Mapping[str, str],
    certificate: BrokerCertificate | None = None,
    client_authority: str = "",
) -> None:
    """server.properties and log4j2.properties are in the folder, readable for their owner only. client_authority: PEM
    of who has to have signed the certificate that a client of the TLS listener shows."""
    listeners = [f"PLAINTEXT://127.0.0.1:{ports.plain}", f"CONTROLLER://127.0.0.1:{ports.controller}"]
    text = ""
    if users:
        listeners.append(f"SASL_PLAINTEXT://127.0.0.1:{ports.sasl}")
        text = _SASL.format(users=" ".join(f'user_{name}="{password}"' for name, password in users.items()))
    if certificate:
        listeners.append(f"SASL_SSL://127.0.0.1:{ports.tls}")
        text += _TLS.format(certificate=certificate)
    if client_authority:
        text += _CLIENTS.format(authority=client_authority.replace("\n", "\\n"))
    properties = folder / "server.properties"
    properties.touch(mode=0o600)
    properties.write_text(
        _PROPERTIES.format(controller=ports.controller, listeners=",".join(listeners), data=folder / "data") + text
    )
    (folder / "log4j2.properties").write_text(_LOGGING)


def format_storage(java: Java, jars: Path, folder: Path) -> None:
    """The data folder belongs to a cluster; one that already does is left as it is."""
    if (folder / "data" / "meta.properties").exists():
        return
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    command = [
        *_java(java, jars, folder),
        "kafka.tools.StorageTool",
        # A cluster id may begin with '-', which the tool would take for an option.
        *("format", f"--cluster-id={cluster}", "-c", str(folder / "server.properties")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise CannotTell(
            f"formatting {folder / 'data'} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}",
            meaning="The broker's storage is not ready, so it was not started.",
            next="surestart kafka start",
            code="KafkaNotFormatted",
        )


def server_command(java: Java, jars: Path, folder: Path) -> list[str]:
    return [*_java(java, jars, folder), "kafka.Kafka", str(folder / "server.properties")]


def _java(java: Java, jars: Path, folder: Path) -> list[str]:
    return [
        *(str(java.executable), *java.options),
        # A short life on few cores: the fast compiler only, one thread to collect garbage.
        *("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"),
        f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}",
        *("-cp", str(jars / "*")),
    ]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Kafka binds: a port whose old connections are still in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
