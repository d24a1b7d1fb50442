"""Who passes over what an undo has taken back: one row beside the remedy's journal, before the first batch that does.

A batch may end among the commits that are passed over: Delta counts the files that it leaves out. Where the checkpoint
then stands looks like that of a stream which has read them; this row tells one from the other.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.journal.journal_row import write_journal_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = "surestart_passed"


@dataclass(frozen=True)
class Passing:
    """step: the remedy's, whose undo has taken something back.
    stream: a query id, or the begin of one that has none yet."""

    digest: str
    step: str
    stream: str


def append_passing(spark: SparkSession, table: Table, passing: Passing) -> None:
    """It is noted, once."""
    body = asdict(passing)
    values = {
        "digest": passing.digest,
        "number": -1,
        "state": "passed",
        "step": passing.step,
        "at": int(time.time() * 1000),
        "entry": json.dumps(body, sort_keys=True),
        "plan": "",
    }
    app = f"passed-{passing.digest}-{passing.step}-{passing.stream}"
    write_journal_row(spark, table, values, app, 0, {_NOTE: body})


def read_passing(note: str) -> Passing | None:
    """None for anybody else's note."""
    if f'"{_NOTE}"' not in note:
        return None
    try:
        body = json.loads(note)[_NOTE]
        return Passing(str(body["digest"]), str(body["step"]), str(body["stream"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise CannotTell(
            "the journal of remedies has an entry that this version cannot read",
            meaning="Which stream has passed over what an undo has taken back cannot be told, so nothing is started.",
            next="surestart --version  # and use the version that wrote it, or a newer one",
            code="JournalUnreadable",
        ) from problem
