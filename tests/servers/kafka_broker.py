"""A broker for the length of a test, gone with the process that started it, whatever ends that one: a small shell waits
on a pipe that only the parent holds open, and at its end kills the broker and removes the folder. SIGKILL of the parent
closes the pipe as well. surestart's own local broker is one that stays (surestart.local.kafka_detached)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surestart.errors import CannotTell
from surestart.local.kafka_configuration import (
    Listener,
    Ports,
    format_storage,
    free_ports,
    server_command,
    write_configuration,
)
from surestart.local.kafka_detached import run_kafka_tool, size_of_log, wait_for_start
from surestart.local.kafka_jars import resolve_kafka_jars
from surestart.spark.java import Java, find_java
from surestart.typed import surestart

# Its arguments are the broker's command. A word on the pipe: the parent wants the broker dead and the data kept, for
# another start. The end of the pipe without a word: the parent is gone.
_GUARD = """
"$@" >>"$KAFKA_FOLDER/server.log" 2>&1 </dev/null &
broker=$!
echo $broker >"$KAFKA_FOLDER/pid.draft" && mv "$KAFKA_FOLDER/pid.draft" "$KAFKA_FOLDER/pid"
read -r word
kill -9 $broker 2>/dev/null
wait $broker 2>/dev/null
[ -n "$word" ] || rm -rf "$KAFKA_FOLDER"
"""


@dataclass
class KafkaBroker:
    """A broker that can be killed and started again on the same ports and data, as a machine that lost power."""

    folder: Path
    ports: Ports
    java: Java
    jars: Path
    others: Sequence[Listener] = ()
    pid: int = 0
    _guard: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports.plain}"

    def start(self, timeout_seconds: float = 120) -> None:
        """The broker answers when this returns."""
        write_configuration(self.folder, self.ports, self.others)
        format_storage(self.java, self.jars, self.folder)
        begin = size_of_log(self.folder)
        (self.folder / "pid").unlink(missing_ok=True)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "kafka", *server_command(self.java, self.jars, self.folder)],
            env={**os.environ, "KAFKA_FOLDER": str(self.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C goes to the whole foreground group; tests that it interrupts still need the broker to finish.
            start_new_session=True,
        )
        deadline = time.monotonic() + 10
        while not (self.folder / "pid").exists() and time.monotonic() < deadline:
            # The guard is a process of its own: its file is all that tells.
            time.sleep(0.01)
        if not (self.folder / "pid").exists():
            raise CannotTell(
                f"nothing was started in {self.folder} within 10 s (exit code {self._guard.poll()})",
                meaning="There is no local broker.",
                next=surestart("kafka", "start"),
                code="KafkaNotStarted",
            )
        self.pid = int((self.folder / "pid").read_text())
        wait_for_start(self.folder, self.pid, begin, timeout_seconds)

    def kill(self) -> None:
        """SIGKILL: no goodbye to clients. Ports and data stay for the next start."""
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(b"keep\n")
            self._guard.stdin.close()
            self._guard.wait(20)
        self.pid, self._guard = 0, None

    def run_tool(self, main_class: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One of Kafka's own command-line tools ran, from the same jars, to its end."""
        return run_kafka_tool(self.java, self.jars, main_class, *arguments)


@contextmanager
def kafka_broker(
    others: Sequence[Listener] = (), say: Callable[[str], object] = lambda line: None
) -> Iterator[KafkaBroker]:
    """A fresh broker for the duration of the block, on free ports, its data in a temporary folder. others: where it
    listens too."""
    java = find_java()
    jars = resolve_kafka_jars(java, say)
    folder = Path(tempfile.mkdtemp(prefix="surestart-kafka-"))
    broker = KafkaBroker(folder, free_ports(but=[one.port for one in others]), java, jars, others)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
