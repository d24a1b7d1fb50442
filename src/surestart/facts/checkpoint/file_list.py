"""The paths in a file source's list: which files the committed batches have read.

    sources/0/9.compact   v1
                          {"path":"file:///landing/a%20b.jsonl","timestamp":1781222400000,"batchId":3}

batchId is the number of the list's entry, the `logOffset` of the offset log, and stays in a `.compact`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import unquote

from surestart.errors import CannotTell
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import CountedReader, NotRead, charge, read_lines
from surestart.facts.storage.storage import FILE, Storage
from surestart.typed import surestart

# A path has at most 4 kB; escaped as a URL and in JSON it is longer.
LONGEST = 64 << 10
_NUMBER = re.compile(rb'"batchId":([0-9]{1,18})\}\s*$')


def read_listed_files(checkpoint: str, up_to: int) -> frozenset[str]:
    """The files of the entries up to `up_to`, spelled by `plain_path`. Raises CannotTell when an entry is not whole."""
    return frozenset(
        plain_path(unquote(path)) for path in read_whole_list(open_storage(checkpoint), "sources/0", up_to)
    )


def read_whole_list(storage: Storage, folder: str, up_to: int = 2**62) -> frozenset[str]:
    """The files of a list, as it spells them, up to that entry. Raises CannotTell when an entry is not whole."""
    paths: set[str] = set()
    try:
        names = [entry.name for entry in storage.list_folder(folder) if entry.kind == FILE]
        numbered = sorted(name for name in names if is_batch_name(name.removesuffix(".compact")))
        compacts = [int(name.partition(".")[0]) for name in numbered if name.endswith(".compact")]
        begin = max(compacts, default=0)
        for name in numbered:
            if int(name.partition(".")[0]) >= begin:
                paths.update(path for _, path in read_entries(storage, f"{folder}/{name}", up_to))
    except (OSError, ValueError) as error:
        raise CannotTell(
            f"the list of files in {storage.location}/{folder} cannot be read: {type(error).__name__}: {error}",
            meaning="Which files have been read is not known, so a file that the table lacks may be lost or new.",
            next=surestart("inspect", storage.location),
            do_not="delete the list: the next start would read every file again.",
            code="FileListUnreadable",
        ) from error
    return frozenset(paths)


def read_entries(
    storage: Storage, path: str, last: int, first: int = 0, size: int | None = None
) -> Iterator[tuple[int, str]]:
    """(number of the entry, path of the file) for the entries first..last in one file of the list. Raises ValueError
    for a line that the file source does not write, and for a file that ends before the `size` of its listing."""
    with storage.open_file(path) as file:
        counted = CountedReader(file)
        for index, line in enumerate(read_lines(counted, LONGEST)):
            if index % 1000 == 0:
                charge(storage, 100, path)
            told = _NUMBER.search(line)
            if index == 0 or not line or (told and not first <= int(told[1]) <= last):
                continue
            if len(line) > LONGEST:
                raise NotRead(f"line {index + 1} of {path} is longer than any path")
            try:
                entry = json.loads(line)
                number, name = entry["batchId"], entry["path"]
            except (KeyError, TypeError, RecursionError) as error:
                raise ValueError(f"line {index + 1} of {path} is no entry ({type(error).__name__})") from error
            if type(number) is not int or not isinstance(name, str):
                raise ValueError(f"line {index + 1} of {path} is no entry")
            if first <= number <= last:
                yield number, name
        if size is not None and counted.size < size:
            raise ValueError(f"{path} gave {counted.size:,} bytes of {size:,}")


def plain_path(path: str) -> str:
    """One spelling for `file:/a`, `file:///a`; other places keep theirs."""
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):/+", r"\1:/", path)
