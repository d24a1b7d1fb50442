"""A checkpoint held in a dictionary: the storage protocol at the speed of memory, for thousands of shapes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from surestart.facts.storage.storage import FILE, FOLDER, FolderEntry


class MemoryStorage:
    """files: path -> bytes. Folders exist by their files, and by being named in `folders`."""

    kind = "local"
    checks_crc = False

    def __init__(self, files: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> None:
        self.location = "/memory/sensor-raw-ingest"
        self.files = dict(files)
        self.folders = {""} | {
            "/".join(path.split("/")[:depth])
            for path in [*(f"{folder}/x" for folder in folders), *files]
            for depth in range(1, path.count("/") + 1)
        }

    @classmethod
    def of(cls, root: Path) -> MemoryStorage:
        files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        return cls(files, tuple(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()))

    def with_file(self, path: str, data: bytes) -> MemoryStorage:
        return MemoryStorage({**self.files, path: data}, tuple(self.folders - {""}))

    def without(self, *paths: str) -> MemoryStorage:
        kept = {
            path: data
            for path, data in self.files.items()
            if not any(path == gone or path.startswith(gone + "/") for gone in paths)
        }
        folders = tuple(
            folder
            for folder in self.folders - {""}
            if not any(folder == gone or folder.startswith(gone + "/") for gone in paths)
        )
        return MemoryStorage(kept, folders)

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        if path in self.files:
            raise NotADirectoryError(path)
        if path not in self.folders:
            raise FileNotFoundError(path)
        prefix = f"{path}/" if path else ""
        for folder in self.folders - {""}:
            if folder.startswith(prefix) and folder != path and "/" not in folder[len(prefix) :]:
                yield FolderEntry(folder[len(prefix) :], FOLDER)
        for name, data in self.files.items():
            if name.startswith(prefix) and "/" not in name[len(prefix) :]:
                yield FolderEntry(name[len(prefix) :], FILE, len(data))

    def read_file(self, path: str, limit: int) -> bytes:
        if path in self.folders:
            raise IsADirectoryError(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][:limit]

    def open_file(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read_file(path, 1 << 40))
