"""What the local broker is told: its properties, its log, its ports, its storage.

listeners   PLAINTEXT and CONTROLLER, and what else it is given; all on 127.0.0.1
one of everything   one node, one replica, one partition for Kafka's own topics: it starts in seconds
automatic creation of topics on, as on most clusters: a tool that merely asks about a topic must not make it
"""

from __future__ import annotations

import random
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from surestart.errors import CannotTell
from surestart.spark.java import Java
from surestart.typed import surestart, typed

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
    controller: int


@dataclass(frozen=True)
class Listener:
    """A further listener, on 127.0.0.1.

    protocol: as Kafka calls it.
    properties: lines of server.properties."""

    protocol: str
    port: int
    properties: str = field(repr=False)


def free_ports(plain: int = 0, but: Collection[int] = ()) -> Ports:
    """Two ports that nothing listens on now; `plain` as given if it is. but: ports meant for something else."""
    chosen: list[int] = []
    for port in (plain, *random.sample(_PORTS, 200)):
        if port and port not in (*chosen, *but) and _is_free(port):
            chosen.append(port)
        if len(chosen) == 2:
            return Ports(*chosen)
    raise CannotTell(
        f"fewer than two free ports among 200 tried between {_PORTS.start} and {_PORTS.stop}",
        meaning="The broker has nowhere to listen.",
        next=typed("ss", "-ltn"),
        code="NoFreePort",
    )


def are_free(ports: Ports) -> bool:
    return all(_is_free(port) for port in (ports.plain, ports.controller))


def write_configuration(folder: Path, ports: Ports, others: Sequence[Listener] = ()) -> None:
    """server.properties and log4j2.properties are in the folder, readable for their owner only."""
    listeners = [f"PLAINTEXT://127.0.0.1:{ports.plain}", f"CONTROLLER://127.0.0.1:{ports.controller}"]
    listeners += [f"{one.protocol}://127.0.0.1:{one.port}" for one in others]
    text = _PROPERTIES.format(controller=ports.controller, listeners=",".join(listeners), data=folder / "data")
    properties = folder / "server.properties"
    properties.touch(mode=0o600)
    properties.write_text(text + "".join(one.properties for one in others))
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
            next=surestart("kafka", "start"),
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
