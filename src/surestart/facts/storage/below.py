"""A folder of a storage as a storage of its own, so that a thousand folders of one store share its connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

from surestart.facts.storage.storage import FolderEntry, Storage


@dataclass(frozen=True)
class FolderStorage:
    storage: Storage
    folder: str

    @property
    def location(self) -> str:
        return f"{self.storage.location.rstrip('/')}/{self.folder}" if self.folder else self.storage.location

    @property
    def kind(self) -> str:
        return self.storage.kind

    @property
    def checks_crc(self) -> bool:
        return self.storage.checks_crc

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        return self.storage.list_folder(self._at(path))

    def read_file(self, path: str, limit: int) -> bytes:
        return self.storage.read_file(self._at(path), limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self.storage.open_file(self._at(path))

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self.folder, path) if part)
