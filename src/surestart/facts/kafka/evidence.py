"""What a Kafka cluster says of a topic, asked with admin calls only: nothing is consumed, nothing created.

    describe topic   ─> topic id, partitions          A topic that was deleted and made again has another id, and Spark
    list offsets     ─> earliest, latest, end         notices nothing if its offsets have grown past the checkpoint's
    describe configs ─> retention, clean-up policy

    per partition    earliest ........ next(checkpoint) ........ latest .... end
                     └ deleted before    └ read so far            └ readable  └ written, transactions still open

A consumer asking for a missing topic makes the broker create it (auto.create.topics.enable, on by default) and would
then report an empty topic where there is none. Admin calls do not.

What the next batch of a checkpoint reads of a topic, as far as the checkpoint itself says it.

    no batch planned       start = end = sources/K/0, where reading was to begin          {} on a new checkpoint
    nothing in flight      start = end = the end of the newest batch
    batch N in flight      start = the end of batch N-1 (batch 0: sources/K/0)    end = the end of batch N

A batch in flight is read again as a whole, so what was deleted inside it is lost although it was planned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from surestart.errors import CannotTell
from surestart.facts.checkpoint.positions import KafkaPosition, Position
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource
from surestart.facts.kafka.admin import KafkaAdmin
from surestart.facts.kafka.security import SecretPlace
from surestart.typed import surestart

# What a broker that knows no topic ids gives every topic (Uuid.ZERO_UUID of Kafka's clients, as they print it).
_NO_ID = "A" * 22


@dataclass(frozen=True)
class PartitionEvidence:
    """latest: the first offset that a read_committed reader cannot read yet.
    end: the first that nobody has written."""

    partition: int
    earliest: int
    latest: int
    end: int


@dataclass(frozen=True)
class KafkaEvidence:
    """No partitions: the cluster answered that there is no such topic. topic_id "" with partitions: it knows no ids."""

    bootstrap: str
    topic: str
    topic_id: str
    partitions: tuple[PartitionEvidence, ...]
    retention_ms: int | None
    retention_bytes: int | None
    cleanup_policy: str
    observed_at: datetime

    @property
    def exists(self) -> bool:
        return bool(self.partitions)

    @property
    def by_partition(self) -> dict[int, PartitionEvidence]:
        return {partition.partition: partition for partition in self.partitions}


@dataclass(frozen=True)
class PartitionLag:
    """lag: records between the checkpoint and what can be read.
    lost: deleted before they were read.
    beyond: how far the checkpoint stands behind the topic's end, which only another topic of the same name explains."""

    partition: int
    next_offset: int
    lag: int
    lost: int
    beyond: int


def known_topic_id(told: object) -> str:
    """The id, or "": brokers before Kafka 2.8, and some services that speak its protocol, give every topic the same id
    of zeros, by which two topics would look like one."""
    text = "" if told is None else str(told)
    return "" if text == _NO_ID else text


def measure_lag(
    evidence: KafkaEvidence, offsets: Mapping[int, int], ends: Mapping[int, int] | None = None
) -> tuple[PartitionLag, ...]:
    """Where the checkpoint stands in each partition that it knows or the topic has. offsets: next offset to read, {}
    for a new checkpoint; ends: where the newest planned batch ends, which is further while it is in flight.

    Offsets of transaction markers and compacted records count as well: the numbers are upper bounds of records.
    A partition that an existing checkpoint does not know is read from offset 0: Spark stops where its first record is
    another one (KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO).
    """
    found = evidence.by_partition
    reached = offsets if ends is None else ends
    lags = []
    for number in sorted(found.keys() | offsets.keys() | reached.keys()):
        if number not in found:
            last = reached.get(number, offsets.get(number, 0))
            lags.append(PartitionLag(number, offsets.get(number, last), 0, 0, last))
            continue
        there = found[number]
        next_offset = offsets.get(number, 0 if offsets else there.earliest)
        lags.append(
            PartitionLag(
                partition=number,
                next_offset=next_offset,
                lag=max(there.latest - max(next_offset, there.earliest), 0),
                lost=max(there.earliest - next_offset, 0),
                beyond=max(reached.get(number, next_offset) - there.end, 0),
            )
        )
    return tuple(lags)


