"""How many tasks each batch of each query ran, read from Spark's event log: a cost that no busy machine changes.

    SparkListenerJobStart   Properties: sql.streaming.queryId, streaming.sql.batchId   Stage IDs
    SparkListenerTaskEnd    Stage ID

A job of the batch's thread carries both properties, Delta's own jobs (reading and writing its log) included.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BatchTasks:
    query_id: str
    batch: int
    jobs: int
    tasks: int
    writes_checkpoint: bool
    job_names: tuple[str, ...]


def event_log_confs(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def read_batch_tasks(folder: Path) -> list[BatchTasks]:
    """Every batch that ran a job, in order of its first job."""
    jobs: Counter[tuple[str, int]] = Counter()
    tasks: Counter[tuple[str, int]] = Counter()
    names: dict[tuple[str, int], list[str]] = {}
    owner: dict[int, tuple[str, int]] = {}
    checkpoints: set[tuple[str, int]] = set()
    for event in _events(folder):
        if event["Event"] == "SparkListenerJobStart":
            properties = event.get("Properties") or {}
            if "sql.streaming.queryId" not in properties or "streaming.sql.batchId" not in properties:
                continue
            batch = properties["sql.streaming.queryId"], int(properties["streaming.sql.batchId"])
            jobs[batch] += 1
            # The last line of a job's description is what runs; before it stand the query's name and ids.
            description = str(properties.get("spark.job.description", "")).rsplit("\n", 1)[-1]
            call = str(properties.get("callSite.short", ""))
            names.setdefault(batch, []).append(f"{description} @ {call}")
            if _is_checkpoint(event):
                checkpoints.add(batch)
            for stage in event["Stage IDs"]:
                owner[stage] = batch
        elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in owner:
            tasks[owner[event["Stage ID"]]] += 1
    return [BatchTasks(*batch, jobs[batch], tasks[batch], batch in checkpoints, tuple(names[batch])) for batch in jobs]


def _is_checkpoint(event: dict[str, Any]) -> bool:
    # The name of Delta's class: a MERGE that materializes its source mentions an RDD's checkpoint each time.
    return "delta.checkpoints" in json.dumps(event.get("Stage Infos", [])).lower()


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            with path.open() as lines:
                for line in lines:
                    yield json.loads(line)
