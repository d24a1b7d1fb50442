"""Local and mounted storage, through the operating system.

A checkpoint is untrusted: a link may lead to /etc, a name may be a pipe that blocks its reader. Only regular files
inside the checkpoint's own folder are opened.

Which storage a location is on: the one place that knows all of them."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from surestart.errors import UsageError
from surestart.facts.storage.read_budget import BoundedStorage
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, FolderEntry, Storage
from surestart.typed import surestart

_READ = 1 << 20


@dataclass(frozen=True)
class LocalStorage:
    location: str
    _folders: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def kind(self) -> str:
        return "local"

    @property
    def checks_crc(self) -> bool:
        # A Volumes path is served by Databricks' own file system, which keeps no `.crc` files.
        return not self.location.startswith(("/Volumes/", "/dbfs/"))

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        return self.list_matching(path, lambda name: True)

    def list_matching(self, path: str, wanted: Callable[[str], bool]) -> Iterator[FolderEntry]:
        """The names that are wanted; of the others nothing but the name is asked, which is five times as fast."""
        folder = self._resolve_folder(path)
        with os.scandir(folder) as entries:
            for entry in entries:
                if wanted(entry.name):
                    yield self._entry(entry)

    def read_file(self, path: str, limit: int) -> bytes:
        descriptor = self._open(path)
        try:
            parts = []
            while limit > 0 and (part := os.read(descriptor, min(limit, _READ))):
                parts.append(part)
                limit -= len(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def open_file(self, path: str) -> BinaryIO:
        return os.fdopen(self._open(path), "rb")

    def _open(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        # O_NONBLOCK: opening a pipe without a writer would otherwise wait for ever.
        flags = os.O_RDONLY | os.O_NONBLOCK
        try:
            descriptor = os.open(f"{self._resolve_folder(folder)}/{name}", flags | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            descriptor = os.open(self._resolve(path), flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{path} is not a regular file")
        return descriptor

    def _entry(self, entry: os.DirEntry[str]) -> FolderEntry:
        link = False
        try:
            if link := entry.is_symlink():
                self._inside(entry.path)
            status = entry.stat()
        except OSError:
            return FolderEntry(entry.name, OTHER, link=link)
        if stat.S_ISDIR(status.st_mode):
            return FolderEntry(entry.name, FOLDER, None, status.st_mtime, link)
        kind = FILE if stat.S_ISREG(status.st_mode) else OTHER
        return FolderEntry(entry.name, kind, status.st_size, status.st_mtime, link)

    def _resolve_folder(self, folder: str) -> str:
        """Resolving costs more than opening, and a folder's many files share it."""
        if folder not in self._folders:
            self._folders[folder] = self._resolve(folder)
        return self._folders[folder]

    def _resolve(self, path: str) -> str:
        return self._inside(f"{self.location}/{path}" if path else self.location)

    def _inside(self, path: str) -> str:
        root = self._folders.get("")
        if root is None:
            root = self._folders[""] = os.path.realpath(self.location)
        real = os.path.realpath(path)
        if real != root and not real.startswith(root.rstrip("/") + "/"):
            raise PermissionError(f"{os.path.relpath(path, self.location)} leads out of the checkpoint")
        return real


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
    if re.match(r"file:(?!/)", location):
        raise UsageError(
            f"{location!r} is a relative path behind a scheme, which names no folder",
            meaning="Spark refuses it too: a local path is file:/path or file:///path.",
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
        if not is_mounted(local):
            from surestart.facts.storage.databricks_volumes import open_volume

            return open_volume(local)

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


def is_mounted(path: str) -> bool:
    """False: it is in a volume of Databricks, and this machine has none mounted. Its Files API may read it all the
    same; a folder of that name would be another one."""
    from pathlib import Path

    return not path.startswith("/Volumes/") or Path("/Volumes").is_dir()
