"""Whether a Kafka stage may start: the checkpoint's offsets beside what the cluster says now.

    another topic id         the topic was deleted and made again: offsets mean other records  KAFKA_TOPIC_REPLACED
    no such topic            deleted, renamed, or the wrong cluster  KAFKA_TOPIC_MISSING
    the cluster has no ids   which topic it is cannot be told  KAFKA_TOPIC_ID_UNKNOWN
    next < earliest          records deleted before they were read, counted by partition; of a batch in flight and of a
                             new partition too  KAFKA_RECORDS_LOST
    next > end               the checkpoint is of another topic, even where no id was recorded  KAFKA_OFFSETS_BEYOND_END
    partition gone           the topic was made again with fewer partitions  KAFKA_PARTITIONS_GONE
    latest < end, no lag     an open transaction hides what was written after it  KAFKA_TRANSACTION_OPEN

Spark itself sees what is lost, gone or beyond only once it reads, in words that name one partition and no count, and
advises `failOnDataLoss=false`. The first it does not see at all.

Records that were deleted while the query ran: Spark names one partition and no count; the cluster tells the rest.

Evidence that may change by itself within seconds: it is looked at more than once before it counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from surestart.errors import SurestartError, UsageError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.kafka.evidence import (
    KafkaEvidence,
    PartitionEvidence,
    PartitionLag,
    measure_lag,
    read_kafka_evidence,
    read_next_range,
)
from surestart.sources.abilities import topic_of
from surestart.sources.kafka import KafkaSource
from surestart.stage import Source
from surestart.typed import typed
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from surestart.facts.checkpoint.snapshot import Checkpoint


_COMMANDS = Commands("raw-ingest")
_NEVER = "set failOnDataLoss to false: Spark would skip the missing records and say so in a log line only."


def check_topic_identity(
    recorded_topic_id: str, evidence: KafkaEvidence, commands: Commands = _COMMANDS
) -> tuple[Finding, ...]:
    """Nothing, when the topic is the one that was recorded. An id that is not known is "cannot tell": never safe."""
    if not evidence.exists:
        return (_missing(evidence),)
    if not evidence.topic_id:
        return (
            Finding(
                "KAFKA_TOPIC_ID_UNKNOWN",
                Severity.CANNOT_TELL,
                f"{evidence.bootstrap} tells no topic ids, so topic {evidence.topic!r} is known by its name only",
                "Brokers before Kafka 2.8 and some compatible services have none. Whether the topic was deleted and "
                "made again since the checkpoint has read from it cannot be told by any later run either.",
                commands.doctor(),
                "accept it when the topic may have been made again: records would be skipped without a word.",
            ),
        )
    if not recorded_topic_id:
        return (
            Finding(
                "KAFKA_TOPIC_NOT_RECORDED",
                Severity.CANNOT_TELL,
                f"topic {evidence.topic!r} has id {evidence.topic_id}; no id was recorded when the checkpoint began",
                "Whether it is the topic that the checkpoint has read from is not known. The next run records its id.",
                commands.doctor(),
            ),
        )
    if recorded_topic_id == evidence.topic_id:
        return ()
    return (
        Finding(
            "KAFKA_TOPIC_REPLACED",
            Severity.UNSAFE,
            f"topic {evidence.topic!r} has id {evidence.topic_id}, the checkpoint has read from {recorded_topic_id}; "
            f"the new one holds {sum(one.end - one.earliest for one in evidence.partitions)} offsets "
            f"in {len(evidence.partitions)} partitions",
            "The topic was deleted and made again under the same name. The checkpoint's offsets point into other "
            "records: the new topic's first ones would be skipped, silently where it has grown past the checkpoint.",
            commands.plan("reset"),
            "start the stage: Spark compares offsets only and would go on in the middle of the new topic.",
        ),
    )


def check_positions(
    evidence: KafkaEvidence,
    offsets: Mapping[int, int],
    commands: Commands = _COMMANDS,
    ends: Mapping[int, int] | None = None,
) -> tuple[Finding, ...]:
    """What stands between the checkpoint's next offsets and the topic as it is. offsets and ends: as in measure_lag."""
    if not evidence.exists:
        return (_missing(evidence),)
    lags = measure_lag(evidence, offsets, ends)
    gone = [lag for lag in lags if lag.partition not in evidence.by_partition]
    lost = [lag for lag in lags if lag.lost]
    beyond = [lag for lag in lags if lag.beyond and lag not in gone]
    waiting = [one for one in evidence.partitions if one.latest < one.end]
    in_flight = any(offsets.get(lag.partition) != (ends or offsets).get(lag.partition) for lag in lost)
    return (
        *([_records_lost(evidence, lost, in_flight, commands)] if lost else []),
        *([_beyond_end(evidence, beyond, commands)] if beyond else []),
        *([_partitions_gone(evidence, gone, commands)] if gone else []),
        *([_transaction_open(evidence, waiting)] if waiting else []),
    )


