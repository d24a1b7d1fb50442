"""What the next batch of a checkpoint reads of a topic, as far as the checkpoint itself says it.

    no batch planned       start = end = sources/K/0, where reading was to begin          {} on a new checkpoint
    nothing in flight      start = end = the end of the newest batch
    batch N in flight      start = the end of batch N-1 (batch 0: sources/K/0)    end = the end of batch N

A batch in flight is read again as a whole, so what was deleted inside it is lost although it was planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surestart.facts.checkpoint.positions import KafkaPosition, Position
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource


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
