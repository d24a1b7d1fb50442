"""Makes a stage's progress visible to Kafka's own tools: a consumer group that is written for display and never read.

    batch committed by Spark ──> progress report ──> <env>.<query>.mirror stands at its end offsets
    kafka-consumer-groups --describe --group <env>.<query>.mirror      shows Spark's lag per partition

Spark keeps its offsets in the checkpoint and tells Kafka nothing, so lag monitors show nothing. Off unless asked for.
The group has no members and no say: a stage starts from its checkpoint, whatever the group holds.

A thread of its own does the telling, with room for one report: while the cluster is slow the newest replaces the one
that waits. The query never waits for it and never sees its errors, which are counted and logged.
"""

from __future__ import annotations

import ast
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from surestart.environment import Environment
from surestart.facts.kafka.admin import KafkaAdmin
from surestart.facts.kafka.security import SecretPlace
from surestart.sources.abilities import topic_of
from surestart.stage import Stage

logger = logging.getLogger(__name__)

Offsets = dict[str, dict[int, int]]


class HasReport(Protocol):
    """A batch's progress, with Spark's own report of it (runner.BatchProgress)."""

    @property
    def report(self) -> Mapping[str, Any]: ...


def mirror_group(environment: Environment, stage: str) -> str:
    return f"{environment.name}.{environment.query_name(stage)}.mirror"


@contextmanager
def mirrored(environment: Environment, stage: Stage) -> Iterator[Callable[[HasReport], object]]:
    """What to call with the progress of each batch inside the block: a mirror where the source asks for one."""
    topic = topic_of(stage.source)
    if topic is None or not topic.mirror:
        yield lambda progress: None
        return
    mirror = KafkaMirror(topic.bootstrap, mirror_group(environment, stage.name), topic.security)
    try:
        yield mirror
    finally:
        mirror.close()


class KafkaMirror:
    """Give it to the runner as on_progress, or call it with each of Spark's progress reports. close() when done."""

    def __init__(
        self, bootstrap: str, group: str, security: SecretPlace | None = None, timeout_seconds: float = 10
    ) -> None:
        self.told = 0
        self.failures = 0
        self._connect = (bootstrap, security, timeout_seconds)
        self._group = group
        self._waiting: HasReport | Mapping[str, Any] | None = None
        self._closing = False
        self._changed = threading.Condition()
        # A daemon: an unreachable cluster must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name=f"mirror {group}", daemon=True)
        self._thread.start()

    def __call__(self, progress: HasReport | Mapping[str, Any]) -> None:
        """Returns at once. Progress of a batch is reported after Spark has written its commit."""
        with self._changed:
            self._waiting = progress
            self._changed.notify()

    def close(self, timeout_seconds: float = 5) -> None:
        """The last report has been told, or has failed, or the time is over."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)

    def _work(self) -> None:
        admin: KafkaAdmin | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closing)
                progress, self._waiting = self._waiting, None
            if progress is None:
                return
            try:
                offsets = read_end_offsets(progress if isinstance(progress, Mapping) else progress.report)
                if offsets:
                    admin = admin or KafkaAdmin(*self._connect)
                    admin.set_group_offsets(self._group, offsets)
                    self.told += 1
            except Exception as error:  # noqa: BLE001  A display must not fail what it displays, whatever happens to it.
                self.failures += 1
                logger.warning("%s was not moved (%d times so far): %s", self._group, self.failures, error)


def read_end_offsets(report: Mapping[str, Any]) -> Offsets:
    """Topic -> partition -> next offset to read, of every Kafka source in a progress report."""
    found: Offsets = {}
    for source in report.get("sources") or ():
        end = source.get("endOffset")
        if not str(source.get("description", "")).startswith("Kafka") or not end:
            continue
        for topic, partitions in _as_object(end).items():
            found.setdefault(topic, {}).update({int(number): int(offset) for number, offset in partitions.items()})
    return found


def _as_object(end: Any) -> dict[str, dict[str, int]]:
    """Spark's report has an object here, its JSON text one too; PySpark's SourceProgress has Python's text of it."""
    if not isinstance(end, str):
        return dict(end)
    try:
        return dict(json.loads(end))
    except ValueError:
        return dict(ast.literal_eval(end))
