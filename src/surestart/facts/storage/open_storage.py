"""Which storage a location is on: the one place that knows all of them."""

from __future__ import annotations

import os
import re

from surestart.errors import UsageError
from surestart.facts.storage.read_budget import BoundedStorage
from surestart.facts.storage.storage import Storage
from surestart.typed import surestart


def open_storage(location: str) -> Storage:
    """The storage for a location as Spark would write it, with a budget for what is read from it. Imports only what
    that storage needs."""
    return BoundedStorage(open_unbounded(location))


def open_unbounded(location: str) -> Storage:
    """The same without a budget, for a walk over a root: each checkpoint found there has a budget of its own."""
    if "\x00" in location or not location.strip():
        raise UsageError(
            "the checkpoint location is empty or holds a NUL character",
            meaning="No storage has such a path.",
            next=surestart("inspect", "/path/to/checkpoint"),
        )
    if host := re.match(r"file://([^/]+)", location):
        raise UsageError(
            f"{location!r} names a host, {host[1]!r}, and not a folder of this machine",
            meaning="Spark refuses it too: a local path is file:/path or file:///path.",
            next=surestart("inspect", f"/{location.removeprefix('file://').partition('/')[2]}"),
        )
    plain = re.sub(r"^dbfs:/+Volumes/", "/Volumes/", location)
    local = _local_path(plain)
    if local is not None:
        if local.startswith("/Volumes/") and not _volumes_are_mounted():
            from surestart.facts.storage.databricks_volumes import open_volume

            return open_volume(local)
        from surestart.facts.storage.local_files import LocalStorage

        return LocalStorage(local)
    if plain.startswith("dbfs:"):
        raise UsageError(
            f"{location!r} is on the DBFS root, which cannot be read from here",
            meaning="Only Unity Catalog volumes and cloud paths can be read from outside a cluster.",
            next=surestart(
                "inspect", f"/dbfs/{plain.removeprefix('dbfs:').lstrip('/')}", note="on a cluster with the DBFS mount"
            ),
        )
    from surestart.facts.storage.cloud_stores import open_url

    return open_url(plain)


def _local_path(location: str) -> str | None:
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    # A one-letter scheme would be a Windows drive.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", location):
        return None
    # As Path.absolute() would, whose import costs 8 ms of every call: ".." stays, it may stand behind a link.
    absolute = location if location.startswith("/") else f"{os.getcwd()}/{location}"  # noqa: PTH109
    return "/" + "/".join(part for part in absolute.split("/") if part not in ("", "."))


def _volumes_are_mounted() -> bool:
    from pathlib import Path

    return Path("/Volumes").is_dir()
