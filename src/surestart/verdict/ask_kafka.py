"""Asks the cluster about a Kafka source for the doctor: what is lost, what expires when, is it still the same topic.

It is looked at twice, and where it would refuse the start three times within a few seconds: a broker that has just
become leader may answer with an old end, and that heals by itself. A look that fails takes nothing back.

When unread Kafka records begin to expire: known from the topic's retention and the time of the newest batch.

Asks the brokers of a Kafka sink what came to its topic since the batch that counts was planned or committed.

Kafka keeps no batch ids. What it keeps is when each record came, and so whether anybody wrote since then, and where."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.errors import SurestartError
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.evidence.sink_evidence import TOPIC, SinkEvidence, TopicRecords, sink_missing, sink_unreadable
from surestart.verdict.acceptance_case import NextBatch
from surestart.verdict.kafka_findings import confirm_by_resampling
from surestart.verdict.source_findings import find_clock_behind
from surestart.words.amounts import span_text, time_text
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from surestart.facts.kafka.admin import KafkaAdmin
    from surestart.facts.kafka.evidence import KafkaEvidence
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
    from surestart.facts.kafka.evidence import read_next_range

    return dict(read_next_range(checkpoint, topic).start)


def _last_planned_at(checkpoint: Checkpoint) -> int | None:
    entry = checkpoint.latest_offsets
    return entry.timestamp_ms if isinstance(entry, OffsetLogEntry) else None


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


TIMEOUT_SECONDS = 5.0
_HERE = ("localhost", "127.0.0.1", "[::1]")


def ask_topics(
    sinks: Iterable[SinkDeclaration], next_batch: NextBatch, given: Mapping[str, SinkEvidence] | None = None
) -> dict[str, SinkEvidence]:
    """By target, for each Kafka sink whose brokers are known and that nobody has asked yet."""
    known = dict(given or {})
    for sink in sinks:
        if sink.kind == "kafka" and sink.bootstrap and sink.target not in known:
            known[sink.target] = ask_topic(sink, next_batch)
    return known


def ask_topic(sink: SinkDeclaration, next_batch: NextBatch, timeout_seconds: float = TIMEOUT_SECONDS) -> SinkEvidence:
    """What came since the batch in flight was planned; at rest, since the newest batch was committed."""
    from surestart.facts.kafka.admin import KafkaAdmin

    since = asked_since(next_batch)
    try:
        cluster = KafkaAdmin(sink.bootstrap, None, timeout_seconds)
        partitions = _read_partitions(cluster, sink.target)
        first, newest, ends = dict[int, int](), dict[int, int](), dict[int, int]()
        if partitions:
            # Before the ends: a record that comes in between is then inside the range, and not behind it.
            first = cluster.first_offsets_since(sink.target, partitions, since or 0)
            newest = cluster.newest_times(sink.target, partitions)
            ends = cluster.list_offsets(sink.target, partitions, "latest")
        again = _read_partitions(cluster, sink.target)
    except SurestartError as error:
        return sink_unreadable(error, TOPIC)
    if partitions != again:
        # What came to a partition that one answer leaves out would count as never sent.
        return sink_unreadable("its brokers named other partitions when they were asked again", TOPIC)
    if not partitions:
        return sink_missing(TOPIC)
    # -1 is "none" of the first two, and "not known" of an end.
    told = [answer.get(one) is not None for answer in (first, newest, ends) for one in partitions]
    if not all(told) or -1 in ends.values():
        return sink_unreadable("its brokers did not tell the offsets of each partition", TOPIC)
    times = [time for time in newest.values() if time >= 0]
    records = TopicRecords(
        since=since or 0,
        new={one: (first[one], ends[one]) for one in partitions if 0 <= first[one] < ends[one]},
        newest=max(times, default=None),
        one_clock=_is_here(sink.bootstrap) and next_batch.on_this_machine,
    )
    return SinkEvidence(TOPIC, complete=False, has_rows=bool(times), topic=records)


def _read_partitions(cluster: KafkaAdmin, topic: str) -> tuple[int, ...]:
    """Empty: there is no such topic."""
    described = cluster.describe_topic(topic)
    return () if described is None else tuple(sorted(one.id for one in described.partitions))


def asked_since(next_batch: NextBatch) -> int | None:
    """None: the checkpoint does not tell that time, or its files do not look as old as their batches."""
    if next_batch.replayed:
        return next_batch.planned_at.get(next_batch.batch)
    return next_batch.committed_by


def _is_here(bootstrap: str) -> bool:
    return all(one.rpartition(":")[0] in _HERE for one in bootstrap.split(","))
