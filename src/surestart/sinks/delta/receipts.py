"""What the sink's tables themselves say of each batch: read from their new commits while a query runs.

    <table>/_delta_log/00000000000000000007.json    commitInfo: userMetadata (query id, batch id), operationMetrics

Spark's own number of input rows counts files, not lines, and counts a batch twice that is written twice. And Spark
reports a batch as done that Delta dropped as already seen; only the table knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surestart.declaration import SinkDeclaration

_ROWS = {"WRITE": "numOutputRows", "MERGE": "numSourceRows"}


@dataclass(frozen=True)
class Receipt:
    table: str
    version: int
    query_id: str
    batch_id: int
    step: str
    rows: int


def has_receipts(path: str) -> bool:
    """Whether the table's commits are files that this process can read."""
    return path.startswith("/")


class ReceiptReader:
    """Reads each new commit of the tables once. Covers tables by local path; for others it has no receipts."""

    def __init__(self, declared: Iterable[SinkDeclaration]) -> None:
        sinks = tuple(declared)
        self._next = {
            sink.path: _next_version(sink.path) for sink in sinks if has_receipts(sink.path) and "delta" in sink.kind
        }
        self.covered = frozenset(self._next)
        self.complete = bool(self._next) and len(self._next) == len(sinks)

    def read_new(self) -> list[Receipt]:
        receipts = []
        for path, version in self._next.items():
            while True:
                try:
                    text = _log(path, version).read_text(encoding="utf-8")
                except FileNotFoundError:
                    break
                receipt = _receipt(path, version, text)
                if receipt:
                    receipts.append(receipt)
                version += 1
            self._next[path] = version
        return receipts


def _next_version(path: str) -> int:
    versions = [int(entry.stem) for entry in (Path(path) / "_delta_log").glob("*.json") if entry.stem.isdecimal()]
    return max(versions, default=-1) + 1


def _log(path: str, version: int) -> Path:
    return Path(path) / "_delta_log" / f"{version:020d}.json"


def _receipt(path: str, version: int, text: str) -> Receipt | None:
    for line in text.splitlines():
        if not line.startswith('{"commitInfo"'):
            continue
        info = json.loads(line)["commitInfo"]
        try:
            note = json.loads(info.get("userMetadata") or "{}").get("surestart")
        except (ValueError, AttributeError):
            return None  # somebody else's commit
        if not isinstance(note, dict) or "batch_id" not in note:
            return None
        rows = int(info.get("operationMetrics", {}).get(_ROWS.get(info.get("operation"), ""), 0))
        # Behind a MERGE that could not carry the note: the rows are that one's.
        rows = int(note.get("merged_rows", rows))
        return Receipt(path, version, str(note["query_id"]), int(note["batch_id"]), str(note.get("step", "")), rows)
    return None
