"""The local server of tests and benchmarks leaves nothing running, however its parent ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

PROGRAM = """
import signal
from tests.servers.postgres_server import postgres_server
with postgres_server() as server:
    print(server.process.pid, server.url, server.folder, flush=True)
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_server_is_gone_when_its_parent_is_killed() -> None:
    """SIGKILL leaves the parent no chance to stop it: the kernel has to."""
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, url, folder = parent.stdout.readline().split()
    psycopg.connect(url).close()

    parent.send_signal(signal.SIGKILL)
    parent.wait(10)

    deadline = time.monotonic() + 20
    while is_running(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(int(pid))
    with pytest.raises(psycopg.OperationalError, match="Connection refused"):
        psycopg.connect(url)
    subprocess.run(["rm", "-r", folder], check=True)


def is_running(pid: int) -> bool:
    """Of a container's first process nobody can say that it reaps what it inherits: a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
