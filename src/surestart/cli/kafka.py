"""`surestart kafka start|stop|status|groups`: a real Kafka broker on this machine, to try the pipeline with."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.errors import EXIT_FINDINGS, EXIT_FINE, CannotTell
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.local.kafka_detached import DetachedBroker

SCHEMA_VERSION = 1
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("start", "stop", "status", "groups"),
        help="start: returns once the broker answers; groups: kafka-consumer-groups --describe on that broker",
    )
    parser.add_argument("--dir", default=".surestart/kafka", help="where its topics are kept (.surestart/kafka)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (its former one, or a free one)")
    parser.add_argument("--delete-topics", action="store_true", help="with stop: throw the topics away as well")
    parser.add_argument("--group", default="", help="with groups: one group instead of all")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from surestart.local import kafka_detached as local

    folder = Path(args.dir).absolute()
    if args.action == "start":
        found = local.start_detached(folder, args.port, say=lambda line: sys.stderr.write(f"{line}\n"))
        return _show(args, "running", found.bootstrap, found.pid)
    if args.action == "stop":
        stopped = local.stop_detached(folder, remove=args.delete_topics)
        return _show(args, "stopped", stopped.bootstrap if stopped else "", 0)
    detached = local.read_detached(folder)
    if args.action == "groups":
        return _groups(detached, args.group)
    if detached is None or not detached.running:
        _show(args, "stopped", detached.bootstrap if detached else "", 0)
        return EXIT_FINDINGS
    return _show(args, "running", detached.bootstrap, detached.pid)


def _show(args: argparse.Namespace, state: str, bootstrap: str, pid: int) -> int:
    folder = str(Path(args.dir).absolute())
    if args.json:
        shown = {
            "schema_version": SCHEMA_VERSION,
            "state": state,
            "bootstrap": bootstrap,
            "pid": pid,
            "dir": folder,
        }
        sys.stdout.write(json.dumps(shown) + "\n")
    elif state == "running":
        sys.stdout.write(f"{bootstrap}\n")
        sys.stderr.write(
            f"kafka: running, pid {pid}, topics in {folder}\nNext: {surestart('kafka', 'stop', '--dir', args.dir)}\n"
        )
    else:
        sys.stderr.write(
            f"kafka: not running, topics in {folder}\nNext: {surestart('kafka', 'start', '--dir', args.dir)}\n"
        )
    return EXIT_FINE


def _groups(detached: DetachedBroker | None, group: str) -> int:
    from surestart.local.kafka_detached import run_kafka_tool
    from surestart.local.kafka_jars import resolve_kafka_jars
    from surestart.spark.java import find_java

    if detached is None or not detached.running:
        raise CannotTell(
            "no local broker is running",
            meaning="Its consumer groups cannot be read.",
            next=surestart("kafka", "start"),
            code="KafkaNotRunning",
        )
    java = find_java()
    which = ("--group", group) if group else ("--all-groups",)
    arguments = ("--bootstrap-server", detached.bootstrap, "--describe", *which)
    done = run_kafka_tool(java, resolve_kafka_jars(java), _GROUPS, *arguments)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return EXIT_FINE if done.returncode == 0 else EXIT_FINDINGS
