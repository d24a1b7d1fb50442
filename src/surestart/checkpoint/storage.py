"""Where a checkpoint lies: three calls that only read, one module for each kind of storage.

    /data/ck  file:/data/ck  /Volumes/… on a cluster   storage_local        the operating system
    /Volumes/…  dbfs:/Volumes/… from a laptop          storage_databricks   databricks-sdk, Files API
    s3://  abfss://  gs://  …                          storage_fsspec       an fsspec filesystem

There is no call that writes, so nothing built on this can change a checkpoint (law 1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple, Protocol

from surestart.checkpoint.read_budget import BoundedStorage
from surestart.errors import UsageError
from surestart.typed import surestart

FILE = "file"
FOLDER = "folder"
OTHER = "other"  # a device, a pipe, or a link that leads out of the checkpoint: never opened


class Entry(NamedTuple):
    """One name in a folder. size and modified (seconds since 1970) are None where the storage does not say."""

    name: str
    kind: str
    size: int | None = None
    modified: float | None = None


class Storage(Protocol):
    """All paths are relative to the checkpoint, with '/' between the names."""

    @property
    def location(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def checks_crc(self) -> bool:
        """True where Spark reads through Hadoop's local file system, which refuses a file whose `.name.crc` differs."""
        ...

    def list_folder(self, path: str) -> Iterator[Entry]:
        """One listing. Raises FileNotFoundError, NotADirectoryError or PermissionError."""
        ...

    def read_file(self, path: str, limit: int) -> bytes:
        """At most `limit` bytes from the start of the file."""
        ...

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]: ...


def open_storage(location: str) -> Storage:
    """The storage for a location as Spark would write it, with a budget for what is read from it. Imports only what
    that storage needs."""
    return BoundedStorage(_open(location))


def _open(location: str) -> Storage:
    if "\x00" in location or not location.strip():
        raise UsageError(
            "the checkpoint location is empty or holds a NUL character",
            meaning="No storage has such a path.",
            next="surestart inspect /path/to/checkpoint",
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
            from surestart.checkpoint.storage_databricks import open_volume

            return open_volume(local)
        from surestart.checkpoint.storage_local import LocalStorage

        return LocalStorage(local)
    if plain.startswith("dbfs:"):
        raise UsageError(
            f"{location!r} is on the DBFS root, which cannot be read from here",
            meaning="Only Unity Catalog volumes and cloud paths can be read from outside a cluster.",
            next=surestart(
                "inspect", f"/dbfs/{plain.removeprefix('dbfs:').lstrip('/')}", note="on a cluster with the DBFS mount"
            ),
        )
    from surestart.checkpoint.storage_fsspec import open_url

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
