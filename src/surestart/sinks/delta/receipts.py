"""What the sink's tables themselves say of each batch: read from their new commits while a query runs.

    <table>/_delta_log/00000000000000000007.json    commitInfo: userMetadata (query id, batch id), operationMetrics

Spark's own number of input rows counts files, not lines, and counts a batch twice that is written twice. And Spark
reports a batch as done that Delta dropped as already seen; only the table knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surestart.declaration import SinkDeclaration
from surestart.facts.delta.actions import Action, read_actions
from surestart.facts.delta.commit import build_commit
from surestart.facts.delta.commit_notes import rows_of
from surestart.facts.delta.listing import commit_name
from surestart.facts.storage.open_storage import open_storage


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
            files = open_storage(path)
            try:
                while True:
                    receipts += _receipts(path, version, read_actions(files, commit_name(version), ("commitInfo",)))
                    version += 1
            except FileNotFoundError:
                self._next[path] = version
        return receipts


def _next_version(path: str) -> int:
    versions = [int(entry.stem) for entry in (Path(path) / "_delta_log").glob("*.json") if entry.stem.isdecimal()]
    return max(versions, default=-1) + 1


def _receipts(path: str, version: int, actions: Iterable[tuple[str, Action]]) -> list[Receipt]:
    """One, or none for a commit of somebody else."""
    commit = build_commit(version, actions)
    mark = commit.mark
    if mark is None:
        return []
    return [Receipt(path, version, mark.query_id, mark.batch_id, mark.step, rows_of(commit) or 0)]
