"""Where a checkpoint lies: three calls that only read, one module for each kind of storage.

    /data/ck  file:/data/ck  /Volumes/… on a cluster   local_files          the operating system
    /Volumes/…  dbfs:/Volumes/… from a laptop          databricks_volumes   databricks-sdk, Files API
    s3://  abfss://  gs://  …                          cloud_stores         an fsspec filesystem

There is no call that writes, so nothing that is built on this can change a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple, Protocol

FILE = "file"
FOLDER = "folder"
OTHER = "other"  # a device, a pipe, or a link that leads out of the checkpoint: never opened


class FolderEntry(NamedTuple):
    """One name in a folder. size and modified (seconds since 1970) are None where the storage does not say.

    link: it is a link, and all else is said of what it leads to."""

    name: str
    kind: str
    size: int | None = None
    modified: float | None = None
    link: bool = False


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

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        """One listing. Raises FileNotFoundError, NotADirectoryError or PermissionError."""
        ...

    def read_file(self, path: str, limit: int) -> bytes:
        """At most `limit` bytes from the start of the file."""
        ...

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]: ...
