"""Puts runs of another query into a registry's log, one commit each, as a year of schedules would: Delta reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from surestart.environment import Environment, Table
from surestart.history.describe_run import describe_run
from surestart.history.run_record import ENDED, FINISHED, NOTE, TABLE
from surestart.stage import Stage

# What a commit of Spark's holds besides the note.
INFO = {
    "operation": "WRITE",
    "operationParameters": {"mode": "Append", "partitionBy": "[]"},
    "isolationLevel": "Serializable",
    "isBlindAppend": True,
    "operationMetrics": {"numFiles": "1", "numOutputRows": "1", "numOutputBytes": "21000"},
    "engineInfo": "Apache-Spark/4.0.0 Delta-Lake/4.4.0",
    "txnId": "b1f2b1f2-0000-4000-8000-000000000000",
}


def crowd(spark: Any, environment: Environment, stage: Stage, commits: int) -> int:
    """So many runs of a query `sensor-other` are in the history, which exists. Returns the log's newest version."""
    log = log_of(spark, environment.table(TABLE))
    newest = max(int(entry.stem) for entry in log.glob("*.json") if entry.stem.isdecimal())
    own = describe_run(spark, environment, stage)
    other = replace(
        own, event=ENDED, outcome=FINISHED, query="sensor-other", place="/elsewhere", checkpoint="/elsewhere"
    )
    info = {"timestamp": other.started_at, **INFO, "userMetadata": json.dumps({NOTE: [other.as_note()]})}
    text = json.dumps({"commitInfo": info}) + "\n"
    for number in range(1, commits + 1):
        fresh = text.replace(other.run_id, f"{other.run_id[:-8]}{number:08d}")
        (log / f"{newest + number:020d}.json").write_text(fresh)
    return newest + commits


def log_of(spark: Any, table: Table) -> Path:
    location = table.path or spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]["location"]
    return Path(unquote(urlsplit(location).path)) / "_delta_log"
