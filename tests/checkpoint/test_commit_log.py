"""commits/N of every version, whole and damaged."""

from __future__ import annotations

import pytest

from surestart.facts.checkpoint.batch_logs import parse_commit_log
from surestart.facts.checkpoint.log_file import EMPTY, TORN, VERSION, FormatError
from tests.checkpoint.checkpoint_maker import commit_text


def test_v1_holds_the_next_watermark() -> None:
    entry = parse_commit_log(3, b'v1\n{"nextBatchWatermarkMs":5000}')
    assert (entry.version, entry.next_watermark_ms, entry.bare, dict(entry.state_ids)) == (1, 5000, False, {})


def test_v2_holds_the_ids_of_the_state_files() -> None:
    entry = parse_commit_log(3, commit_text(2, stateUniqueIds={"0": [["a"], ["b"]], "1": [["c", "d"]]}).encode())
    assert entry.state_ids == {0: (("a",), ("b",)), 1: (("c", "d"),)}


def test_v3_names_the_sinks() -> None:
    sinks = {"gold": {"sinkName": "gold", "commitOffset": "-", "isActive": True}}
    entry = parse_commit_log(3, commit_text(3, sinkMetadataMap=sinks).encode())
    assert (entry.version, entry.sinks) == (3, ("gold",))


@pytest.mark.parametrize("data", [b"v1", b"v1\n"])
def test_a_commit_without_its_second_line_is_whole_to_spark_and_marked_bare(data: bytes) -> None:
    assert parse_commit_log(3, data).bare


def test_spark_2_wrote_an_empty_object() -> None:
    entry = parse_commit_log(3, b"v1\n{}")
    assert (entry.bare, entry.next_watermark_ms) == (False, None)


def test_bytes_behind_the_json_are_kept_apart() -> None:
    assert parse_commit_log(3, b'v1\n{"nextBatchWatermarkMs":0}xx').trailing == "xx"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", EMPTY),
        (b"v", TORN),
        (b"v1\n{", TORN),
        (b"v1\n\n", TORN),
        (b"v4\n{}", VERSION),
        (b"{}", TORN),
        (b'v2\n{"stateUniqueIds":[1]}', TORN),
        (b'v2\n{"stateUniqueIds":{"x":1}}', TORN),
    ],
)
def test_damage_is_named(data: bytes, kind: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_commit_log(3, data)
    assert caught.value.kind == kind
