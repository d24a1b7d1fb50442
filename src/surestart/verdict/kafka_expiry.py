"""When unread Kafka records begin to expire: known from the topic's retention and the time of the newest batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from surestart.declaration import SourceDeclaration
from surestart.verdict.clock import find_clock_behind
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands
from surestart.words.time_text import span_text, time_text

if TYPE_CHECKING:
    from surestart.facts.kafka.evidence import KafkaEvidence


def find_kafka_expiry(
    source: SourceDeclaration, evidence: KafkaEvidence, lag: int, caught_up_at: int | None, commands: Commands, now: int
) -> tuple[Finding, ...]:
    """When unread records begin to expire, if the query had caught up at its last batch: no unread record is older."""
    if not lag or evidence.retention_ms is None or caught_up_at is None:
        return ()
    if behind := find_clock_behind("the newest batch", caught_up_at, now, commands):
        return behind
    left = caught_up_at + evidence.retention_ms - now
    if left > max(evidence.retention_ms // 4, 3_600_000):
        return ()
    return (
        Finding(
            "SOURCE_RETENTION_CLOCK",
            Severity.ATTENTION,
            f"topic {evidence.topic}: {lag} unread offsets; records are kept for "
            f"{span_text(evidence.retention_ms)} and the last batch was planned at {time_text(caught_up_at)}",
            f"Unread records begin to expire at about {time_text(caught_up_at + evidence.retention_ms)}"
            + (f", {span_text(left)} from now." if left > 0 else ": now."),
            commands.run(),
            "leave the query stopped beyond that time without raising the topic's retention.ms first.",
        ),
    )


def unread_offsets(evidence: KafkaEvidence, offsets: Mapping[int, int]) -> int:
    from surestart.facts.kafka.evidence import measure_lag

    return sum(lag.lag for lag in measure_lag(evidence, offsets))
