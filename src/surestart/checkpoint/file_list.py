"""The paths in a file source's list: which files the committed batches have read.

    sources/0/9.compact   v1
                          {"path":"file:///landing/a%20b.jsonl","timestamp":1781222400000,"batchId":3}

batchId is the number of the list's entry, the `logOffset` of the offset log, and stays in a `.compact`.
"""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from surestart.checkpoint.storage import FILE, Storage, open_storage
from surestart.errors import CannotTell


def read_listed_files(checkpoint: str, up_to: int, storage: Storage | None = None) -> frozenset[str]:
    """The files of the entries up to `up_to`, spelled by `plain_path`. Raises CannotTell when an entry is not whole."""
    storage = storage or open_storage(checkpoint)
    paths: set[str] = set()
    try:
        names = [entry.name for entry in storage.list_folder("sources/0") if entry.kind == FILE]
        numbered = sorted(name for name in names if re.fullmatch(r"\d{1,18}(\.compact)?", name))
        compacts = [int(name.partition(".")[0]) for name in numbered if name.endswith(".compact")]
        begin = max(compacts, default=0)
        for name in numbered:
            if int(name.partition(".")[0]) < begin:
                continue
            with storage.open_file(f"sources/0/{name}") as file:
                for line in file.read().decode("utf-8").split("\n")[1:]:
                    entry = json.loads(line) if line else {}
                    if entry and entry["batchId"] <= up_to:
                        paths.add(plain_path(unquote(entry["path"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotTell(
            f"the list of files in {checkpoint}/sources/0 cannot be read: {type(error).__name__}: {error}",
            meaning="Which files have been read is not known, so a file that the table lacks may be lost or new.",
            next=f"surestart inspect {checkpoint}",
            do_not="delete the list: the next start would read every file again.",
            code="FileListUnreadable",
        ) from error
    return frozenset(paths)


def plain_path(path: str) -> str:
    """One spelling for `file:/a`, `file:///a`; other places keep theirs."""
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):/+", r"\1:/", path)
