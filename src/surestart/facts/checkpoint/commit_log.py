"""commits/N: batch N is done, written after the sink returned.

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

SUPPORTED_VERSION = 3


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
    version = parse_version(lines[0].strip(), SUPPORTED_VERSION, what)
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
