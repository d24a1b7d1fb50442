"""The journal of remedies as its Delta log has it, written without Spark: only the notes of its commits are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from surestart.environment import Environment
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FILLING,
    FINISHED,
    JOBS,
    NOTE,
    RELEASED,
    UNDOING,
    WITHDRAWN,
    JournalEntry,
)
from tests.deltalog.handmade import commit_file, create, info, write_commit

# What the journal holds of a remedy that stands there.
WAYS = {
    "filling": (FILLING, DONE),
    "undoing what was filled": (FILLING, DONE, UNDOING),
    "begun": (BEGUN, DONE),
    "released": (BEGUN, DONE, RELEASED),
    "finished": (BEGUN, DONE, RELEASED, FINISHED),
    "undoing": (BEGUN, DONE, RELEASED, FINISHED, UNDOING),
    "withdrawn": (BEGUN, DONE, RELEASED, FINISHED, UNDOING, WITHDRAWN),
}


def write_journal(
    environment: Environment,
    digest: str,
    way: str,
    query: str = "sensor-raw-ingest",
    remedy: str = "reset",
    paused: Mapping[str, Any] | None = None,
) -> None:
    """A remedy of the query that has come so far; a second call carries it further. paused: the jobs that it has
    paused, as they were before."""
    table = Path(environment.table("surestart_remedies").path)
    first = JournalEntry(digest, 0, BEGUN, remedy=remedy, stage=query.removeprefix("sensor-"), queries=(query,), at=1)
    version = 0
    while commit_file(table, version).exists():
        version += 1
    written = [path.read_text() for path in sorted((table / "_delta_log").glob("*.json"))]
    for number, state in enumerate(WAYS[way]):
        step, facts = (JOBS, paused) if paused is not None and state == DONE else ("", {})
        note = json.dumps({NOTE: asdict(replace(first, number=number, state=state, step=step, facts=facts))})
        if any(json.dumps(note) in text for text in written):
            continue
        # Delta allows one commitInfo to a commit: that of the table's creation carries the first note.
        actions = create()[1:] if version == 0 else []
        write_commit(table, version, info("WRITE", userMetadata=note), *actions)
        version += 1
