"""sources/K: what a source keeps for itself beside the offset log.

Kafka        sources/0/0                 \\0v1\\n{"orders":{"0":0}}       initial offsets, written once
files        sources/0/0 … 8 9.compact   v1\\n{"path":…,"timestamp":…,"batchId":0}, one file seen per line;
                                         every tenth holds all the earlier ones
rate         sources/0/0                 v1\\n1531991874513               start time in ms
Delta        nothing, or sources/0/_schema_log_<table id>/0, 1, …        schema tracking
Auto Loader  sources/0/rocksdb/…         cannot be read outside Databricks
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from surestart.facts.checkpoint import positions
from surestart.facts.checkpoint.log_entries import MAX_LINES
from surestart.facts.checkpoint.log_file import (
    EMPTY,
    FORGETFUL,
    NOT_A_FILE,
    TOO_LARGE,
    TORN,
    UNREADABLE,
    FormatError,
    LogFault,
    parse_object,
    read_listed_bytes,
    read_log_bytes,
    split_log_lines,
)
from surestart.facts.checkpoint.log_folder import FAULTS, is_batch_name, number_as_java_reads
from surestart.facts.checkpoint.positions import KafkaPosition, read_position
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, FolderEntry, Storage

BLOCK = 1 << 20


@dataclass(frozen=True)
class FileLog:
    """The file source's list of files. entries: the numbers that a restart needs, from the last `.compact` on."""

    first: int
    last: int
    compact: int | None
    missing: tuple[int, ...]
    files_seen: int | None
    exact: bool
    last_path: str
    size: int


@dataclass(frozen=True)
class SchemaLog:
    """Delta's schema tracking. source_path is the absolute path that a restart compares with its own."""

    path: str
    last: int | None
    table_id: str
    source_path: str


@dataclass(frozen=True)
class SourceFolder:
    id: str
    kind: str
    files: int = 0
    size: int = 0
    initial: KafkaPosition | None = None
    start_ms: int | None = None
    file_log: FileLog | None = None
    schema_logs: tuple[SchemaLog, ...] = ()
    leftovers: tuple[str, ...] = ()
    faults: tuple[LogFault, ...] = ()
    sampled: str = ""


def read_source_folders(storage: Storage) -> tuple[SourceFolder, ...] | LogFault | None:
    """Every sources/K; None when there is no sources folder. Listings: one per folder, none per file."""
    try:
        entries = list(storage.list_folder("sources"))
    except FileNotFoundError:
        return None
    except OSError as error:
        kind = NOT_A_FILE if isinstance(error, NotADirectoryError) else UNREADABLE
        return LogFault("sources", kind, f"{type(error).__name__}: {error}")
    names = [entry.name for entry in entries if entry.kind == FOLDER]
    if len(names) > MAX_LINES:
        return LogFault("sources", TOO_LARGE, f"{len(names):,} folders: no query has so many sources")
    return tuple(read_source_folder(storage, name) for name in sorted(names, key=_numbers_first))


def read_source_folder(storage: Storage, source_id: str) -> SourceFolder:
    folder = f"sources/{source_id}"
    try:
        entries = list(storage.list_folder(folder))
    except OSError as error:
        return SourceFolder(
            source_id, positions.UNKNOWN, faults=(LogFault(folder, UNREADABLE, f"{type(error).__name__}: {error}"),)
        )
    files = {entry.name: entry for entry in entries if entry.kind == FILE}
    size = sum(entry.size or 0 for entry in entries)
    leftovers = tuple(sorted(f"{folder}/{name}" for name in files if name.endswith(".tmp")))[:20]
    schema_logs, faults = _schema_logs(storage, folder, entries)
    found = SourceFolder(source_id, positions.NONE_YET, len(files), size, leftovers=leftovers, faults=tuple(faults))
    if any(entry.kind == FOLDER and entry.name == "rocksdb" for entry in entries):
        return _with(found, kind=positions.AUTO_LOADER)
    if schema_logs:
        return _with(found, kind=positions.DELTA, schema_logs=tuple(schema_logs))
    numbers = {name: entry for name, entry in files.items() if is_batch_name(name.removesuffix(".compact"))}
    for name in files:
        taken = number_as_java_reads(name.removesuffix(".compact"))
        if taken is not None and len(faults) < FAULTS:
            why = f"Spark takes the name for entry {taken} and looks for a file {taken}"
            faults.append(LogFault(f"{folder}/{name}", UNREADABLE, why))
    for entry in entries:
        if entry.kind == OTHER and is_batch_name(entry.name.removesuffix(".compact")) and len(faults) < FAULTS:
            why = f"{folder}/{entry.name} is a device, a pipe or a link to nothing: not opened"
            faults.append(LogFault(f"{folder}/{entry.name}", UNREADABLE, why))
    found = _with(found, faults=tuple(faults))
    if not numbers:
        return found if not entries else _with(found, kind=positions.UNKNOWN)
    return _read_numbered(storage, folder, found, numbers)


