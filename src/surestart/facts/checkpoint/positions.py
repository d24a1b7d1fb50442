"""A source's position, from the JSON that the source wrote into the offset log.

Kafka        {"orders":{"0":100,"1":42}}                       the next offset to read, per partition
Delta        {"sourceVersion":1,"reservoirId":"…","reservoirVersion":12,"index":-1,"isStartingVersion":false}
files        {"logOffset":7}                                   number of the last entry in sources/K
rate         17                                                seconds since the first start
Auto Loader  {"seqNum":900,"sourceVersion":1,…}                number of files discovered; the list is in RocksDB
Iceberg      {"version":1,"snapshot_id":5,"position":2,"scan_all_files":false}
Kinesis      {"metadata":{"streamName":"s",…},"shardId-000000000000":{"iteratorType":"…","iteratorPosition":"495…"}}
             {"shards":[{"shard":{"stream":"s","shardId":"shardId-…"},"lastSeqNum":"495…",…}]}      Databricks' own
Event Hubs   {"hub":{"0":100,"1":42}}                          as Kafka: the checkpoint does not tell them apart
rate-micro-batch  {"offset":1000,"timestamp":1790000000000}    rows made so far
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surestart.facts.checkpoint.log_file import FormatError, parse_json

KAFKA = "kafka"
DELTA = "delta"
FILES = "files"
RATE = "rate"
AUTO_LOADER = "auto-loader"
ICEBERG = "iceberg"
KINESIS = "kinesis"
RATE_MICRO_BATCH = "rate-micro-batch"
NUMBER = "number"
UNKNOWN = "unknown"
NONE_YET = "none yet"


@dataclass(frozen=True)
class KafkaPosition:
    """partitions: topic -> partition -> next offset to read."""

    partitions: Mapping[str, Mapping[int, int]]
    kind: str = KAFKA

    def describe(self) -> str:
        parts = []
        for topic, offsets in sorted(self.partitions.items()):
            shown = ", ".join(f"{partition}@{offset}" for partition, offset in sorted(offsets.items())[:6])
            more = f", … {len(offsets)} partitions" if len(offsets) > 6 else ""
            parts.append(f"{topic} {shown}{more}")
        return "; ".join(parts[:5]) + (f"; … {len(parts)} topics" if len(parts) > 5 else "") or "no partition yet"


@dataclass(frozen=True)
class DeltaPosition:
    """Everything before (version, index) is read. index -1 stands before the version's first file."""

    table_id: str
    version: int
    index: int
    initial_snapshot: bool
    source_version: int = 1
    kind: str = DELTA

    def describe(self) -> str:
        if self.initial_snapshot:
            where = f"inside the initial snapshot at version {self.version}, file {self.index}"
        elif self.index == -1:
            where = f"everything up to version {self.version - 1}" if self.version > 0 else "nothing yet"
        elif self.index < -1:
            where = f"version {self.version}, schema change point {self.index}"
        else:
            where = f"version {self.version} up to file {self.index}"
        return f"{where} of table {self.table_id[:8]}…"


@dataclass(frozen=True)
class FilesPosition:
    """log_offset is the file source's own counter, not a batch id; -1: nothing discovered yet."""

    log_offset: int
    kind: str = FILES

    def describe(self) -> str:
        return f"entry {self.log_offset} of its file list" if self.log_offset >= 0 else "no file seen yet"


@dataclass(frozen=True)
class AutoLoaderPosition:
    sequence: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    kind: str = AUTO_LOADER

    def describe(self) -> str:
        return f"{self.sequence} files discovered (which ones: only Databricks can read that)"


@dataclass(frozen=True)
class IcebergPosition:
    """Everything before file `file` of that snapshot is read.

    whole: the table as it stood there, not what it added."""

    snapshot: int
    file: int
    whole: bool
    kind: str = ICEBERG

    def describe(self) -> str:
        what = "the whole table as of" if self.whole else "what was added by"
        return f"{what} snapshot {self.snapshot}, up to file {self.file}" if self.snapshot >= 0 else "nothing yet"


@dataclass(frozen=True)
class KinesisPosition:
    """shards: shard -> the last sequence number read, or the kind of iterator where none was read yet."""

    stream: str
    shards: Mapping[str, str]
    kind: str = KINESIS

    def describe(self) -> str:
        shown = [f"{_shard(name)} after {_ending(place)}" for name, place in sorted(self.shards.items())[:4]]
        more = f", … {len(self.shards)} shards" if len(self.shards) > 4 else ""
        return f"{self.stream or 'stream'} {', '.join(shown) or 'no shard yet'}{more}"


def _shard(name: str) -> str:
    """shardId-000000000003 is number 3 to a person."""
    number = name.removeprefix("shardId-")
    return f"shard {int(number)}" if number.isascii() and number.isdigit() else name[:60]


def _ending(place: str) -> str:
    """The last digits of a sequence number: it has 56, and the first ones are the same everywhere."""
    return f"…{place[-12:]}" if place.isascii() and place.isdigit() and len(place) > 16 else place[:40]


