"""Which stream passes over what an undo has taken back: one row beside the remedy's journal, written before the first
batch that does so.

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
from surestart.typed import surestart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = "surestart_passed"


@dataclass(frozen=True)
class PassOverNote:
    """step: the step of the remedy whose undo has taken something back.
    stream: a query id; for a stream that has none yet, where it begins."""

    digest: str
    step: str
    stream: str


def append_pass_over_note(spark: SparkSession, table: Table, passing: PassOverNote) -> None:
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


def read_pass_over_note(note: str) -> PassOverNote | None:
    """None for anybody else's note."""
    if f'"{_NOTE}"' not in note:
        return None
    try:
        body = json.loads(note)[_NOTE]
        return PassOverNote(str(body["digest"]), str(body["step"]), str(body["stream"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise CannotTell(
            "the journal of remedies has an entry that this version cannot read",
            meaning="Which stream has passed over what an undo has taken back cannot be told, so nothing is started.",
            next=surestart("--version", note="and use the version that wrote it, or a newer one"),
            code="JournalUnreadable",
        ) from problem