def _records_lost(
    evidence: KafkaEvidence, lost: Sequence[PartitionLag], in_flight: bool, commands: Commands
) -> Finding:
    total = sum(lag.lost for lag in lost)
    listed = _listed(f"{evidence.topic}-{lag.partition}: {lag.lost} from {lag.next_offset}" for lag in lost)
    where = "they are in no table either."
    if in_flight:
        where = "those of the batch in flight are in a table only if it was written before its driver died."
    return Finding(
        "KAFKA_RECORDS_LOST",
        Severity.UNSAFE,
        f"{total} offsets in {len(lost)} partition(s) were deleted before they were read: {listed}",
        f"Retention or delete-records removed them from the topic; {where} "
        f"The topic keeps records for {_duration(evidence.retention_ms)}.",
        commands.plan("reset"),
        _NEVER,
    )


def _beyond_end(evidence: KafkaEvidence, beyond: Sequence[PartitionLag], commands: Commands) -> Finding:
    listed = _listed(f"{evidence.topic}-{lag.partition}: {lag.beyond} past its end" for lag in beyond)
    return Finding(
        "KAFKA_OFFSETS_BEYOND_END",
        Severity.UNSAFE,
        f"the checkpoint is past the end of {len(beyond)} partition(s): {listed}",
        "A topic never shrinks at its end: this is another topic of the same name, or another cluster.",
        commands.plan("reset"),
        "wait until the topic has grown past the checkpoint: its records up to there would never be read.",
    )


def _partitions_gone(evidence: KafkaEvidence, gone: Sequence[PartitionLag], commands: Commands) -> Finding:
    listed = _listed(str(lag.partition) for lag in gone)
    return Finding(
        "KAFKA_PARTITIONS_GONE",
        Severity.UNSAFE,
        f"{len(gone)} partition(s) of the checkpoint are not in topic {evidence.topic!r}: {listed}",
        "Partitions cannot be removed from a topic: it was deleted and made again with fewer.",
        commands.plan("reset"),
        _NEVER,
    )


def _transaction_open(evidence: KafkaEvidence, waiting: Sequence[PartitionEvidence]) -> Finding:
    hidden, place = sum(one.end - one.latest for one in waiting), ("--bootstrap-server", evidence.bootstrap)
    return Finding(
        "KAFKA_TRANSACTION_OPEN",
        Severity.INFO,
        f"{hidden} offsets in {len(waiting)} partition(s) come after a transaction that is still open",
        "They become readable when it commits or aborts; one that hangs is aborted by the cluster in time.",
        typed("kafka-transactions.sh", *place, "find-hanging", "--topic", evidence.topic),
    )


def _missing(evidence: KafkaEvidence) -> Finding:
    return Finding(
        "KAFKA_TOPIC_MISSING",
        Severity.UNSAFE,
        f"{evidence.bootstrap} has no topic {evidence.topic!r}",
        "It was deleted, has another name, or this is another cluster. Unread records are gone with it.",
        typed("kafka-topics.sh", "--bootstrap-server", evidence.bootstrap, "--list"),
        "create it to get the stage going: offsets of the checkpoint would point into the new one.",
    )


def _listed(parts: Iterable[str]) -> str:
    shown = list(parts)
    return "; ".join(shown[:8]) + (f"; … {len(shown) - 8} more" if len(shown) > 8 else "")


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "ever by time"
    hours = milliseconds / 3_600_000
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"


def look_at_kafka(
    source: KafkaSource,
    checkpoint: Checkpoint,
    recorded_topic_id: str = "",
    timeout_seconds: float = 15,
    commands: Commands = _COMMANDS,
) -> Sample[KafkaEvidence]:
    """One look: the findings with the answers that they were made of, and what those answers speak of."""
    reads = read_next_range(checkpoint, source.topic)
    try:
        evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security, timeout_seconds)
    except SurestartError as error:
        return Sample((out_of_reach(error, commands),))
    told = [*evidence.by_partition, *(["topic id"] if evidence.topic_id else [])]
    if not evidence.exists:
        return Sample((_missing(evidence),), evidence, frozenset(told))
    identity = check_topic_identity(recorded_topic_id, evidence, commands) if reads.start else ()
    positions = check_positions(evidence, reads.start, commands, reads.end)
    return Sample((*identity, *positions), evidence, frozenset(told))


