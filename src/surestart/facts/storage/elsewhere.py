"""A folder shown as if it lay at another place: what a reader would say of it there, before it is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

from surestart.facts.storage.storage import FolderEntry, Storage


@dataclass(frozen=True)
class Elsewhere:
    storage: Storage
    location: str

    @property
    def kind(self) -> str:
        return self.storage.kind

    @property
    def checks_crc(self) -> bool:
        return self.storage.checks_crc

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        return self.storage.list_folder(path)

    def read_file(self, path: str, limit: int) -> bytes:
        return self.storage.read_file(path, limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self.storage.open_file(path)
