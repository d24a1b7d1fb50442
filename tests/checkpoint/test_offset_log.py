"""offsets/N of every version, whole and damaged."""

from __future__ import annotations

import pytest

from surestart.facts.checkpoint.batch_logs import parse_offset_log
from surestart.facts.checkpoint.log_file import EMPTY, TORN, VERSION, FormatError
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition, KafkaPosition, NoPosition
from tests.checkpoint.checkpoint_maker import CONFS, compact, delta, files, kafka, offsets_text


def parse(text: str | bytes) -> object:
    return parse_offset_log(7, text.encode() if isinstance(text, str) else text)


def test_v1_names_sources_by_their_place() -> None:
    entry = parse_offset_log(7, offsets_text(kafka(0), delta(0), timestamp_ms=1758651405232).encode())
    assert [source.id for source in entry.sources] == ["0", "1"]
    assert isinstance(entry.sources[0].position, KafkaPosition)
    assert entry.sources[0].position.partitions == {"orders": {0: 100, 1: 40}}
    assert isinstance(entry.sources[1].position, DeltaPosition)
    assert (entry.version, entry.timestamp_ms, entry.confs) == (1, 1758651405232, CONFS)


def test_v2_names_sources_by_name_and_splits_at_the_first_colon() -> None:
    text = "v2\n" + compact({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}, "sourceMetadataInfo": {}})
    entry = parse_offset_log(7, f"{text}\nclicks:{kafka(0)}\nviews:-\n".encode())
    assert [(source.id, source.position.kind) for source in entry.sources] == [
        ("clicks", "kafka"),
        ("views", "none yet"),
    ]
    assert isinstance(entry.sources[1].position, NoPosition)
    assert entry.version == 2


def test_an_empty_metadata_line_is_very_old_and_not_an_error() -> None:
    entry = parse_offset_log(7, b'v1\n\n{"logOffset":3}')
    assert not entry.has_metadata
    assert entry.sources[0].position == FilesPosition(3)


def test_a_dash_is_a_source_without_a_position() -> None:
    entry = parse_offset_log(7, offsets_text("-", files(2)).encode())
    assert isinstance(entry.sources[0].position, NoPosition)
    assert entry.sources[0].text is None


def test_what_follows_the_json_is_kept_apart_as_spark_passes_over_it() -> None:
    entry = parse_offset_log(7, offsets_text(files(4) + "garbage").encode())
    assert entry.sources[0].position == FilesPosition(4)
    assert entry.trailing == "garbage"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_ends_of_editors_are_read_as_spark_reads_them(ending: str) -> None:
    entry = parse_offset_log(7, offsets_text(files(4)).replace("\n", ending).encode() + ending.encode())
    assert [source.position for source in entry.sources] == [FilesPosition(4)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", EMPTY),
        (b"v1", TORN),
        (b"v1\n", TORN),
        (b'v1\n{"batchWatermarkMs":', TORN),
        (b"v1\n[]\n1", TORN),
        (b'v1\n{"conf":[]}\n1', TORN),
        (b"1\n{}\n1", TORN),
        (b"v0\n{}\n1", TORN),
        (b"\xef\xbb\xbfv1\n{}\n1", TORN),
        (b"v1\n{}\n\xff\xfe", TORN),
        (b"v9\n{}\n1", VERSION),
        (b"v1\n" + b'{"a":' * 100_000, TORN),
        (b'v1\n{"a":NaN}\n1', TORN),
        (b'v1\n{"batchWatermarkMs":' + b"9" * 10_000 + b"}\n1", TORN),
        (b"v2\n{}\nno colon here", TORN),
        (bytes(300), TORN),
    ],
)
def test_damage_is_named_and_never_raises_anything_else(data: bytes, kind: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(data)
    assert caught.value.kind == kind
    assert "offsets/7" in caught.value.detail
