"""How far each source of a stage reaches now, for showing what is still unread: asked once more, read-only.

Kafka   the broker's end offsets      Delta   the table's newest version, as the diagnosis has read it
"""

from __future__ import annotations

from surestart.errors import SurestartError
from surestart.facts.checkpoint.positions import DeltaPosition, KafkaPosition, Position
from surestart.facts.evidence.source_evidence import DeltaSourceEvidence
from surestart.stage import Stage
from surestart.verdict.diagnose import Diagnosis
from surestart.words.time_text import time_text

TIMEOUT_SECONDS = 5.0


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
    from surestart.sources.kafka import KafkaSource

    source = stage.source
    if not isinstance(source, KafkaSource):
        return None, ""
    from surestart.facts.kafka.evidence import read_kafka_evidence

    try:
        found = read_kafka_evidence(source.bootstrap, source.topic, source.security, TIMEOUT_SECONDS)
    except SurestartError as error:
        return None, f"The broker did not tell: {error.what}"
    return KafkaPosition({source.topic: {one.partition: one.latest for one in found.partitions}}), ""
