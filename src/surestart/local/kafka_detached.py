"""A real single-node Kafka broker (KRaft, broker and controller in one JVM) on 127.0.0.1, without Docker. It stays up
between commands: started, stopped and found again through one folder.

    surestart kafka start   ──>  <folder>/broker.json {"pid", "ports"}  ──>  surestart kafka status | stop

    <folder>/
        server.properties   written at each start
        log4j2.properties   the broker's log goes to server.log, warnings and the line that says it is up
        data/               topics and offsets; kept from one start to the next unless the folder is thrown away
        broker.json         pid and ports; pid 0 once it was stopped
        server.log

Automatic creation of topics stays on, as on most clusters: a tool that merely asks about a topic must not make it. Its
topics outlive a stop: an empty topic under the same name would look to a checkpoint like lost records.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from surestart.errors import CannotTell, UsageError
from surestart.local.kafka_configuration import (
    Ports,
    are_free,
    format_storage,
    free_ports,
    server_command,
    write_configuration,
)
from surestart.local.kafka_jars import resolve_kafka_jars
from surestart.spark.java import Java, find_java
from surestart.typed import Verbatim, surestart, typed

_UP = b"Kafka Server started"


@dataclass(frozen=True)
class DetachedBroker:
    folder: Path
    pid: int
    bootstrap: str

    @property
    def running(self) -> bool:
        return is_broker(self.pid, self.folder)


def read_detached(folder: Path) -> DetachedBroker | None:
    """The broker of this folder, running or not; None when none was ever started there."""
    state = _read_state(folder)
    return None if state is None else DetachedBroker(folder, state[0], f"127.0.0.1:{state[1].plain}")


def start_detached(folder: Path, port: int = 0, say: Callable[[str], object] = lambda line: None) -> DetachedBroker:
    """The broker of this folder answers, on its former port where that is free; a running one is left alone."""
    folder = folder.absolute()
    found = read_detached(folder)
    if found and found.running:
        if port and not found.bootstrap.endswith(f":{port}"):
            raise UsageError(
                f"the broker of {folder} runs on {found.bootstrap}, not on port {port}",
                meaning="A broker cannot change its port while it runs. It was left alone.",
                next=surestart("kafka", "stop", "--dir", folder),
            )
        return found
    java = find_java()
    jars = resolve_kafka_jars(java, say)
    folder.mkdir(parents=True, exist_ok=True)
    former = _read_state(folder)
    ports = former[1] if former and not port and are_free(former[1]) else free_ports(port)
    if port and ports.plain != port:
        raise UsageError(
            f"port {port} of 127.0.0.1 is in use",
            meaning="Another program listens there. No broker was started.",
            next=surestart("kafka", "start"),
        )
    write_configuration(folder, ports)
    format_storage(java, jars, folder)
    begin = size_of_log(folder)
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            server_command(java, jars, folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # Before it is up: whoever interrupts the wait can still stop what was started.
    _write_state(folder, process.pid, ports)
    wait_for_start(folder, process.pid, begin, 120)
    return DetachedBroker(folder, process.pid, f"127.0.0.1:{ports.plain}")


def stop_detached(folder: Path, *, remove: bool = False) -> DetachedBroker | None:
    """No broker of this folder runs any more. remove: its topics are gone too."""
    folder = folder.absolute()
    found = read_detached(folder)
    if found is None:
        return None
    if found.running:
        os.kill(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while found.running and time.monotonic() < deadline:
            _reap(found.pid)
            time.sleep(0.05)
        if found.running:
            os.kill(found.pid, signal.SIGKILL)
    state = _read_state(folder)
    assert state is not None
    _write_state(folder, 0, state[1])
    if remove:
        shutil.rmtree(folder)
    return found


def _reap(pid: int) -> None:
    """A broker started by this very process stays a zombie until someone waits for it."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _read_state(folder: Path) -> tuple[int, Ports] | None:
    try:
        found = json.loads((folder / "broker.json").read_text())
        return int(found["pid"]), Ports(found["ports"]["plain"], found["ports"]["controller"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / 'broker.json'} is not what `surestart kafka start` writes: {error}",
            meaning="Which process is the broker, and where it listens, is not known.",
            next=typed(Verbatim("ps -ef | grep"), folder / "server.properties"),
            do_not="delete the folder while the broker may be running.",
        ) from error


def _write_state(folder: Path, pid: int, ports: Ports) -> None:
    draft = folder / f".broker.json.{os.getpid()}"
    draft.write_text(json.dumps({"pid": pid, "ports": asdict(ports)}))
    draft.replace(folder / "broker.json")


def run_kafka_tool(java: Java, jars: Path, main_class: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(java.executable), *java.options, "-cp", str(jars / "*"), main_class, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def size_of_log(folder: Path) -> int:
    """How much of the log is from former starts; the file is there afterwards."""
    log = folder / "server.log"
    log.touch()
    return log.stat().st_size


def wait_for_start(folder: Path, pid: int, begin: int, timeout_seconds: float) -> None:
    """Returns once the log, from `begin` on, says that the broker is up; raises when it ended or took too long."""
    log = folder / "server.log"
    begun = last_seen = time.monotonic()
    while _UP not in log.read_bytes()[begin:]:
        now = time.monotonic()
        if is_broker(pid, folder):
            last_seen = now
        # For a moment of its start a process shows no command line.
        alive = now - last_seen < 1
        if alive and now - begun < timeout_seconds:
            time.sleep(0.05)
            continue
        raise CannotTell(
            f"the Kafka broker {f'took more than {timeout_seconds:.0f} s' if alive else 'ended while it started'}; "
            "its log ends:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]),
            meaning="There is no local broker. Nothing was read from it or written to it.",
            next=surestart("kafka", "start"),
            do_not=f"delete {folder / 'data'} to get it going: the topics in it go too.",
            code="KafkaNotStarted",
        )


def is_broker(pid: int, folder: Path) -> bool:
    """Whether the process is alive and the broker of this folder: a pid of a former boot may be another program now."""
    if pid <= 0:
        return False
    described = Path(f"/proc/{pid}/cmdline")
    if described.parent.parent.joinpath("self").exists():
        try:
            line = described.read_bytes().decode(errors="replace")
        except OSError:
            return False
    else:
        shown = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
        line = shown.stdout
    return str(folder / "server.properties") in line
