"""What waits at a stream's sources for its next batch, in a few words ("" where nobody was asked), and how far each
source reaches now: asked once more, read-only.

Kafka   the broker's end offsets      Delta   the table's newest version, as the diagnosis has read it"""

from __future__ import annotations

from surestart.errors import SurestartError
from surestart.facts.checkpoint.positions import DeltaPosition, KafkaPosition, Position
from surestart.facts.evidence.source_evidence import DeltaSourceEvidence
from surestart.sources.abilities import topic_of
from surestart.stage import Stage
from surestart.verdict.ask_kafka import read_offsets
from surestart.verdict.diagnose import Diagnosis
from surestart.words.amounts import time_text

TIMEOUT_SECONDS = 5.0


def unread_text(stage: Stage, diagnosis: Diagnosis) -> str:
    found = [_of_table(diagnosis, index) for index in range(len(diagnosis.evidence.sources))]
    return ", ".join(part for part in (*found, *_of_topics(stage, diagnosis)) if part)


def _of_table(diagnosis: Diagnosis, index: int) -> str:
    evidence = diagnosis.evidence.sources[index]
    if not isinstance(evidence, DeltaSourceEvidence) or evidence.problem or not evidence.exists:
        return ""
    sources = diagnosis.evidence.checkpoint.sources
    end = sources[index].end if index < len(sources) else None
    if not isinstance(end, DeltaPosition) or end.table_id != evidence.table_id:
        return ""
    # Index -1 stands before the version's first file; past it, the version has been begun.
    waiting = evidence.latest_version - end.version + (1 if end.index == -1 else 0)
    return "none" if waiting <= 0 else f"{waiting:,} commit{'s' if waiting != 1 else ''}"


def _of_topics(stage: Stage, diagnosis: Diagnosis) -> list[str]:
    from surestart.facts.kafka.evidence import measure_lag, read_kafka_evidence
    from surestart.verdict.ask_stages import kafka_sources

    checkpoint, found = diagnosis.evidence.checkpoint, []
    # The diagnosis has said already whether its brokers answer.
    silent = any(one.code == "KAFKA_OUT_OF_REACH" for one in diagnosis.findings)
    for source in () if silent else diagnosis.evidence.declaration.sources:
        if source.kind != "kafka":
            continue
        for topic in kafka_sources(stage, source):
            try:
                evidence = read_kafka_evidence(topic.bootstrap, topic.topic, topic.security, TIMEOUT_SECONDS)
            except SurestartError:
                found.append(f"{topic.topic}: no answer")
                continue
            lag = sum(one.lag for one in measure_lag(evidence, read_offsets(checkpoint, topic.topic)))
            found.append("none" if not lag else f"{lag:,} record{'s' if lag != 1 else ''}")
    return found


def read_ends(stage: Stage, diagnosis: Diagnosis) -> tuple[dict[int, Position], dict[int, str]]:
    """(newest position, how it is known or why not) by the source's place in the query."""
    latest: dict[int, Position] = {}
    known_from: dict[int, str] = {}
    asked = f"Asked at {time_text(diagnosis.asked_at)}."
    for index, evidence in enumerate(diagnosis.evidence.sources):
        if isinstance(evidence, DeltaSourceEvidence):
            if evidence.problem:
                known_from[index] = f"The table could not be read: {evidence.problem}"
            elif evidence.exists and evidence.latest_version >= 0:
                latest[index] = DeltaPosition(evidence.table_id, evidence.latest_version, -1, initial_snapshot=False)
                known_from[index] = asked
    ends, why = _read_topic_ends(stage)
    if ends is not None:
        latest[0], known_from[0] = ends, asked
    elif why:
        known_from[0] = why
    return latest, known_from


def _read_topic_ends(stage: Stage) -> tuple[KafkaPosition | None, str]:
    source = topic_of(stage.source)
    if source is None:
        return None, ""
    from surestart.facts.kafka.evidence import read_kafka_evidence

    try:
        found = read_kafka_evidence(source.bootstrap, source.topic, source.security, TIMEOUT_SECONDS)
    except SurestartError as error:
        return None, f"The broker did not tell: {error.what}"
    return KafkaPosition({source.topic: {one.partition: one.latest for one in found.partitions}}), ""
