"""A source's position, from the JSON that the source wrote into the offset log.

Kafka        {"orders":{"0":100,"1":42}}                       the next offset to read, per partition
Delta        {"sourceVersion":1,"reservoirId":"…","reservoirVersion":12,"index":-1,"isStartingVersion":false}
files        {"logOffset":7}                                   number of the last entry in sources/K
rate         17                                                seconds since the first start
Auto Loader  {"seqNum":900,"sourceVersion":1,…}                number of files discovered; the list is in RocksDB
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
    KafkaPosition | DeltaPosition | FilesPosition | AutoLoaderPosition | NumberPosition | UnknownPosition | NoPosition
)


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


_PARTITION = re.compile(r"[0-9]{1,9}")


def _are_integers(value: dict[str, Any], *keys: str) -> bool:
    return all(type(value.get(key)) is int for key in keys)
