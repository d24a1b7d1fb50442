"""offsets/N: what batch N is going to read, written before it runs.

    v1                                                            v2 (Spark 4.2+, opt in)
    {"batchWatermarkMs":0,"batchTimestampMs":17…,"conf":{…}}      the same, plus sourceMetadataInfo
    {"orders":{"0":100}}                 first source             0:{"orders":{"0":100}}     id, colon, offset
    -                                    second source: no        clicks:-
                                         offset yet
The second line may be empty in checkpoints of Spark 2.1 and older.

Which Spark wrote a batch, from the settings that it pinned: each release added keys; Spark notes no version.

commits/N: batch N is done, written after the sink returned.

    v1  {"nextBatchWatermarkMs":0}
    v2  … "stateUniqueIds":{"<operator>":[["<id of each store>"], one list per partition]}    (state format v2)
    v3  … "sinkMetadataMap":{"<sink>":{…}}    (Spark 4.2+, sink evolution)

The second line may be missing: Spark then takes {} and a watermark of 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surestart.facts.checkpoint.log_file import (
    TORN,
    FormatError,
    parse_json,
    parse_object,
    parse_version,
    split_log_lines,
)
from surestart.facts.checkpoint.positions import Position, read_position

SUPPORTED_VERSION = 2
VOID = "-"


@dataclass(frozen=True)
class SourceOffset:
    """id: the source's position in the query ("0", "1", …) in v1, its name in v2. text is None for "-"."""

    id: str
    text: str | None
    position: Position


@dataclass(frozen=True)
class OffsetLogEntry:
    """control: the operation of a batch that moves no row, such as REPARTITION; "" for every other batch."""

    batch: int
    version: int
    sources: tuple[SourceOffset, ...]
    watermark_ms: int | None = None
    timestamp_ms: int | None = None
    confs: Mapping[str, str] = field(default_factory=dict)
    control: str = ""
    has_metadata: bool = True
    trailing: str = ""
    size: int = 0


def parse_offset_log(batch: int, data: bytes) -> OffsetLogEntry:
    """The entry, or a FormatError that says which line is damaged."""
    what = f"offsets/{batch}"
    lines = split_log_lines(data, what)
    version = parse_version(lines[0], SUPPORTED_VERSION, what)
    if len(lines) < 2:
        raise FormatError(TORN, f"{what} ends after its version line ({len(data)} bytes)")
    metadata = lines[1].strip()
    fields = parse_object(metadata, f"line 2 of {what}") if metadata else {}
    confs = fields.get("conf")
    confs = {} if confs is None else confs
    if not isinstance(confs, dict):
        raise FormatError(TORN, f"line 2 of {what} has a conf that is not an object")
    sources = _named(lines[2:], what) if version == 2 else _by_position(lines[2:])
    control = fields.get("controlBatchInfo")
    if isinstance(control, dict):
        control = control.get("operationType", "of an unknown kind")
    return OffsetLogEntry(
        batch=batch,
        version=version,
        sources=tuple(sources),
        watermark_ms=_integer(fields, "batchWatermarkMs"),
        timestamp_ms=_integer(fields, "batchTimestampMs"),
        confs={str(key): str(value) for key, value in confs.items()},
        control="" if control is None else str(control),
        has_metadata=bool(metadata),
        trailing=_trailing(metadata, sources),
        size=len(data),
    )


def _by_position(lines: list[str]) -> list[SourceOffset]:
    return [_source(str(index), line) for index, line in enumerate(lines)]


def _named(lines: list[str], what: str) -> list[SourceOffset]:
    sources = []
    for line in lines:
        # Spark writes a newline after the last source of v2.
        if not line:
            continue
        name, colon, text = line.partition(":")
        if not colon:
            raise FormatError(TORN, f"a source line of {what} has no ':' after the source's name")
        sources.append(_source(name, text))
    return sources


