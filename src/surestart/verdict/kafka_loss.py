"""Records that were deleted while the query ran: Spark names one partition and no count; the cluster tells the rest."""

from __future__ import annotations

import re

from surestart.errors import SurestartError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.kafka.evidence import read_kafka_evidence
from surestart.facts.kafka.range import read_next_range
from surestart.sources.kafka import KafkaSource
from surestart.stage import Source
from surestart.verdict.kafka_findings import check_positions
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

# How every error begins that Spark's Kafka source raises for records that are not there; where the error passed through
# Spark's own classes its condition stands in front (kafka-error-conditions.json).
_LOSS = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost because they are not available in Kafka any more")


def with_lost_positions(
    error: SurestartError, told: str, source: Source, checkpoint: str, commands: Commands
) -> SurestartError:
    """An error about lost records says which partitions lost how many, and what to do; others come back as they are.
    told: all that Spark said."""
    if not isinstance(source, KafkaSource) or not _LOSS.search(told):
        return error
    try:
        evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security, timeout_seconds=5)
    except SurestartError as silent:
        return _with(error, f"how many records are concerned is not known: {silent.what}")
    reads = read_next_range(read_checkpoint(checkpoint, entries=2), source.topic)
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