def _read_numbered(storage: Storage, folder: str, found: SourceFolder, numbers: dict[str, FolderEntry]) -> SourceFolder:
    """Kafka, rate and file sources all write numbered files; the first bytes tell them apart."""
    first = min(numbers, key=lambda name: int(name.partition(".")[0]))
    data = _read(storage, f"{folder}/{first}", 4096)
    if isinstance(data, LogFault):
        return _with(found, kind=positions.UNKNOWN, faults=(*found.faults, data))
    if data[:1] == b"\x00" and set(numbers) == {"0"}:
        return _read_kafka(storage, f"{folder}/0", found)
    if set(numbers) == {"0"} and (match := re.fullmatch(rb"v1\n(-?[0-9]{1,19})\s*", data)):
        return _with(found, kind=positions.RATE, start_ms=int(match.group(1)))
    if set(numbers) == {"0"} and re.match(rb'\{"[^"]*":\{"[0-9]', data):
        # Spark 2.1.0 wrote the offsets without a version and without the zero byte.
        return _read_kafka(storage, f"{folder}/0", found)
    if set(numbers) == {"0"} and not data.startswith(b"v1\n{"):
        what = f"{folder}/0 has 0 bytes" if not data else f"{folder}/0 is neither Kafka's, nor rate's, nor a file list"
        fault = LogFault(f"{folder}/0", TORN if data else EMPTY, what)
        return _with(found, kind=positions.UNKNOWN, faults=(*found.faults, fault))
    file_log, faults, sampled = read_file_log(storage, folder, numbers)
    return _with(found, kind=positions.FILES, file_log=file_log, faults=(*found.faults, *faults), sampled=sampled)


def _read_kafka(storage: Storage, path: str, found: SourceFolder) -> SourceFolder:
    data = read_listed_bytes(storage, path)
    if isinstance(data, LogFault):
        return _with(found, kind=positions.KAFKA, faults=(*found.faults, data))
    text = data.removeprefix(b"\x00").decode("utf-8", "replace")
    body = text.partition("\n")[2] if text.startswith("v") else text
    position = read_position(body.strip())
    if isinstance(position, KafkaPosition):
        return _with(found, kind=positions.KAFKA, initial=position)
    fault = LogFault(path, TORN, "Kafka's initial offsets are not whole")
    return _with(found, kind=positions.KAFKA, faults=(*found.faults, fault))


def read_file_log(
    storage: Storage, folder: str, numbers: dict[str, FolderEntry]
) -> tuple[FileLog, list[LogFault], str]:
    """Counts the files seen without holding them: a list of a million files is read in blocks.

    Only the last `.compact` and what follows it is read, which is also all that a restart reads.
    """
    faults: list[LogFault] = []
    ids = {int(name.partition(".")[0]) for name in numbers}
    compacts = [int(name.partition(".")[0]) for name in numbers if name.endswith(".compact")]
    last, compact = max(ids), max(compacts, default=None)
    begin = compact if compact is not None else 0
    missing = tuple(number for number in range(begin, min(last, begin + 10_000) + 1) if number not in ids)
    # Without a .compact a long tail is not what Spark writes; reading it all would be a reader's denial of service.
    needed = sorted(number for number in ids if number >= begin)[-200:]
    seen, exact, last_path, sampled = 0, True, "", ""
    for number in needed:
        name = f"{number}.compact" if f"{number}.compact" in numbers else str(number)
        entry = numbers[name]
        if entry.size is not None and entry.size > 8 * BLOCK and storage.kind != "local":
            seen, exact = seen + _estimate(storage, f"{folder}/{name}", entry.size), False
            sampled = f"{folder}/{name}: the first MB of {entry.size // 1_000_000} MB"
            continue
        counted = _count(storage, f"{folder}/{name}")
        if isinstance(counted, LogFault):
            faults.append(counted)
        else:
            seen, last_path = seen + counted[0], counted[1] or last_path
    log = FileLog(
        first=min(ids),
        last=last,
        compact=compact,
        missing=missing[:20],
        files_seen=seen if not faults else None,
        exact=exact,
        last_path=last_path,
        size=sum(entry.size or 0 for entry in numbers.values()),
    )
    return log, faults, sampled