def _source(source_id: str, line: str) -> SourceOffset:
    text = None if line == VOID else line
    return SourceOffset(source_id, text, read_position(text))


def _trailing(metadata: str, sources: list[SourceOffset]) -> str:
    """Bytes behind the JSON of a line, which Spark's parser passes over: something was appended to the file."""
    for text in (metadata, *(source.text for source in sources)):
        if text and text.startswith("{"):
            try:
                _, rest = parse_json(text, "")
            except FormatError:
                continue
            if rest:
                return rest[:80]
    return ""


def _integer(fields: dict[str, Any], key: str) -> int | None:
    value = fields.get(key)
    # Java's long: no time and no watermark is outside of it.
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


# key -> the first release line that pins it (OffsetSeqMetadata.relevantSQLConfs of each release).
_FIRST = {
    "spark.sql.streaming.multipleWatermarkPolicy": "2.4",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2.4",
    "spark.sql.streaming.join.stateFormatVersion": "3.0",
    "spark.sql.streaming.stateStore.compression.codec": "3.1",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": "3.2",
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "3.3",
    "spark.sql.streaming.stateStore.encodingFormat": "4.0",
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": "4.2",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "4.2",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "4.2",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "4.3",
}
_RANGES = {
    "2.4": "2.4",
    "3.0": "3.0",
    "3.1": "3.1",
    "3.2": "3.2",
    "3.3": "3.3-3.5",
    "4.0": "4.0-4.1",
    "4.2": "4.2",
    "4.3": "4.3 or newer",
}


def guess_writer_version(confs: Mapping[str, str], *, visible_checksums: bool = False) -> str | None:
    """Such as "4.0-4.1"; None when the settings do not tell. Vendors' builds may pin other keys."""
    found = [version for key, version in _FIRST.items() if key in confs]
    if not found:
        return "2.1-2.3" if confs else None
    newest = max(found, key=lambda version: tuple(int(part) for part in version.split(".")))
    # Files beside the state with visible names `….crc` first appear in 4.1.
    text = "4.1" if newest == "4.0" and visible_checksums else _RANGES[newest]
    return f"{text} (Databricks)" if any(key.startswith("spark.databricks.") for key in confs) else text


SUPPORTED_COMMIT_VERSION = 3


@dataclass(frozen=True)
class CommitLogEntry:
    """state_ids: operator -> partition -> the id of each store.
    bare: the file has only its version line."""

    batch: int
    version: int
    next_watermark_ms: int | None = None
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    bare: bool = False
    trailing: str = ""
    size: int = 0


def parse_commit_log(batch: int, data: bytes) -> CommitLogEntry:
    """The entry, or a FormatError that says what is damaged."""
    what = f"commits/{batch}"
    lines = split_log_lines(data, what)
    version = parse_version(lines[0].strip(), SUPPORTED_COMMIT_VERSION, what)
    bare = len(lines) < 2
    fields = {} if bare else parse_object(lines[1], f"line 2 of {what}")
    watermark = fields.get("nextBatchWatermarkMs")
    sinks = fields.get("sinkMetadataMap") or {}
    return CommitLogEntry(
        batch=batch,
        version=version,
        next_watermark_ms=watermark if type(watermark) is int and -(2**63) <= watermark < 2**63 else None,
        state_ids=_state_ids(fields.get("stateUniqueIds") or {}, what),
        sinks=tuple(sinks) if isinstance(sinks, dict) else (),
        bare=bare,
        trailing="" if bare else parse_json(lines[1], what)[1][:80] or "".join(lines[2:3])[:80],
        size=len(data),
    )


def _state_ids(value: Any, what: str) -> dict[int, tuple[tuple[str, ...], ...]]:
    try:
        return {
            int(operator): tuple(tuple(str(store) for store in stores) for stores in partitions)
            for operator, partitions in value.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(TORN, f"stateUniqueIds of {what} is not operator -> partitions -> stores") from error
