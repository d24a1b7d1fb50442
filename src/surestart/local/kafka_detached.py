"""A local broker that stays up between commands: started, stopped and found again through one folder.

    surestart kafka start   ──>  <folder>/broker.json {"pid", "ports"}  ──>  surestart kafka status | stop

Its topics outlive a stop: an empty topic under the same name would look to a checkpoint like lost records.
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

from surestart.errors import UsageError
from surestart.local.kafka_broker import is_broker, size_of_log, wait_for_start
from surestart.local.kafka_configuration import (
    Ports,
    are_free,
    format_storage,
    free_ports,
    server_command,
    write_configuration,
)
from surestart.local.kafka_jars import resolve_kafka_jars
from surestart.spark.java import find_java
from surestart.typed import Verbatim, surestart, typed


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
