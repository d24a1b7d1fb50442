"""Asks each declared sink what it holds: by plain file reads, where its files may be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from surestart.declaration import SinkDeclaration
from surestart.errors import SurestartError
from surestart.facts.delta import Commit, DeltaLog, read_active_files, read_delta_log, read_history
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.delta.taken_out import needs_its_files
from surestart.facts.evidence.file_sink import FILE_SINKS, read_file_sink, read_output_folder
from surestart.facts.evidence.iceberg_sink import ICEBERG, is_iceberg, read_iceberg_sink
from surestart.facts.evidence.sink_evidence import (
    HISTORY,
    LEDGER,
    SinkEvidence,
    app_ids,
    evidence_from_log,
    sink_missing,
    sink_unreadable,
    sink_without_record,
)
from surestart.facts.evidence.sink_names import SINK_KINDS, UNRECORDED
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.storage import Storage

# Enough to see a RESTORE of the last hours of a stream that commits twice a minute, in some 50 ms.
COMMITS = 300
# How far back it is read where the newest ones do not reach the query's own last commit: about two seconds.
MORE_COMMITS = 20_000


def read_sinks(
    sinks: Iterable[SinkDeclaration],
    given: Mapping[str, SinkEvidence] | None = None,
    *,
    count_rows: bool,
    query_id: str | None = None,
) -> dict[str, SinkEvidence]:
    """Evidence by the sink's target. `given` holds what a session or a database connection has already answered.

    count_rows: also say whether the table is empty, which costs a read of its file list; only a first start needs it.
    query_id: the table's history is read back to this query's last commit, because all that came after it counts.
    """
    known = dict(given or {})
    for sink in sinks:
        if sink.target not in known:
            known[sink.target] = read_sink(sink, count_rows=count_rows, query_id=query_id)
    return known


def read_sink(sink: SinkDeclaration, *, count_rows: bool, query_id: str | None = None) -> SinkEvidence:
    if sink.kind == "postgres":
        return sink_unreadable("its ledger is in a database that was not connected to", LEDGER)
    if sink.kind in UNRECORDED or sink.kind not in SINK_KINDS:
        # An unknown kind of sink: its folder says nothing of its batches, whether there are files in it or not.
        return sink_without_record()
    if sink.kind in FILE_SINKS:
        return read_file_sink(sink.path or sink.target)
    if sink.kind == "iceberg" and not sink.path:
        return sink_unreadable("only its catalog knows where its metadata is: name its folder instead", ICEBERG)
    if sink.kind == "iceberg":
        return read_iceberg_sink(sink.path, query_id)
    if not sink.path:
        return sink_unreadable(
            "its files cannot be opened by name; DESCRIBE HISTORY through a session can tell", HISTORY
        )
    try:
        # One storage for all questions: one listing, one budget.
        files = open_storage(sink.path)
        log = read_delta_log(sink.path, files)
        has_rows = _has_rows(sink.path, log.latest_version, files) if count_rows else None
        commits, unreached = _read_back(files, log, query_id)
        return replace(evidence_from_log(log, commits, has_rows), unreached=unreached)
    except NoDeltaLog:
        return _without_delta_log(sink, query_id)
    except SurestartError as problem:
        return sink_unreadable(problem)


def _without_delta_log(sink: SinkDeclaration, query_id: str | None) -> SinkEvidence:
    """No Delta table is there. Where nobody said that one has to be, what lies there may be another kind of sink."""
    try:
        found = read_output_folder(open_storage(sink.path))
        if sink.kind in ("delta", "foreach-batch") and is_iceberg(open_storage(sink.path)):
            return read_iceberg_sink(sink.path, query_id)
    except FileNotFoundError:
        return sink_missing()
    except OSError as error:
        return sink_unreadable(f"no Delta table is there: {type(error).__name__}: {error}")
    if found.file_log and sink.kind == "delta":
        return read_file_sink(sink.path)
    if found.file_log:
        return sink_unreadable(f"Spark's file sink writes it, and no Delta table is there: --sink parquet:{sink.path}")
    if found.rows and sink.kind in ("delta", "foreach-batch"):
        return sink_without_record()
    return sink_missing()


def _read_back(files: Storage, log: DeltaLog, query_id: str | None) -> tuple[tuple[Commit, ...], frozenset[str]]:
    """The newest commits, back to the last one of each writer that is this query, and the writers not reached."""
    commits = read_history(files.location, files, until=log.latest_version, limit=COMMITS)
    ours = {app for app in log.transactions if query_id and (app == query_id or app.startswith(f"{query_id}:"))}
    ours = {app for app in ours if not is_named(commits, app)}
    step = COMMITS
    while ours and commits and commits[0].version > log.earliest_commit and len(commits) < MORE_COMMITS:
        step = min(2 * step, MORE_COMMITS - len(commits))
        older = read_history(files.location, files, until=commits[0].version - 1, limit=step)
        if not older:
            break
        ours = {app for app in ours if not is_named(older, app)}
        commits = (*older, *commits)
    return tuple(_with_files(files, commits)), frozenset(ours)


def _with_files(files: Storage, commits: Sequence[Commit]) -> Iterator[Commit]:
    """Those of operations that are not known here with what they did to files; the newest of them, if there are many:
    for the others it stays open."""
    unknown = {commit.version for commit in [one for one in commits if needs_its_files(one)][-COMMITS:]}
    for commit in commits:
        if commit.version in unknown:
            yield from read_history(files.location, files, commit.version, commit.version, with_files=True)
        else:
            yield commit


def is_named(commits: Iterable[Commit], app_id: str) -> bool:
    return any(app_id in app_ids(commit) for commit in commits)


def _has_rows(path: str, version: int, storage: Storage) -> bool:
    """False only when every file is known to be empty; a file without statistics may hold rows."""
    return any(file.rows is None or file.rows > file.deleted_rows for file in read_active_files(path, version, storage))