def out_of_reach(error: SurestartError, commands: Commands) -> Finding:
    # Asking again does not install a missing client or correct wrong settings.
    following = error.next if isinstance(error, UsageError) else commands.doctor()
    return Finding("KAFKA_OUT_OF_REACH", Severity.CANNOT_TELL, error.what, error.meaning, following, error.do_not)


# How every error begins that Spark's Kafka source raises for records that are not there; where the error passed through
# Spark's own classes its condition stands in front (kafka-error-conditions.json).
_LOSS = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost because they are not available in Kafka any more")


def with_lost_positions(
    error: SurestartError, told: str, source: Source, checkpoint: str, commands: Commands
) -> SurestartError:
    """An error about lost records says which partitions lost how many, and what to do; others come back as they are.
    told: all that Spark said."""
    topic = topic_of(source)
    if topic is None or not _LOSS.search(told):
        return error
    try:
        evidence = read_kafka_evidence(topic.bootstrap, topic.topic, topic.security, timeout_seconds=5)
    except SurestartError as silent:
        return _with(error, f"how many records are concerned is not known: {silent.what}")
    reads = read_next_range(read_checkpoint(checkpoint, entries=2), topic.topic)
    found = check_positions(evidence, reads.start, commands, reads.end)
    harm = [finding for finding in found if finding.severity is Severity.UNSAFE]
    if not harm:
        return _with(error, "the cluster has every record of the batch now: run it again")
    return _with(error, "; ".join(f"{one.code}: {one.evidence}" for one in harm), harm[0])


def _with(error: SurestartError, what: str, finding: Finding | None = None) -> SurestartError:
    meant = finding or error
    return type(error)(
        f"{error.what}; {what}",
        meaning=f"{error.meaning} {meant.meaning}" if finding else error.meaning,
        next=meant.next,
        do_not=meant.do_not,
        code=error.code,
    )


T = TypeVar("T")


@dataclass(frozen=True)
class Sample(Generic[T]):
    """One look.

    answer: what the findings were made of, None when there was none.
    parts: what it speaks of."""

    findings: tuple[Finding, ...]
    answer: T | None = None
    parts: frozenset[object] = frozenset()

    @property
    def unsafe(self) -> bool:
        return any(one.severity is Severity.UNSAFE for one in self.findings)


# So many looks, and so long between two of them.
_LOOKS, _SECONDS = 3, 2.0


def confirm_by_resampling(read: Callable[[], Sample[T]], wait: Callable[[float], object]) -> Sample[T]:
    """The findings after two looks, or after three while one of them shows harm. A look without an answer is
    not repeated.

    One look may be at a broker that has not caught up after a change of leader; what goes away by itself within seconds
    is no loss. But only a look that was answered, about everything that the earlier ones spoke of, takes a finding
    back: one that failed or was told less adds what it found and takes back nothing.
    """
    stands = read()
    looks = [stands]
    while len(looks) < _LOOKS and stands.answer is not None and (len(looks) < 2 or stands.unsafe):
        if stands.unsafe:
            wait(_SECONDS)
        looks.append(read())
        stands = _joined(stands, looks[-1])
    seen = Counter(code for look in looks for code in {finding.code for finding in look.findings})
    findings = tuple(_with_samples(finding, seen[finding.code], len(looks)) for finding in stands.findings)
    return replace(stands, findings=findings)


def _joined(before: Sample[T], after: Sample[T]) -> Sample[T]:
    if after.answer is not None and before.parts <= after.parts:
        return after
    findings = {finding.code: finding for finding in (*before.findings, *after.findings)}
    answer = before.answer if after.answer is None else after.answer
    return Sample(tuple(findings.values()), answer, before.parts | after.parts)


def _with_samples(finding: Finding, seen: int, samples: int) -> Finding:
    if finding.severity is not Severity.UNSAFE:
        return finding
    how = f"the same in {samples} samples" if seen == samples else f"in {seen} of {samples} samples"
    return replace(finding, evidence=f"{finding.evidence} ({how})")
