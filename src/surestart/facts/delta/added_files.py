"""The names of the files in which commits have brought new rows: a stream that reads the table reads these files."""

from __future__ import annotations

from collections.abc import Iterable

from surestart.facts.delta.actions import read_actions
from surestart.facts.delta.listing import commit_name
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import Storage


def read_added_files(path: str, versions: Iterable[int], storage: Storage | None = None) -> tuple[str, ...]:
    """The file names of these commits, without folders. Raises FileNotFoundError when the log no longer has one of
    them."""
    files = bounded(storage or open_storage(path))
    return tuple(
        str(body.get("path", "")).rsplit("/", 1)[-1]
        for version in versions
        for _, body in read_actions(files, commit_name(version), ("add",))
        if body.get("dataChange", True) is not False
    )
