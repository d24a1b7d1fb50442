"""What Spark's file sink knows of its batches: one file for each in `<folder>/_spark_metadata`, by number alone.

    _spark_metadata/0 … 8      "v1", then one line of JSON for each file that the batch wrote
    _spark_metadata/9.compact  the same for batches 0..9; every tenth, unless set otherwise
    _spark_metadata/10 …

FileStreamSink.addBatch drops a batch whose number is not above the highest one there, whichever query it is of, and
reads no file for that. Readers of the folder, and every tenth batch, read the newest compact file and all behind it: a
file that is missing or torn stops them.

A folder that a function writes into, batch by batch, has no such log: its writer leaves `_SUCCESS` instead, there or in
a folder of each batch below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from surestart.errors import SurestartError
from surestart.facts.checkpoint.log_entries import check_crc
from surestart.facts.checkpoint.log_file import (
    EMPTY,
    TORN,
    UNREADABLE,
    FormatError,
    LogFault,
    parse_object,
    parse_version,
)
from surestart.facts.checkpoint.log_folder import is_there, number_as_java_reads
from surestart.facts.evidence.sink_evidence import (
    FileBatches,
    SinkEvidence,
    sink_missing,
    sink_unreadable,
    sink_without_record,
)
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import CountedReader, read_lines
from surestart.facts.storage.storage import FILE, FOLDER, FolderEntry, Storage

FILE_LOG = "file sink log"
FILE_SINKS = ("parquet", "json", "csv", "orc", "text", "avro")
FOLDER_NAME = "_spark_metadata"
# What a batch write leaves, and Spark's file sink does not.
_JOB_ENDED = "_SUCCESS"
_LOOKED_INTO = 10
# Every tenth batch folds what is behind the newest compact file; so many are not Spark's.
MOST_BEHIND = 1_000
# A line names one file; its path has at most 4 kB.
LONGEST = 64 << 10
# Longer files, of more than a hundred thousand names, are not held against their checksums.
CRC_BYTES = 32 << 20
_BATCH = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?")


@dataclass(frozen=True)
class OutputFolder:
    """What an output folder shows of who writes it.

    rows: something lies there that may hold rows.
    by_jobs: a batch write has ended there, as a function that writes each batch by itself does."""

    file_log: bool = False
    delta_log: bool = False
    by_jobs: bool = False
    rows: bool = False


def read_output_folder(files: Storage) -> OutputFolder:
    """One listing, however many files lie there; a few more where nothing but folders does. Raises FileNotFoundError,
    NotADirectoryError and other OSErrors."""
    known = {FOLDER_NAME: False, "_delta_log": False, _JOB_ENDED: False}
    rows, folders = False, list[str]()
    for entry in files.list_folder(""):
        if entry.name in known:
            known[entry.name] = True
        elif not entry.name.startswith(("_", ".")):
            rows = True
            if entry.kind == FOLDER and len(folders) < _LOOKED_INTO:
                folders.append(entry.name)
    by_jobs = known[_JOB_ENDED]
    if not any(known.values()):
        by_jobs = any(entry.name == _JOB_ENDED for name in folders for entry in files.list_folder(name))
    return OutputFolder(known[FOLDER_NAME], known["_delta_log"], by_jobs, rows)


def read_file_sink(folder: str, storage: Storage | None = None) -> SinkEvidence:
    """Which batches the folder holds. One that is missing, empty or refused is three different answers."""
    try:
        files = storage or open_storage(folder)
        try:
            found = read_output_folder(files)
        except FileNotFoundError:
            return sink_missing(FILE_LOG)
        if not found.file_log and found.delta_log:
            return sink_unreadable(f"it is a Delta table: --sink {folder} asks its log", FILE_LOG)
        if not found.file_log and found.by_jobs:
            return sink_without_record()
        # Listed a moment ago: a log that is gone now is not a log that never was.
        batches = _read_batches(files) if found.file_log else FileBatches()
    except OSError as error:
        return sink_unreadable(f"{folder} cannot be read: {type(error).__name__}: {error}", FILE_LOG)
    except SurestartError as error:
        return sink_unreadable(error, FILE_LOG)
    # Whether a file holds rows its name does not say; no file at all is no row.
    empty = not found.rows and batches.last is None
    return SinkEvidence(source=FILE_LOG, has_rows=False if empty else None, batches=batches)


def _read_batches(files: Storage) -> FileBatches:
    found = {entry.name: entry for entry in _list_batches(files)}
    behind = 1 + max(map(_number, found), default=-1)
    # A listing that was cut off would show a folder that is not as far: the next number is looked for by its names.
    there = [name for name in (f"{behind}", f"{behind}.compact") if is_there(files, f"{FOLDER_NAME}/{name}")]
    if there:
        found = {entry.name: entry for entry in _list_batches(files)}
        if there[0] not in found:
            raise OSError(f"{FOLDER_NAME}/{there[0]} is there, and the listing of the folder lacks it")
    if not found:
        return FileBatches()
    compacts = tuple(sorted(_number(name) for name in found if name.endswith(".compact")))
    numbers = set(map(_number, found))
    last = max(numbers)
    begin = compacts[-1] + 1 if compacts else 0
    missing = tuple(number for number in range(begin, min(last, begin + 100_000)) if number not in numbers)
    return FileBatches(last, compacts, missing[:20], _first_fault(files, found, begin))


def _list_batches(files: Storage) -> Iterator[FolderEntry]:
    for entry in files.list_folder(FOLDER_NAME):
        # Spark takes files alone for batches.
        if entry.kind == FOLDER:
            continue
        taken = number_as_java_reads(entry.name.removesuffix(".compact"))
        if taken is not None:
            raise OSError(f"Spark takes the name of {FOLDER_NAME}/{entry.name} for batch {taken}")
        if _BATCH.fullmatch(entry.name):
            yield entry


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _first_fault(files: Storage, found: Mapping[str, FolderEntry], begin: int) -> LogFault | None:
    """Of the files that the next compaction and every reader read: the newest compact file and all behind it."""
    read = [name for name in found if _number(name) >= begin or name == f"{begin - 1}.compact"]
    if len(read) > MOST_BEHIND:
        raise OSError(f"{len(read):,} files after its newest compact file, which are not all read")
    faults = (_fault(files, found[name]) for name in sorted(read, key=_number, reverse=True))
    return next((fault for fault in faults if fault is not None), None)


def _fault(files: Storage, entry: FolderEntry) -> LogFault | None:
    path = f"{FOLDER_NAME}/{entry.name}"
    if entry.kind != FILE:
        return LogFault(path, UNREADABLE, f"{path} is a device, a pipe or a link that leads out: not opened")
    try:
        size = _check_lines(files, path)
        if size < (entry.size or 0):
            return LogFault(path, UNREADABLE, f"{path} gave {size:,} bytes of {entry.size:,}")
        differs: dict[str, LogFault] = {}
        if files.checks_crc and size <= CRC_BYTES:
            check_crc(files, path, files.read_file(path, size), differs)
    except FormatError as error:
        return LogFault(path, error.kind, error.detail)
    except OSError as error:
        return LogFault(path, UNREADABLE, f"{type(error).__name__}: {error}")
    return differs.get(path)


def _check_lines(files: Storage, path: str) -> int:
    """The file's size. Raises FormatError for one that is not what Spark writes: a line of JSON for each file."""
    last = b""
    with files.open_file(path) as file:
        counted = CountedReader(file)
        for number, line in enumerate(read_lines(counted, LONGEST)):
            if number == 0:
                parse_version(line.decode("utf-8", "replace"), 1, path)
            elif line and not (line.startswith(b"{") and line.endswith(b"}")):
                raise FormatError(TORN, f"line {number + 1} of {path} is not whole")
            else:
                last = line or last
    if not counted.size:
        raise FormatError(EMPTY, f"{path} has 0 bytes")
    if last[:1] == b"{":
        parse_object(last.decode("utf-8", "replace"), f"the last line of {path}")
    return counted.size
