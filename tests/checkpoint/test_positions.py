"""Positions of every source that Spark ships, in human terms."""

from __future__ import annotations

import pytest

from surestart.facts.checkpoint.positions import KafkaPosition, UnknownPosition, read_position
from tests.checkpoint.checkpoint_maker import TABLE_ID, compact, delta, kafka

AUTO_LOADER = '{"seqNum":4711,"sourceVersion":1,"lastBackfillStartTimeMs":0,"lastInputPath":"s3://landing"}'
SNAPSHOT = delta(0).replace("false", "true").replace('"index":-1', '"index":41')


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (kafka(0), "kafka", "orders 0@100, 1@40"),
        (compact({"orders": {str(n): n for n in range(9)}}), "kafka", "… 9 partitions"),
        ("{}", "kafka", "no partition yet"),
        (delta(0), "delta", "everything up to version 11 of table 11111111…"),
        (SNAPSHOT, "delta", "inside the initial snapshot at version 12, file 41 of table 11111111…"),
        (delta(0).replace('"index":-1', '"index":-20'), "delta", "schema change point -20"),
        ('{"logOffset":7}', "files", "entry 7 of its file list"),
        ("1234", "number", "1234"),
        (AUTO_LOADER, "auto-loader", "4711 files discovered"),
        (None, "none yet", "no position yet"),
        ('{"shard":"a"}', "unknown", "not known here"),
        ("[1,2]", "unknown", "not known here"),
        ('{"logOffset":', "unknown", "broken JSON"),
    ],
)
def test_a_position_is_told_in_words(text: str | None, kind: str, words: str) -> None:
    position = read_position(text)
    assert position.kind == kind
    assert words in position.describe()


def test_a_delta_position_keeps_its_numbers() -> None:
    position = read_position(delta(3))
    assert (position.table_id, position.version, position.index) == (TABLE_ID, 15, -1)  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ['{"t":{"0":1.5}}', '{"t":{"0":true}}', '{"t":{"x":1}}', '{"t":5}', "9" * 40])
def test_what_only_looks_like_kafka_is_not_taken_for_it(text: str) -> None:
    assert not isinstance(read_position(text), KafkaPosition)


def test_a_description_stays_short_whatever_the_checkpoint_says() -> None:
    huge = compact({f"topic-{n}": {str(p): 10**15 for p in range(50)} for n in range(500)})
    assert len(read_position(huge).describe()) < 1500
    assert len(UnknownPosition("x" * 10_000_000).describe()) < 200
