"""Small values that the tests of this folder put together: stages, sinks, commits, checkpoints on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.facts.delta import Commit, CommitMark, Transaction
from surestart.facts.evidence.sink_evidence import LOG, SinkEvidence

QUERY_ID = "3b53f874-6b63-4e52-93c9-9000f3988b11"
FORMER_ID = "07cfe5c4-0000-4c5f-8f6e-2f3f5a6b7c8d"
QUERY = "sensor-ingest"
NOW = 1_800_000_000_000
DAY = 86_400_000
TABLE_ID = "c5fdbbd3-1111-4a4a-9b9b-aaaaaaaaaaaa"

APPEND = SinkDeclaration("delta-append", "/t", "/t")
MERGE = SinkDeclaration("delta-merge", "/t", "/t", keys=("sensor_id",))
FILES = SourceDeclaration("files", "/landing", "/landing")


def stage(sink: SinkDeclaration = APPEND, source: SourceDeclaration = FILES, **more: object) -> StageDeclaration:
    values: dict[str, object] = {
        "stage": "ingest",
        "query": QUERY,
        "checkpoint": "/ck/sensor-ingest",
        "sources": (source,),
        "sinks": (sink,),
    }
    return StageDeclaration(**{**values, **more})  # type: ignore[arg-type]


def batch_commit(version: int, batch: int, query_id: str = QUERY_ID, query: str = QUERY, step: str = "") -> Commit:
    mark = CommitMark(query=query, query_id=query_id, batch_id=batch, stage="ingest", step=step)
    return Commit(version, NOW - DAY + version, "WRITE", mark=mark, transactions=((mark.app_id, batch),))


def table(
    transactions: Mapping[str, int] | None = None, commits: tuple[Commit, ...] = (), **more: object
) -> SinkEvidence:
    """Evidence of a Delta table whose writers' last batches are `transactions`, or those that the commits name."""
    given = dict(transactions or {})
    for commit in commits:
        given.update(commit.transactions)
    known = {app_id: Transaction(batch, NOW - DAY) for app_id, batch in given.items()}
    return SinkEvidence(source=LOG, transactions=known, commits=commits, **more)  # type: ignore[arg-type]


def write_checkpoint(
    folder: Path,
    *,
    planned: int | None,
    committed: int | None,
    query_id: str | None = QUERY_ID,
    offset: str = '{"logOffset":0}',
    confs: Mapping[str, str] | None = None,
) -> Path:
    """A checkpoint as Spark 4.0 writes it, with every batch up to the two numbers."""
    folder.mkdir(parents=True)
    if query_id is not None:
        (folder / "metadata").write_text(json.dumps({"id": query_id}))
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": NOW - DAY, "conf": dict(confs or {})})
    for batch in range(-1 if planned is None else planned + 1):
        (folder / "offsets" / str(batch)).write_text(f"v1\n{head}\n{offset}")
    for batch in range(-1 if committed is None else committed + 1):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder
