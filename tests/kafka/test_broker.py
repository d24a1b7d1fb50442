"""The local broker: real, on loopback only, and gone with whoever started it, however that one ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from surestart.local.kafka_detached import is_broker

ADMIN = {"socket.timeout.ms": 10000}

ROOT = Path(__file__).resolve().parents[2]


def _wait_until(condition: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def _listening(pid: int) -> set[str]:
    """The addresses that a process listens on, from the kernel's own tables."""
    opened = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            opened.append(str(entry.readlink()))
    inodes = {name.removeprefix("socket:[").rstrip("]") for name in opened if name.startswith("socket:[")}
    found = set()
    for table, size in (("tcp", 4), ("tcp6", 16)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                raw = bytes.fromhex(fields[1].split(":")[0])
                words = b"".join(raw[place : place + 4][::-1] for place in range(0, size, 4))
                found.add(socket.inet_ntop(socket.AF_INET if size == 4 else socket.AF_INET6, words))
    return found


def test_a_record_produced_can_be_consumed(broker, topic):
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"hello", key=b"k")
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert (message.key(), message.value()) == (b"k", b"hello")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's tables under /proc")
def test_the_broker_listens_on_loopback_only(broker):
    assert _listening(broker.pid) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert _listening(broker.pid)


def test_a_broker_is_gone_when_its_parent_is_killed(tmp_path):
    """SIGKILL leaves the parent no chance to clean up: the guard has to."""
    program = (
        "import sys, time\n"
        "from tests.servers.kafka_broker import kafka_broker\n"
        "with kafka_broker() as broker:\n"
        "    print(broker.pid, broker.folder, flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert is_broker(int(pid), Path(folder))
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    assert _wait_until(lambda: not is_broker(int(pid), Path(folder)), 10)
    assert _wait_until(lambda: not Path(folder).exists(), 10)


def test_a_pid_that_became_another_program_is_not_taken_for_the_broker(tmp_path):
    assert not is_broker(os.getpid(), tmp_path)


def _surestart(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surestart", "kafka", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.long(instead="test_a_broker_is_gone_when_its_parent_is_killed")
def test_the_command_starts_finds_and_stops_a_broker_that_keeps_its_topics_and_its_port(tmp_path):
    from confluent_kafka.admin import AdminClient, NewTopic

    place = ("--dir", str(tmp_path / "kafka"), "--json")
    assert _surestart("status", *place).returncode == 1
    try:
        started = json.loads(_surestart("start", *place).stdout)
        admin = AdminClient({"bootstrap.servers": started["bootstrap"], **ADMIN})
        admin.create_topics([NewTopic("kept", 2, 1)])["kept"].result(20)
        again = json.loads(_surestart("start", *place).stdout)
        assert (again["pid"], again["bootstrap"]) == (started["pid"], started["bootstrap"])
        assert json.loads(_surestart("status", *place).stdout)["state"] == "running"

        assert _surestart("stop", *place).returncode == 0
        assert not is_broker(started["pid"], tmp_path / "kafka")
        assert _surestart("status", *place).returncode == 1

        restarted = json.loads(_surestart("start", *place).stdout)
        assert restarted["bootstrap"] == started["bootstrap"]
        metadata = AdminClient({"bootstrap.servers": restarted["bootstrap"], **ADMIN}).list_topics(timeout=20)
        assert len(metadata.topics["kept"].partitions) == 2
    finally:
        _surestart("stop", *place, "--delete-topics")
    assert not (tmp_path / "kafka").exists()