@dataclass(frozen=True)
class RowsPosition:
    rows: int
    kind: str = RATE_MICRO_BATCH

    def describe(self) -> str:
        return f"{self.rows:,} rows made"


@dataclass(frozen=True)
class NumberPosition:
    """A bare number: the rate source's seconds, a memory source's count, or a file source's entry before Spark 2.2."""

    value: int
    kind: str = NUMBER

    def describe(self) -> str:
        return f"{self.value} s after the first start" if self.kind == RATE else str(self.value)


@dataclass(frozen=True)
class UnknownPosition:
    text: str
    broken: bool = False
    kind: str = UNKNOWN

    def describe(self) -> str:
        return f"{'broken JSON' if self.broken else 'a source not known here'}: {self.text[:60]}"


@dataclass(frozen=True)
class NoPosition:
    """The line "-": the source had no offset yet."""

    kind: str = NONE_YET

    def describe(self) -> str:
        return "no position yet"


Position = (
    KafkaPosition
    | DeltaPosition
    | FilesPosition
    | AutoLoaderPosition
    | IcebergPosition
    | KinesisPosition
    | RowsPosition
    | NumberPosition
    | UnknownPosition
    | NoPosition
)
# Kind of a position -> the kinds of source that write it. Nothing is known of any other kind.
_CALLED = {
    KAFKA: (KAFKA, "event-hubs"),
    DELTA: (DELTA,),
    FILES: (FILES, AUTO_LOADER),
    AUTO_LOADER: (FILES, AUTO_LOADER),
    RATE: (RATE,),
    RATE_MICRO_BATCH: (RATE, RATE_MICRO_BATCH),
    ICEBERG: (ICEBERG,),
    KINESIS: (KINESIS,),
}


def may_be_called(found: str, declared: str) -> bool:
    """Whether a source that left positions of that kind can be the one that was declared."""
    return declared == "other" or declared in _CALLED.get(found, (declared,))


def read_position(text: str | None) -> Position:
    """The position that a line of the offset log tells; broken JSON gives UnknownPosition(broken=True)."""
    if text is None:
        return NoPosition()
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return NumberPosition(int(text))
    try:
        value, _ = parse_json(text, "the offset")
    except FormatError:
        return UnknownPosition(text, broken=True)
    if not isinstance(value, dict):
        return UnknownPosition(text)
    return _from_object(value, text)


def _from_object(value: dict[str, Any], text: str) -> Position:
    if _are_integers(value, "logOffset"):
        return FilesPosition(value["logOffset"])
    if _are_integers(value, "reservoirVersion", "index") and isinstance(value.get("reservoirId"), str):
        initial = value.get("isStartingVersion", value.get("isInitialSnapshot", False))
        return DeltaPosition(
            table_id=value["reservoirId"],
            version=value["reservoirVersion"],
            index=value["index"],
            initial_snapshot=initial is True,
            source_version=value.get("sourceVersion", 1) if _are_integers(value, "sourceVersion") else 1,
        )
    if _are_integers(value, "seqNum"):
        return AutoLoaderPosition(value["seqNum"], {key: item for key, item in value.items() if key != "seqNum"})
    if _are_integers(value, "snapshot_id", "position"):
        return IcebergPosition(value["snapshot_id"], value["position"], value.get("scan_all_files") is True)
    if value.keys() == {"offset", "timestamp"} and _are_integers(value, "offset", "timestamp"):
        return RowsPosition(value["offset"])
    if kinesis := _kinesis(value):
        return kinesis
    partitions: dict[str, dict[int, int]] = {}
    for topic, offsets in value.items():
        if not isinstance(offsets, dict):
            return UnknownPosition(text)
        for partition, offset in offsets.items():
            if not _PARTITION.fullmatch(partition) or type(offset) is not int:
                return UnknownPosition(text)
            partitions.setdefault(topic, {})[int(partition)] = offset
        partitions.setdefault(topic, {})
    return KafkaPosition(partitions)


def _kinesis(value: dict[str, Any]) -> KinesisPosition | None:
    listed = value.get("shards")
    if isinstance(listed, list) and listed and all(isinstance(one, dict) for one in listed):
        named = {str(_field(one, "shard", "shardId")): str(one.get("lastSeqNum") or "its begin") for one in listed}
        return KinesisPosition(str(_field(listed[0], "shard", "stream")), named)
    shards = {name: one for name, one in value.items() if name.startswith("shardId-") and isinstance(one, dict)}
    if not shards or value.keys() - shards.keys() - {"metadata"}:
        return None
    places = {name: str(one.get("iteratorPosition") or one.get("iteratorType", "")) for name, one in shards.items()}
    return KinesisPosition(str(_field(value, "metadata", "streamName")), places)


def _field(value: dict[str, Any], name: str, key: str) -> object:
    inner = value.get(name)
    return inner.get(key, "") if isinstance(inner, dict) else ""


_PARTITION = re.compile(r"[0-9]{1,9}")


def _are_integers(value: dict[str, Any], *keys: str) -> bool:
    return all(type(value.get(key)) is int for key in keys)
