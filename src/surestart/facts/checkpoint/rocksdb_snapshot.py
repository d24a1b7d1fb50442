"""What a RocksDB snapshot needs beside itself: `<version>.zip` holds notes, the rows lie in files that it names.

    12.zip          metadata  v1
                              {"sstFiles":[{"dfsSstFileName":"000011-….sst","sizeBytes":1295},…],"logFiles":[…],…}
    SSTs/000011-….sst         rows; several snapshots share one
    logs/000012-….log         the same, where a snapshot has any

Spark copies each named file and compares its size (RocksDBFileManager.loadImmutableFilesFromDfs): one that is gone or
has another size ends the start with CANNOT_LOAD_STATE_STORE. Measured on 4.0.5, with a changelog and without, format 1
and 2.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from surestart.facts.checkpoint.log_file import LOG_LIMIT, TORN, VERSION, FormatError, parse_object, split_lines, weight
from surestart.facts.storage.read_budget import charge
from surestart.facts.storage.storage import Storage

# Notes of some kB, and RocksDB's own log and manifest, which it keeps below this.
SNAPSHOT_LIMIT = 32 * 1024 * 1024
FOLDERS = ("SSTs", "logs")


def read_named_files(storage: Storage, data: bytes, what: str) -> dict[str, int]:
    """Path below the store -> bytes, of each file that the snapshot names.

    FormatError: it is no whole snapshot, or (kind VERSION) one of another writer's form, which may well be whole.
    storage: where its bytes come from, whose budget pays for what they unpack to."""
    import zipfile
    import zlib

    charge(storage, 10 * data.count(b"PK\x01\x02"), what)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.namelist() and "metadata" not in archive.namelist():
                raise FormatError(VERSION, f"{what} has no list of its files: a form that is not known here")
            with archive.open("metadata") as file:
                text = file.read(LOG_LIMIT + 1)
    except FormatError:
        raise
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise FormatError(TORN, f"{what} is no whole snapshot ({type(error).__name__})") from error
    if len(text) > LOG_LIMIT:
        raise FormatError(TORN, f"{what} names its files in more than {LOG_LIMIT:,} bytes")
    charge(storage, weight(text), what)
    lines = split_lines(text, f"metadata in {what}")
    fields = parse_object(lines[1] if len(lines) > 1 else "", f"metadata in {what}")
    if lines[0].strip() != "v1" or "sstFiles" not in fields:
        raise FormatError(VERSION, f"metadata in {what} is {lines[0][:20]!r}: a form that is not known here")
    named = _named(fields, "sstFiles", "SSTs", "dfsSstFileName")
    return {**named, **_named(fields, "logFiles", "logs", "dfsLogFileName")}


def lacks(named: Mapping[str, int], present: Mapping[str, int]) -> str:
    """The first named file that is not there as it was written, in words; "" when all are."""
    for path, size in named.items():
        if path not in present:
            return f"{path}, {size} bytes, is not there"
        if present[path] != size:
            return f"{path} has {present[path]} bytes of {size}"
    return ""


def _named(fields: Mapping[str, Any], key: str, folder: str, name: str) -> dict[str, int]:
    try:
        return {f"{folder}/{item[name]}": int(item["sizeBytes"]) for item in fields.get(key) or ()}
    except (TypeError, KeyError, ValueError) as error:
        raise FormatError(TORN, f"{key} does not name files with their sizes") from error
