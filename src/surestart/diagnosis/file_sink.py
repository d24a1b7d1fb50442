"""What Spark's file sink knows of its batches: one file for each in `<folder>/_spark_metadata`, by number alone.

    _spark_metadata/0 … 8      "v1", then one line of JSON for each file that the batch wrote
    _spark_metadata/9.compact  the same for batches 0..9; every tenth, unless set otherwise
    _spark_metadata/10 …

FileStreamSink.addBatch drops a batch whose number is not above the highest one there, whichever query it is of, and
reads no file for that. Readers of the folder, and every tenth batch, read the newest compact file and all behind it: a
file that is missing or torn stops them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from surestart.checkpoint.log_file import (
    FormatError,
    LogFault,
    parse_object,
    parse_version,
    read_log_bytes,
    split_lines,
)
from surestart.checkpoint.log_folder import is_there
from surestart.checkpoint.storage import FILE, Storage, open_storage
from surestart.diagnosis.sink_evidence import SinkEvidence, sink_missing, sink_unreadable
from surestart.errors import SurestartError

FILE_LOG = "file sink log"
FILE_SINKS = ("parquet", "json", "csv", "orc", "text", "avro")
FOLDER_NAME = "_spark_metadata"
# A folder with more names than this is not listed to its end: the highest number could not be told.
MAX_NAMES = 200_000
_BATCH = re.compile(r"(0|[1-9]\d{0,17})(\.compact)?")


@dataclass(frozen=True)
class FileBatches:
    """last: the highest batch, None while there is none. missing: batches behind the newest compact file, or from 0,
    that have no file. fault: why the newest file is not what Spark writes."""

    last: int | None = None
    compacts: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    fault: LogFault | None = None

    @property
    def whole(self) -> bool:
        return not self.missing and self.fault is None


def read_file_sink(folder: str, storage: Storage | None = None) -> SinkEvidence:
    """Which batches the folder holds. One that is missing, empty or refused is three different answers."""
    try:
        files = storage or open_storage(folder)
        try:
            names = _list(files, "")
        except FileNotFoundError:
            return sink_missing(FILE_LOG)
        # Listed a moment ago: a log that is gone now is not a log that never was.
        batches = _read_batches(files) if FOLDER_NAME in names else FileBatches()
    except OSError as error:
        return sink_unreadable(f"{folder} cannot be read: {type(error).__name__}: {error}", FILE_LOG)
    except SurestartError as error:
        return sink_unreadable(error, FILE_LOG)
    # Whether a file holds rows its name does not say; no file at all is no row.
    empty = not any(not name.startswith(("_", ".")) for name in names) and batches.last is None
    return SinkEvidence(source=FILE_LOG, has_rows=False if empty else None, batches=batches)


def _read_batches(files: Storage) -> FileBatches:
    found = _list_batches(files)
    behind = 1 + max((int(match[1]) for match in found), default=-1)
    # A listing that was cut off would show a folder that is not as far: the next number is looked for by its names.
    there = [name for name in (f"{behind}", f"{behind}.compact") if is_there(files, f"{FOLDER_NAME}/{name}")]
    if there:
        found = _list_batches(files)
        if not any(match[0] == there[0] for match in found):
            raise OSError(f"{FOLDER_NAME}/{there[0]} is there, and the listing of the folder lacks it")
    if not found:
        return FileBatches()
    compacts = tuple(sorted(int(match[1]) for match in found if match[2]))
    numbers = {int(match[1]) for match in found}
    last = max(numbers)
    begin = compacts[-1] + 1 if compacts else 0
    missing = tuple(number for number in range(begin, min(last, begin + 100_000)) if number not in numbers)
    newest = next(match[0] for match in found if int(match[1]) == last)
    return FileBatches(last, compacts, missing[:20], _fault(files, f"{FOLDER_NAME}/{newest}"))


def _list_batches(files: Storage) -> list[re.Match[str]]:
    return [match for name in _list(files, FOLDER_NAME) if (match := _BATCH.fullmatch(name))]


def _fault(files: Storage, path: str) -> LogFault | None:
    data = read_log_bytes(files, path)
    if isinstance(data, LogFault):
        return data
    try:
        lines = split_lines(data, path)
        parse_version(lines[0], 1, path)
        for line in lines[1:]:
            parse_object(line, f"a line of {path}")
    except FormatError as error:
        return LogFault(path, error.kind, error.detail)
    return None


def _list(files: Storage, folder: str) -> Collection[str]:
    names: set[str] = set()
    for entry in files.list_folder(folder):
        if len(names) >= MAX_NAMES:
            raise OSError(f"it has more than {MAX_NAMES:,} names")
        if folder == "" or entry.kind == FILE:
            names.add(entry.name)
    return names
