"""Asks each declared sink what it holds, with plain file reads where its files may be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from surestart.declaration import SinkDeclaration
from surestart.deltalog import read_active_files, read_delta_log, read_history
from surestart.deltalog.listing import NoDeltaLog
from surestart.diagnosis.sink_evidence import (
    HISTORY,
    LEDGER,
    LOG,
    SinkEvidence,
    evidence_from_log,
    sink_missing,
    sink_unreadable,
)
from surestart.errors import CannotTell

# Enough to see a RESTORE of the last hours of a stream that commits twice a minute, in some 50 ms.
COMMITS = 300


def read_sinks(
    sinks: Iterable[SinkDeclaration], given: Mapping[str, SinkEvidence] | None = None, *, count_rows: bool
) -> dict[str, SinkEvidence]:
    """Evidence by the sink's target. `given` holds what a session or a database connection has already answered.

    count_rows: also say whether the table is empty, which costs a read of its file list; only a first start needs it.
    """
    known = dict(given or {})
    for sink in sinks:
        if sink.target not in known:
            known[sink.target] = read_sink(sink, count_rows=count_rows)
    return known


def read_sink(sink: SinkDeclaration, *, count_rows: bool) -> SinkEvidence:
    if sink.kind == "postgres":
        return sink_unreadable("its ledger is in a database that was not connected to", LEDGER)
    if not sink.path:
        return sink_unreadable(
            "its files cannot be opened by name; DESCRIBE HISTORY through a session can tell", HISTORY
        )
    if sink.kind in ("parquet", "jdbc", "foreach"):
        return SinkEvidence(source=LOG, complete=False)
    try:
        log = read_delta_log(sink.path)
        has_rows = _has_rows(sink.path, log.latest_version) if count_rows else None
        return evidence_from_log(log, read_history(sink.path, limit=COMMITS), has_rows)
    except NoDeltaLog:
        return sink_missing()
    except CannotTell as problem:
        return sink_unreadable(problem)


def _has_rows(path: str, version: int) -> bool:
    """False only when every file is known to be empty; a file without statistics may hold rows."""
    return any(file.rows is None or file.rows > file.deleted_rows for file in read_active_files(path, version))
