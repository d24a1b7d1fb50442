"""Each place that the walk has found, read: what its own files say, and nothing that they do not say.

A source's position names the snapshot that it reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

from surestart.errors import CannotTell, SurestartError
from surestart.facts.checkpoint.file_list import plain_path
from surestart.facts.checkpoint.find_checkpoints import ICEBERG
from surestart.facts.checkpoint.log_file import FormatError, LogFault
from surestart.facts.checkpoint.positions import (
    DELTA,
    FILES,
    KAFKA,
    KINESIS,
    RATE,
    DeltaPosition,
    IcebergPosition,
    KafkaPosition,
    KinesisPosition,
)
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource, read_checkpoint
from surestart.facts.delta import Commit, DeltaLog, read_delta_log, read_history
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.evidence.file_sink import read_file_sink
from surestart.facts.evidence.iceberg_sink import Snapshot, read_iceberg_metadata
from surestart.facts.evidence.sink_evidence import app_ids, batch_of
from surestart.facts.evidence.source_evidence import read_listed_paths
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import Storage
from surestart.streams.adopt.found import FoundCheckpoint, FoundSource, FoundTable, Places, Writer

# The newest commits of a table: where writers took turns is seen in them. On a store each is a request.
COMMITS_LOCAL, COMMITS_REMOTE = 1_000, 50
# More paths than that are not held against each other.
MOST_PATHS = 200_000
_QUERY_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])")
_ADDING = {"WRITE", "MERGE", "COPY INTO", "STREAMING UPDATE", "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}
_ADDING.add("CREATE OR REPLACE TABLE AS SELECT")
# A folder that is one of many: a partition, a date, a number.
_ONE_OF_MANY = re.compile(r"=|^\d+$|(?<!\d)20\d{2}[-_.]?(?:0[1-9]|1[0-2])")


def read_checkpoints(places: Places) -> list[FoundCheckpoint]:
    """Those of the places that are checkpoints, and not a folder with a file called `metadata`. One that cannot be read
    is one: whoever walked there has seen its logs."""
    found = []
    for place in places.checkpoints:
        storage = bounded(place)
        checkpoint = read_checkpoint(place.location, storage, entries=2)
        if checkpoint.query_id is None and not _is_a_checkpoint(checkpoint):
            continue
        found.append(_found_checkpoint(checkpoint, storage))
    return found


def _is_a_checkpoint(checkpoint: Checkpoint) -> bool:
    logs = (checkpoint.offsets_folder, checkpoint.commits_folder)
    return any(log.ids or log.exists is not False for log in logs) or bool(checkpoint.state.operators)


def _found_checkpoint(checkpoint: Checkpoint, storage: Storage) -> FoundCheckpoint:
    return FoundCheckpoint(
        location=checkpoint.location,
        query_id=checkpoint.query_id or "",
        last_batch=checkpoint.latest_planned,
        sources=tuple(_found_source(source, storage) for source in checkpoint.sources),
        state=tuple(operator.name or "" for operator in checkpoint.state.operators),
        unread=_unread(checkpoint),
    )


def _unread(checkpoint: Checkpoint) -> str:
    """Of what names the query and its sources."""
    found = [checkpoint.metadata_fault, *checkpoint.offsets_folder.faults, *checkpoint.offsets.values()]
    return "; ".join(dict.fromkeys(f"{one.path}: {one.detail}" for one in found if isinstance(one, LogFault)))


def _found_source(source: CheckpointSource, storage: Storage) -> FoundSource:
    position = source.end or source.start
    shown = position.describe() if position is not None else ""
    kind, subject = source.kind, ""
    if isinstance(position, KafkaPosition):
        kind, subject = KAFKA, ",".join(sorted(position.partitions))
    elif isinstance(position, DeltaPosition):
        kind, subject = DELTA, position.table_id
    elif kind == FILES:
        subject = _folder_of_all(source, storage)
    elif kind == RATE:
        subject = RATE
    elif isinstance(position, IcebergPosition):
        kind, subject = ICEBERG, str(position.snapshot)
    elif isinstance(position, KinesisPosition):
        kind, subject = KINESIS, position.stream
    elif kind == KAFKA and source.folder is not None and source.folder.initial is not None:
        subject = ",".join(sorted(source.folder.initial.partitions))
    return FoundSource(source.id, kind, subject, shown)


def _folder_of_all(source: CheckpointSource, storage: Storage) -> str:
    """The folder in which every file of the list lies; "" where the list is not whole."""
    log = source.folder.file_log if source.folder else None
    if log is None or log.missing or not log.last_path:
        return ""
    try:
        first = log.compact if log.compact is not None else log.first
        paths = read_listed_paths(storage, source.id, 0 if log.compact is not None else first, log.last, MOST_PATHS)
    except (OSError, ValueError):
        return ""
    return folder_of_all(paths)


def folder_of_all(paths: Iterable[str]) -> str:
    """The folder that all of these files lie in, above partitions and dates."""
    folders = {plain_path(path).rpartition("/")[0] for path in paths}
    if len({folder.partition("/")[0] for folder in folders}) != 1:
        return ""
    names = os.path.commonpath(folders).split("/")
    cut = next((index for index, name in enumerate(names) if _ONE_OF_MANY.search(name)), len(names))
    scheme, colon, rest = "/".join(names[:cut]).rpartition(":/")
    if not rest.strip("/"):
        return ""
    if scheme in ("", "file"):
        return unquote(f"/{rest.lstrip('/')}" if colon else rest)
    return f"{scheme}{':/' if scheme == 'dbfs' else '://'}{rest}"


def read_tables(places: Places) -> list[FoundTable]:
    """Every table; one that cannot be read has a problem, and is not a table without writers."""
    return [_read_table(kind, bounded(place)) for kind, place in places.tables]


def _read_table(kind: str, storage: Storage) -> FoundTable:
    location = storage.location
    try:
        if kind == DELTA:
            return _read_delta(storage)
        if kind == ICEBERG:
            return read_iceberg(location, storage)
        held = read_file_sink(location, storage)
        if held.problem:
            return FoundTable(location, kind, problem=held.problem)
        return FoundTable(location, kind, last_batch=held.batches.last if held.batches else None)
    except NoDeltaLog:
        return FoundTable(location, kind, problem="its _delta_log holds no commit")
    except SurestartError as error:
        return FoundTable(location, kind, problem=error.what)
    except OSError as error:
        return FoundTable(location, kind, problem=f"{type(error).__name__}: {error.strerror or error}")


def _read_delta(storage: Storage) -> FoundTable:
    location = storage.location
    log = read_delta_log(location, storage)
    limit = COMMITS_LOCAL if storage.kind == "local" else COMMITS_REMOTE
    try:
        commits = read_history(location, storage, until=log.latest_version, limit=limit)
    except CannotTell:
        # What the newest checkpoint of the log remembers stands all the same.
        commits = log.commits
    former = {commit.table_id for commit in commits if commit.table_id}
    return FoundTable(
        location=location,
        kind=DELTA,
        id=log.table_id,
        ids=frozenset({log.table_id, *former} - {""}),
        writers=_writers(log, commits),
        unsigned=tuple(one.version for one in commits if one.operation in _ADDING and not app_ids(one)),
        whole=bool(commits) and commits[0].version == 0,
    )


def _writers(log: DeltaLog, commits: Sequence[Commit]) -> dict[str, Writer]:
    """Whom the log remembers, and whom the commits name that it has forgotten."""
    remembered = log.transactions
    named = {app_id for commit in commits for app_id in app_ids(commit)} - remembered.keys()
    found = {name: _writer(name, one.version, one.last_updated, commits) for name, one in remembered.items()}
    return {**found, **{app_id: _writer(app_id, -1, None, commits) for app_id in sorted(named)}}


def _writer(app_id: str, batch: int, time: int | None, commits: Iterable[Commit]) -> Writer:
    own = [commit for commit in commits if app_id in app_ids(commit)]
    newest = max((number for commit in own if (number := batch_of(commit, app_id)) is not None), default=batch)
    modes = {str(commit.parameters.get("outputMode", "")).lower() for commit in own} - {""}
    return Writer(
        app_id=app_id,
        query_id=query_in(app_id),
        last_batch=max(batch, newest),
        last_time=time or (own[-1].timestamp if own else None),
        first=own[0].version if own else None,
        last=own[-1].version if own else None,
        operations=frozenset(commit.operation for commit in own),
        output_modes=frozenset(modes),
        query=next((commit.mark.query for commit in reversed(own) if commit.mark), ""),
        marked=bool(own) and all(commit.mark for commit in own),
    )


def query_in(app_id: str) -> str:
    """The query id that an application id is or holds: no other text has those 32 digits by chance."""
    found = _QUERY_ID.findall(app_id)
    return found[0] if len(found) == 1 else ""


def read_iceberg(location: str, storage: Storage) -> FoundTable:
    """Raises OSError; a file that is not Iceberg's is a problem of the table."""
    try:
        metadata = read_iceberg_metadata(storage)
    except FormatError as error:
        return FoundTable(location, "iceberg", problem=error.detail)
    if metadata is None:
        return FoundTable(location, "iceberg", problem="its metadata folder has no numbered metadata file")
    snapshots = tuple(metadata.snapshots.values())
    return FoundTable(
        location=location,
        kind="iceberg",
        id=metadata.table_id,
        ids=frozenset({metadata.table_id} - {""}),
        snapshots=frozenset(metadata.snapshots),
        writers={writer.app_id: writer for writer in _iceberg_writers(snapshots)},
        unsigned=tuple(
            index
            for index, one in enumerate(snapshots)
            if not one.query and one.summary.get("operation") in ("append", "overwrite")
        ),
    )


def _iceberg_writers(snapshots: Sequence[Snapshot]) -> Iterator[Writer]:
    named: dict[str, list[tuple[int, int, int | None]]] = {}
    for index, one in enumerate(snapshots):
        if one.query and one.epoch is not None:
            named.setdefault(one.query, []).append((index, one.epoch, one.timestamp))
    for query, found in named.items():
        yield Writer(
            app_id=query,
            query_id=query.lower(),
            last_batch=max(epoch for _, epoch, _ in found),
            last_time=found[-1][2],
            first=found[0][0],
            last=found[-1][0],
        )
