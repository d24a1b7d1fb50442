"""Every file of a checkpoint with its size and SHA-256: what "the same checkpoint, byte for byte" is judged by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from surestart.errors import CannotTell
from surestart.typed import typed


@dataclass(frozen=True)
class Manifest:
    """files: relative path -> (size, sha256)."""

    files: Mapping[str, tuple[int, str]]

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())

    @property
    def digest(self) -> str:
        lines = "\n".join(f"{name}\0{size}\0{sha}" for name, (size, sha) in sorted(self.files.items()))
        return hashlib.sha256(lines.encode("utf-8", errors="surrogateescape")).hexdigest()

    def is_within(self, other: Manifest) -> bool:
        """Nothing is here that the other has not, the same bytes."""
        return self.files.items() <= other.files.items()


def local_folder(location: str) -> Path:
    """Where a checkpoint can be moved from: this file system, Volumes on a cluster included."""
    plain = location.removeprefix("dbfs:") if location.startswith("dbfs:/Volumes/") else location
    plain = plain.removeprefix("file://").removeprefix("file:")
    if not plain.startswith("/"):
        raise CannotTell(
            f"{location} is not on a file system that this process has mounted",
            meaning="A remedy moves the whole checkpoint aside and verifies each byte; it cannot do that there.",
            next="surestart apply plan.json  # on a cluster that has it as a volume",
            code="CheckpointNotMounted",
        )
    return Path(plain)


def read_manifest(folder: Path) -> Manifest:
    """All files below the folder; empty for one that is not there. A link is not followed: it is no file of ours."""
    files: dict[str, tuple[int, str]] = {}
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            if path.is_symlink():
                raise CannotTell(
                    f"{path} is a link",
                    meaning="Moving it aside would not move what it points to, so the checkpoint would not come back.",
                    next=typed("ls", "-l", path.parent),
                    code="LinkInCheckpoint",
                )
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = (path.stat().st_size, sha256_of(path))
    return Manifest(files)


def sha256_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
