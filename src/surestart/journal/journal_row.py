"""One row of the Delta table of remedies, in a commit of its own whose note repeats it.

Which stream passes over what an undo has taken back: one row beside the remedy's journal, written before the first
batch that does so.

A batch may end among the commits that are passed over: Delta counts the files that it leaves out. Where the checkpoint
then stands looks like that of a stream which has read them; this row tells one from the other."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.library_types import SparkSession
from surestart.spark.delta_table import create_in_catalog, save_to
from surestart.spark.every_line import select_values
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import surestart

_KINDS = {
    "digest": "STRING",
    "number": "INT",
    "state": "STRING",
    "step": "STRING",
    "at": "BIGINT",
    "entry": "STRING",
    "plan": "STRING",
}
# The journal is what an undo stands on, so its log is kept; the commits alone are read, newest first.
_PROPERTIES = {"delta.logRetentionDuration": "interval 3650 days", "delta.checkpointInterval": "100"}


def write_journal_row(
    spark: SparkSession, table: Table, values: Mapping[str, object], app: str, number: int, note: Mapping[str, object]
) -> None:
    """The row is there, once: Delta drops a second one of the same pair, and says nothing."""
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, _KINDS, _PROPERTIES)
        written = (
            spark.sql(select_values([{name: values[name] for name in _KINDS}], _KINDS))
            .coalesce(1)
            .write.format("delta")
            .mode("append")
            .options(**_PROPERTIES)
            .option("txnAppId", app)
            .option("txnVersion", str(number))
            .option("userMetadata", json.dumps(note))
        )
        save_to(table, written)


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
