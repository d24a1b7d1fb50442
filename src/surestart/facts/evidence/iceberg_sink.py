"""What an Iceberg table knows of a query's batches, from its metadata file.

Spark's streaming write walks from the current snapshot to its parents until it meets one of its query id, and drops a
batch that is not above the epoch it finds there (SparkWrite.findLastCommittedEpochId). Where the chain ends in a parent
that was expired before it met one, it knows none of its batches: whether it wrote them cannot be told from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from surestart.errors import SurestartError
from surestart.facts.checkpoint.log_file import FormatError
from surestart.facts.delta import Commit, Transaction
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import FileChanges
from surestart.facts.evidence.iceberg_metadata import EPOCH, QUERY, IcebergMetadata, Snapshot, read_iceberg_metadata
from surestart.facts.evidence.sink_evidence import SinkEvidence, sink_missing, sink_unreadable
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.storage import Storage

ICEBERG = "iceberg metadata"


def read_iceberg_sink(folder: str, query_id: str | None = None, storage: Storage | None = None) -> SinkEvidence:
    """Which batches of which query ids the table holds. query_id: whose batches would be looked for on branches, too.
    Metadata that is missing, torn or refused is three different answers."""
    try:
        files = storage or open_storage(folder)
        try:
            metadata = read_iceberg_metadata(files)
        except FileNotFoundError:
            metadata = None
        return _without_metadata(files) if metadata is None else _evidence(metadata, query_id)
    except FormatError as error:
        return sink_unreadable(f"{folder}: {error.detail}", ICEBERG)
    except OSError as error:
        return sink_unreadable(f"{folder} cannot be read: {type(error).__name__}: {error}", ICEBERG)
    except SurestartError as error:
        return sink_unreadable(error, ICEBERG)


def _without_metadata(files: Storage) -> SinkEvidence:
    try:
        found = any(not entry.name.startswith((".", "_")) for entry in files.list_folder(""))
    except FileNotFoundError:
        return sink_missing(ICEBERG)
    if found:
        return sink_unreadable(f"{files.location} holds files and no Iceberg metadata", ICEBERG)
    return sink_missing(ICEBERG)


def _evidence(metadata: IcebergMetadata, query_id: str | None) -> SinkEvidence:
    chain, whole = _ancestors(metadata.snapshots, metadata.current)
    transactions: dict[str, Transaction] = {}
    for snapshot in chain:
        if snapshot.query and snapshot.epoch is not None and snapshot.query not in transactions:
            transactions[snapshot.query] = Transaction(snapshot.epoch, snapshot.timestamp)
    if query_id and query_id not in transactions and (branch := _branch_of(query_id, metadata)):
        return sink_unreadable(f"this query writes to its branch {branch!r}, and only the main one is judged", ICEBERG)
    commits = tuple(_commits(chain[::-1], whole))
    return SinkEvidence(
        source=ICEBERG,
        transactions=transactions,
        complete=whole,
        commits=commits,
        has_rows=_has_rows(chain),
        table_id=metadata.table_id,
        latest_version=commits[-1].version if commits else None,
    )


def _ancestors(snapshots: Mapping[int, Snapshot], newest: int | None) -> tuple[list[Snapshot], bool]:
    """Newest first, and whether the chain goes back to the first snapshot."""
    chain: list[Snapshot] = []
    while newest is not None:
        if newest not in snapshots or len(chain) > len(snapshots):
            return chain, False
        chain.append(snapshots[newest])
        newest = snapshots[newest].parent
    return chain, True


def _branch_of(query_id: str, metadata: IcebergMetadata) -> str:
    for name, ref in metadata.refs.items():
        if name == "main" or not isinstance(ref, Mapping) or ref.get("type") != "branch":
            continue
        chain, _ = _ancestors(metadata.snapshots, integer(ref.get("snapshot-id")))
        if any(one.query == query_id for one in chain):
            return str(name)
    return ""


def _commits(oldest_first: list[Snapshot], whole: bool) -> Iterator[Commit]:
    """The snapshots as commits, numbered in their order; the first of a table has number 0."""
    for number, snapshot in enumerate(oldest_first, start=0 if whole else 1):
        summary = snapshot.summary
        operation, parameters = _operation(summary)
        yield Commit(
            version=number,
            timestamp=snapshot.timestamp,
            operation=operation,
            parameters=parameters,
            metrics={"numOutputRows": summary.get("added-records", "0")},
            changes=_changes(summary),
        )


def _operation(summary: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """In the words that are known of Delta. An overwrite without a query may be any of UPDATE, MERGE, INSERT OVERWRITE:
    it keeps its own word, and what it did to files decides."""
    done = summary.get("operation", "")
    if query := summary.get(QUERY):
        mode = "Complete" if done == "overwrite" else "Append"
        return "STREAMING UPDATE", {"queryId": query, "epochId": summary.get(EPOCH, ""), "outputMode": mode}
    if done == "append":
        return "WRITE", {"mode": "Append"}
    if done == "replace":
        return "OPTIMIZE", {}
    if done == "delete":
        return ("TRUNCATE", {}) if summary.get("total-records") == "0" else ("DELETE", {"predicate": "of a part"})
    return f"ICEBERG {done}".strip().upper(), {}


def _changes(summary: Mapping[str, str]) -> FileChanges:
    added, removed = (integer(summary.get(f"{word}-data-files")) or 0 for word in ("added", "deleted"))
    replaced_all = removed > 0 and summary.get("added-records", "0") == summary.get("total-records")
    # It does not show whether the commit rewrote all rows or replaced some of them.
    return FileChanges(0 if replaced_all else added, removed)


def _has_rows(chain: list[Snapshot]) -> bool | None:
    if not chain:
        return False
    total = integer(chain[0].summary.get("total-records"))
    return None if total is None else total > 0
