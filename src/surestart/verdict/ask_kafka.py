"""Asks the cluster about a Kafka source for the doctor: what is lost, what expires when, is it still the same topic.

It is looked at twice, and where it would refuse the start three times within a few seconds: a broker that has just
become leader may answer with an old end, and that heals by itself. A look that fails takes nothing back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from surestart.declaration import SourceDeclaration
from surestart.facts.checkpoint.offset_log import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.verdict.kafka_expiry import find_kafka_expiry, unread_offsets
from surestart.verdict.resampling import confirm_by_resampling
from surestart.words.finding import Finding
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from surestart.sources.kafka import KafkaSource


def ask_kafka(
    source: KafkaSource,
    declaration: SourceDeclaration,
    checkpoint: Checkpoint,
    commands: Commands,
    *,
    recorded_topic_id: str = "",
    now: int,
    timeout_seconds: float = 5,
) -> tuple[Finding, ...]:
    """The cluster's answers as findings; an unreachable cluster is "cannot tell" and never silence."""
    from surestart.verdict.kafka_findings import look_at_kafka

    seen = confirm_by_resampling(
        lambda: look_at_kafka(source, checkpoint, recorded_topic_id, timeout_seconds, commands), time.sleep
    )
    if seen.answer is None or seen.unsafe:
        return seen.findings
    lag = unread_offsets(seen.answer, read_offsets(checkpoint, source.topic))
    expiry = find_kafka_expiry(declaration, seen.answer, lag, _last_planned_at(checkpoint), commands, now)
    return (*seen.findings, *expiry)


def read_offsets(checkpoint: Checkpoint, topic: str) -> dict[int, int]:
    """Partition -> next offset to read."""
    from surestart.facts.kafka.range import read_next_range

    return dict(read_next_range(checkpoint, topic).start)


def _last_planned_at(checkpoint: Checkpoint) -> int | None:
    entry = checkpoint.latest_offsets
    return entry.timestamp_ms if isinstance(entry, OffsetLogEntry) else None
