"""Asks the brokers of a Kafka sink what came to its topic since the batch that counts was planned or committed.

Kafka keeps no batch ids. What it keeps is when each record came, and so whether anybody wrote since then, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration
from surestart.errors import SurestartError
from surestart.facts.evidence.sink_evidence import (
    TOPIC,
    SinkEvidence,
    TopicRecords,
    sink_missing,
    sink_unreadable,
)
from surestart.verdict.acceptance_case import NextBatch

if TYPE_CHECKING:
    from surestart.facts.kafka.admin import KafkaAdmin

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
    if not all(one in told for told in (first, newest, ends) for one in partitions):
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
