"""The names of the files that commits have brought new rows in: what a stream that reads the table gets of them."""

from __future__ import annotations

from collections.abc import Iterable

from surestart.facts.delta.actions import read_actions
from surestart.facts.delta.listing import commit_name
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import Storage


def read_added_files(path: str, versions: Iterable[int], storage: Storage | None = None) -> tuple[str, ...]:
    """Of these commits, without folders. Raises FileNotFoundError where the log has one of them no more."""
    files = bounded(storage or open_storage(path))
    return tuple(
        str(body.get("path", "")).rsplit("/", 1)[-1]
        for version in versions
        for _, body in read_actions(files, commit_name(version), ("add",))
        if body.get("dataChange", True) is not False
    )
