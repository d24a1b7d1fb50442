"""A Spark standalone master and workers on 127.0.0.1, from the pip-installed pyspark.

master (spark://127.0.0.1:PORT)
├── worker ── executors (children in the worker's session, which is what `lose` kills)
└── worker ── executors
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surestart.failpoints import session_members
from surestart.spark.java import find_java, launcher_home
from tests.servers.free_port import free_port

SECONDS_TO_START = 60


@dataclass
class Cluster:
    folder: Path
    port: int
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def add_worker(self, *, wait: bool = True) -> None:
        """One more worker with one core has registered, or is about to."""
        number = len(list(self.folder.glob("worker-*.log")))
        log = self.folder / f"worker-{number}.log"
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        work = ["--work-dir", str(self.folder / f"work-{number}")]
        self.workers.append(_start(log, "org.apache.spark.deploy.worker.Worker", *options, *work, self.url))
        if wait:
            _wait_for_text(log, "Successfully registered with master", self.workers[-1])

    def executors_of(self, worker: subprocess.Popen[bytes]) -> list[int]:
        return [pid for pid in session_members(worker.pid) if pid != worker.pid]

    def lose(self, worker: subprocess.Popen[bytes]) -> None:
        """The worker and its executors are dead at once, as if the machine had lost power."""
        for pid in (worker.pid, *self.executors_of(worker)):
            os.kill(pid, signal.SIGKILL)
        worker.wait()
        self.workers.remove(worker)


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    port = free_port()
    log = folder / "master.log"
    master = _start(
        log,
        "org.apache.spark.deploy.master.Master",
        *("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
    )
    cluster = Cluster(folder, port, master)
    try:
        _wait_for_text(log, "New state: ALIVE", master)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in (*cluster.workers, master):
            for pid in session_members(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()


def _start(log: Path, main_class: str, *words: str) -> subprocess.Popen[bytes]:
    home = Path(str(importlib.util.find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
    variables = {
        **os.environ,
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(home),
        # The web pages, too, are bound to this address and not to every one.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        # Spark's own log4j defaults: the words that say a daemon is up are at level INFO.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    with log.open("w") as output:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), main_class, *words],
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )


def _wait_for_text(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        if text in log.read_text(errors="replace"):
            return
        # Another process is starting; its log is all there is to look at.
        time.sleep(0.1)
    raise RuntimeError(f"{text!r} never came:\n{log.read_text(errors='replace')[-3000:]}")
