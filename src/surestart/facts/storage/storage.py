"""Where a checkpoint lies: three calls that only read, one module for each kind of storage.

    /data/ck  file:/data/ck  /Volumes/… on a cluster   open_storage         the operating system
    /Volumes/…  dbfs:/Volumes/… from a laptop          databricks_volumes   databricks-sdk, Files API
    s3://  abfss://  gs://  …                          cloud_stores         an fsspec filesystem

There is no call that writes, so nothing that is built on this can change a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class StorageOf:
    """All that another storage says; who inherits changes a part of it."""

    storage: Storage

    @property
    def location(self) -> str:
        return self.storage.location

    @property
    def kind(self) -> str:
        return self.storage.kind

    @property
    def checks_crc(self) -> bool:
        return self.storage.checks_crc

    def at(self, path: str) -> str:
        """Where that other one has the path."""
        return path

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        return self.storage.list_folder(self.at(path))

    def read_file(self, path: str, limit: int) -> bytes:
        return self.storage.read_file(self.at(path), limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self.storage.open_file(self.at(path))


@dataclass(frozen=True)
class FolderStorage(StorageOf):
    """A folder of a storage as a storage of its own, so that a thousand folders of one store share its connection."""

    folder: str

    @property
    def location(self) -> str:
        return f"{self.storage.location.rstrip('/')}/{self.folder}" if self.folder else self.storage.location

    def at(self, path: str) -> str:
        return "/".join(part for part in (self.folder, path) if part)


@dataclass(frozen=True)
class ShownElsewhere(StorageOf):
    """A folder shown as if it lay at another place: what a reader would say of it there, before it is moved."""

    place: str

    @property
    def location(self) -> str:
        return self.place