def read_kafka_evidence(
    bootstrap: str, topic: str, security: SecretPlace | None = None, timeout_seconds: float = 15
) -> KafkaEvidence:
    """What the cluster says now; raises CannotTell when it does not answer in time or refuses an answer."""
    cluster = KafkaAdmin(bootstrap, security, timeout_seconds)
    now = datetime.now(UTC)
    described = cluster.describe_topic(topic)
    if described is None:
        return KafkaEvidence(bootstrap, topic, "", (), None, None, "", now)
    numbers = tuple(sorted(partition.id for partition in described.partitions))
    earliest = cluster.list_offsets(topic, numbers, "earliest")
    latest = cluster.list_offsets(topic, numbers, "latest", committed=True)
    end = cluster.list_offsets(topic, numbers, "latest")
    configs = cluster.describe_configs(topic)
    untold = [one for one in numbers if not all(_is_told(answer.get(one)) for answer in (earliest, latest, end))]
    unset = [name for name, form in _FORMS.items() if not re.fullmatch(form, configs.get(name, _ABSENT[name]) or "")]
    if untold or unset or not numbers:
        raise _untold(bootstrap, topic, untold, unset)
    return KafkaEvidence(
        bootstrap=bootstrap,
        topic=topic,
        topic_id=known_topic_id(described.topic_id),
        partitions=tuple(PartitionEvidence(one, earliest[one], latest[one], end[one]) for one in numbers),
        retention_ms=_limit(configs, "retention.ms"),
        retention_bytes=_limit(configs, "retention.bytes"),
        cleanup_policy=configs.get("cleanup.policy", ""),
        observed_at=now,
    )


# A topic may have no limit of its size, and a cluster need not say one. Without a policy it keeps all (Kafka 4.1).
_ABSENT = {"retention.ms": "", "retention.bytes": "", "cleanup.policy": "?"}
_FORMS = {"retention.ms": r"-?[0-9]{1,19}", "retention.bytes": r"(-?[0-9]{1,19})?", "cleanup.policy": r"[a-z, ]*"}


def _is_told(offset: int | None) -> bool:
    """-1 is how a cluster says that it does not know."""
    return offset is not None and offset >= 0


def _untold(bootstrap: str, topic: str, partitions: Sequence[int], settings: Sequence[str]) -> CannotTell:
    """What the answer left out. Taken as it is, it would count as "not lost" and "kept for ever"."""
    what = [f"the offsets of partition {number}" for number in partitions[:5]] + list(settings) or ["its partitions"]
    return CannotTell(
        f"{bootstrap} answered for topic {topic!r} without {', '.join(what)}",
        meaning="Whether unread records were deleted, or will be soon, is not known.",
        next=surestart("doctor", "raw-ingest", note="once the cluster answers"),
        do_not="treat the checkpoint as safe because nothing was found wrong.",
        code="KafkaAnswerIncomplete",
    )


def _limit(configs: Mapping[str, str], name: str) -> int | None:
    """None: no limit (-1), or the cluster does not say."""
    value = int(configs.get(name) or -1)
    return value if value >= 0 else None


@dataclass(frozen=True)
class NextRange:
    """Partition -> offset.

    start: the first offset of the next batch.
    end: where the newest planned batch ends, and the topic has been at least so far."""

    start: Mapping[int, int] = field(default_factory=dict)
    end: Mapping[int, int] = field(default_factory=dict)


def read_next_range(checkpoint: Checkpoint, topic: str) -> NextRange:
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for source in checkpoint.sources:
        first, last = _offsets(_first(checkpoint, source), topic), _offsets(source.end, topic)
        # Where the batch before cannot be read, the checkpoint's own findings say so.
        start.update(first or last)
        end.update(last or first)
    return NextRange(start, end)


def _first(checkpoint: Checkpoint, source: CheckpointSource) -> Position | None:
    if checkpoint.latest_planned is None or checkpoint.in_flight == 0:
        return source.folder.initial if source.folder is not None else None
    return source.end if checkpoint.in_flight is None else source.start


def _offsets(position: Position | None, topic: str) -> Mapping[int, int]:
    return position.partitions.get(topic, {}) if isinstance(position, KafkaPosition) else {}