def _count(storage: Storage, path: str) -> tuple[int, str] | LogFault:
    """(entries, path of the last one), after checking the version line and the last line."""
    lines, head, tail, size = 0, b"", b"", 0
    try:
        with storage.open_file(path) as file:
            while block := file.read(BLOCK):
                size += len(block)
                head = head or block[:16]
                lines += block.count(b"\n")
                cut = block.rfind(b"\n")
                # Bounded: one line of a gigabyte keeps only its end, which then fails to parse.
                tail = block[cut + 1 :] if cut >= 0 else (tail + block)[-BLOCK:]
    except OSError as error:
        return LogFault(path, UNREADABLE, f"{type(error).__name__}: {error}")
    if size == 0:
        return LogFault(path, EMPTY, "the file source's list has 0 bytes")
    if not head.startswith(b"v1"):
        return LogFault(path, TORN, "the file source's list does not begin with v1")
    if lines == 0:
        # Spark never writes such an entry, and takes it for one without files (measured on 4.0).
        return LogFault(path, FORGETFUL, f"{path} ends after its version line: it names no file")
    try:
        entry = parse_object(tail.decode("utf-8", "replace"), "the last line")
    except FormatError as error:
        return LogFault(path, TORN, f"entry {lines} of the file source's list is cut off: {error.detail}")
    if not isinstance(entry.get("path"), str) or type(entry.get("batchId")) is not int:
        return LogFault(path, TORN, f"entry {lines} of the file source's list names no file and batch")
    return lines, entry["path"]


def _estimate(storage: Storage, path: str, size: int) -> int:
    block = storage.read_file(path, BLOCK)
    return round(size * block.count(b"\n") / max(len(block), 1))


def _schema_logs(
    storage: Storage, folder: str, entries: Sequence[FolderEntry]
) -> tuple[list[SchemaLog], list[LogFault]]:
    logs, faults = [], []
    for entry in entries:
        if entry.kind == FOLDER and entry.name.startswith("_schema_log_"):
            log = read_schema_log(storage, f"{folder}/{entry.name}" if folder else entry.name)
            if isinstance(log, LogFault):
                faults.append(log)
            else:
                logs.append(log)
    return logs, faults


def read_schema_log(storage: Storage, path: str) -> SchemaLog | LogFault:
    """The newest entry of a Delta schema log."""
    try:
        numbers = [int(entry.name) for entry in storage.list_folder(path) if is_batch_name(entry.name)]
        if not numbers:
            return SchemaLog(path, None, "", "")
        data = read_log_bytes(storage, f"{path}/{max(numbers)}")
        if isinstance(data, LogFault):
            return data
        lines = split_log_lines(data, f"{path}/{max(numbers)}")
        fields = parse_object(lines[1] if len(lines) > 1 else "", f"{path}/{max(numbers)}")
    except FormatError as error:
        return LogFault(path, error.kind, error.detail)
    except OSError as error:
        return LogFault(path, UNREADABLE, f"{type(error).__name__}: {error}")
    return SchemaLog(path, max(numbers), str(fields.get("tableId", "")), str(fields.get("sourceMetadataPath", "")))


def _read(storage: Storage, path: str, limit: int) -> bytes | LogFault:
    try:
        return storage.read_file(path, limit)
    except OSError as error:
        return LogFault(path, UNREADABLE, f"{type(error).__name__}: {error}")


def _with(found: SourceFolder, **changes: object) -> SourceFolder:
    from dataclasses import replace

    return replace(found, **changes)  # type: ignore[arg-type]


def _numbers_first(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isascii() and name.isdigit() and len(name) < 10 else (1, 0, name)
