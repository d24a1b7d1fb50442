"""Where a stream stands in a source that nobody can ask, as a person would say it; and what it may be called."""

from __future__ import annotations

import pytest

from surestart.facts.checkpoint.positions import may_be_called, read_position

SEQUENCE = "49590338271490256608559692538361571095921575989136588898"
POSITIONS = {
    '{"metadata":{"streamName":"clicks","batchId":"7"},"shardId-000000000003":{"iteratorType":"AFTER_SEQUENCE_NUMBER",'
    f'"iteratorPosition":"{SEQUENCE}"}}}}': ("kinesis", "clicks shard 3 after …989136588898"),
    '{"shardId-000000000000":{"iteratorType":"TRIM_HORIZON","iteratorPosition":""}}': (
        "kinesis",
        "stream shard 0 after TRIM_HORIZON",
    ),
    '{"shards":[{"shard":{"stream":"s","shardId":"shardId-000000000001"},"firstSeqNum":null,'
    f'"lastSeqNum":"{SEQUENCE}","closed":false}}]}}': ("kinesis", "s shard 1 after …989136588898"),
    '{"version":1,"snapshot_id":7,"position":2,"scan_all_files":false}': (
        "iceberg",
        "what was added by snapshot 7, up to file 2",
    ),
    '{"version":1,"snapshot_id":7,"position":2,"scan_all_files":true}': (
        "iceberg",
        "the whole table as of snapshot 7, up to file 2",
    ),
    '{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}': ("iceberg", "nothing yet"),
    '{"offset":1500,"timestamp":1790000000000}': ("rate-micro-batch", "1,500 rows made"),
    '{"hub":{"0":17,"1":4}}': ("kafka", "hub 0@17, 1@4"),
    '{"messageId":"CAEQAA=="}': ("unknown", 'a source not known here: {"messageId":"CAEQAA=="}'),
}


@pytest.mark.parametrize("text", POSITIONS)
def test_a_position_is_told_as_a_person_would(text: str) -> None:
    position = read_position(text)
    assert (position.kind, position.describe()) == POSITIONS[text]


@pytest.mark.parametrize(
    "text",
    [
        '{"shards":[]}',
        '{"shards":[1]}',
        '{"shardId-1":{},"orders":{"0":1}}',
        '{"shards":[{"shard":"s","lastSeqNum":[]}]}',
        '{"snapshot_id":true,"position":0}',
        '{"offset":"1","timestamp":2}',
        '{"metadata":{"streamName":["x"]},"shardId-x":{"iteratorPosition":{"a":1}}}',
    ],
)
def test_what_only_looks_like_one_is_still_told(text: str) -> None:
    assert read_position(text).describe()


@pytest.mark.parametrize(
    ("found", "declared", "may"),
    [
        ("kafka", "event-hubs", True),
        ("auto-loader", "files", True),
        ("auto-loader", "auto-loader", True),
        ("files", "auto-loader", True),
        ("kinesis", "kinesis", True),
        ("kinesis", "kafka", False),
        ("kafka", "files", False),
        ("delta", "iceberg", False),
        ("unknown", "kinesis", True),
        ("number", "memory", True),
        ("kafka", "other", True),
    ],
)
def test_a_healthy_source_under_its_own_name_is_no_change(found: str, declared: str, may: bool) -> None:
    assert may_be_called(found, declared) is may
