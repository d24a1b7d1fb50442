"""What an Iceberg table knows of a query's batches, from its metadata file.

Spark's streaming write walks from the current snapshot to its parents until it meets one of its query id, and drops a
batch that is not above the epoch it finds there (SparkWrite.findLastCommittedEpochId). Where the chain ends in a parent
that was expired before it met one, it knows none of its batches: whether it wrote them cannot be told from there.

The metadata file of an Iceberg table: its snapshots, and which batch of which query made each.
No manifest is read, so no Avro.

    metadata/v7.metadata.json                a table of a folder; version-hint.text names one of the newest
    metadata/00007-<uuid>.metadata.json      a table of a catalog, which alone knows which file is the current one
      current-snapshot-id, snapshots[]: parent-snapshot-id, summary {spark.sql.streaming.queryId, …epochId}"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from surestart.errors import SurestartError
from surestart.facts.checkpoint.log_file import FormatError, parse_object
from surestart.facts.checkpoint.log_folder import is_there
from surestart.facts.delta import Commit, Transaction
from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import FileChanges, texts
from surestart.facts.evidence.sink_evidence import SinkEvidence, sink_missing, sink_unreadable
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import NotRead, charge
from surestart.facts.storage.storage import FILE, Storage

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


FOLDER_NAME = "metadata"
# A thousand snapshots take about a megabyte.
MOST_BYTES = 64 << 20
QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
_FILE = re.compile(r"(?:v(?P<version>[0-9]{1,9})|(?P<number>[0-9]{1,9})-[0-9a-fA-F-]{36})(?P<gz>\.gz)?\.metadata\.json")
_OLD_GZ = re.compile(r"v(?P<version>[0-9]{1,9})\.metadata\.json\.gz")


@dataclass(frozen=True)
class Snapshot:
    """query: of the stream that made it, "" for another writer.
    epoch: which of its batches.
    manifests: the path of its list of them."""

    id: int
    parent: int | None
    timestamp: int | None
    summary: Mapping[str, str]
    manifests: str = ""

    @property
    def query(self) -> str:
        return self.summary.get(QUERY, "")

    @property
    def epoch(self) -> int | None:
        return integer(self.summary.get(EPOCH))


@dataclass(frozen=True)
class IcebergMetadata:
    """snapshots: by their ids, as the file lists them.
    current: the id of the newest; None for an empty table.
    refs: branches and tags by name."""

    table_id: str
    current: int | None
    snapshots: Mapping[int, Snapshot]
    refs: Mapping[str, Any]


def is_iceberg(files: Storage) -> bool:
    """Whether a table's metadata lies there. Raises OSError."""
    try:
        return any(_version(entry.name) is not None for entry in files.list_folder(FOLDER_NAME))
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_iceberg_metadata(files: Storage) -> IcebergMetadata | None:
    """The newest metadata file; None where there is none. Raises FileNotFoundError where the folder of metadata is not,
    OSError or FormatError for what cannot be read or is none of Iceberg's."""
    lists: set[str] = set()
    name = _newest(files, lists)
    if name is None:
        return None
    metadata = _read(files, name)
    snapshots = _snapshots(metadata)
    current = integer(metadata.get("current-snapshot-id"))
    current = None if current == -1 else current
    if current is not None and current not in snapshots:
        raise OSError("the current snapshot is not among the snapshots of the metadata")
    if current is not None:
        _hold_against_manifests(files, lists, snapshots[current].manifests)
    refs = metadata.get("refs")
    table_id = str(metadata.get("table-uuid") or "")
    return IcebergMetadata(table_id, current, snapshots, refs if isinstance(refs, Mapping) else {})


def _version(name: str) -> int | None:
    match = _FILE.fullmatch(name) or _OLD_GZ.fullmatch(name)
    return None if match is None else int(match["version"] or match.groupdict().get("number") or 0)


def _newest(files: Storage, lists: set[str]) -> str | None:
    """The name of the newest metadata file, None where there is none. lists: gets the names of lists of manifests."""
    found: dict[str, tuple[int, float]] = {}
    hint = False
    for entry in files.list_folder(FOLDER_NAME):
        version = _version(entry.name)
        if version is not None and entry.kind == FILE:
            found[entry.name] = (version, entry.modified or 0.0)
        hint = hint or entry.name == "version-hint.text"
        if entry.name.startswith("snap-"):
            lists.add(entry.name)
    if hint:
        _hold_against_hint(files, found)
    if not found:
        return None
    # Of two with one number the later: the other is of a commit that lost its race.
    newest = max(found, key=lambda name: found[name])
    if newest.startswith("v"):
        behind = f"v{found[newest][0] + 1}.metadata.json"
        if is_there(files, f"{FOLDER_NAME}/{behind}"):
            raise OSError(f"{FOLDER_NAME}/{behind} is there, and the listing of the folder lacks it")
    return newest


def _hold_against_hint(files: Storage, found: Mapping[str, tuple[int, float]]) -> None:
    text = files.read_file(f"{FOLDER_NAME}/version-hint.text", 64).decode("utf-8", "replace").strip()
    if text.isascii() and text.isdigit() and not any(version >= int(text) for version, _ in found.values()):
        raise OSError(f"version-hint.text names version {text}, and no metadata file of it is there")


def _hold_against_manifests(files: Storage, listed: set[str], path: str) -> None:
    """A catalog's metadata files cannot be looked up by name. But "snap-…" comes behind all of their numbers, so that a
    listing that breaks off among those lacks it."""
    folder, _, name = path.rpartition("/")
    plain = name.startswith("snap-") and folder.endswith(f"/{FOLDER_NAME}")
    if plain and name not in listed and is_there(files, f"{FOLDER_NAME}/{name}"):
        raise OSError(f"{FOLDER_NAME}/{name} is there, and the listing of the folder lacks it")


def _read(files: Storage, name: str) -> dict[str, Any]:
    path = f"{FOLDER_NAME}/{name}"
    data = files.read_file(path, MOST_BYTES + 1)
    if ".gz" in name:
        data = _unpacked(data, path)
    if len(data) > MOST_BYTES:
        raise NotRead(f"{path} has more than {MOST_BYTES >> 20} MB")
    charge(files, data.count(b'"') // 2, path)
    return parse_object(data.decode("utf-8", "replace"), path)


def _unpacked(data: bytes, path: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise OSError(f"{path} is not a whole gzip file: {error}") from error


def _snapshots(metadata: Mapping[str, Any]) -> dict[int, Snapshot]:
    listed = metadata.get("snapshots")
    if not isinstance(metadata.get("format-version"), int) or not isinstance(listed or [], list):
        raise OSError("its metadata file is none of Iceberg's")
    found = {}
    for one in listed or []:
        name = integer(one.get("snapshot-id")) if isinstance(one, Mapping) else None
        if name is None:
            raise OSError("a snapshot of its metadata has no id")
        found[name] = Snapshot(
            name,
            integer(one.get("parent-snapshot-id")),
            integer(one.get("timestamp-ms")),
            texts(one.get("summary")),
            str(one.get("manifest-list") or ""),
        )
    return found
