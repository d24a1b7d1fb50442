"""Where no topic id was ever recorded, rows above a partition's end say that the topic is another one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from surestart.facts.kafka.evidence import KafkaEvidence, PartitionEvidence
from surestart.remedies.basis.same_topic import describe_other_topic


def evidence(topic_id: str = "now", *ends: int) -> KafkaEvidence:
    partitions = tuple(PartitionEvidence(number, 0, end, end) for number, end in enumerate(ends))
    return KafkaEvidence("here:9092", "sensor", topic_id, partitions, None, None, "", datetime.now(UTC))


@pytest.mark.parametrize(
    ("recorded", "marks", "said"),
    [
        ("now", {0: 20, 1: 20}, ""),
        ("", {0: 20}, ""),
        ("then", {0: 5}, "deleted and made again"),
        ("", {0: 20, 1: 21}, "partition 1 ends at 20, rows of it go up to offset 20"),
        ("", {7: 1}, "partition 7 is not there"),
    ],
)
def test_a_topic_is_the_same_by_its_id_or_at_least_by_its_ends(recorded: str, marks: dict[int, int], said: str) -> None:
    found = describe_other_topic(evidence("now", 20, 20), recorded, marks)
    assert said in found
    assert bool(said) == bool(found)


def test_a_topic_that_is_not_there_keeps_no_rows() -> None:
    assert "does not exist" in describe_other_topic(evidence(""), "", {0: 1})
