"""Every file of a checkpoint with its size and SHA-256: what "the same checkpoint, byte for byte" is judged by."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from surestart.errors import CannotTell
from surestart.facts.storage.open_storage import is_mounted
from surestart.typed import surestart, typed


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
        """Every file here is also in the other one, with the same bytes."""
        return self.files.items() <= other.files.items()


def local_folder(location: str) -> Path:
    """Where a checkpoint can be moved from: this file system, Volumes on a cluster included."""
    plain = location.removeprefix("dbfs:") if location.startswith("dbfs:/Volumes/") else location
    plain = plain.removeprefix("file://").removeprefix("file:")
    if not plain.startswith("/") or not is_mounted(plain):
        raise CannotTell(
            f"{location} is not on a file system that this process has mounted",
            meaning="A remedy moves the whole checkpoint aside and verifies each byte; it cannot do that there.",
            next=surestart("apply", "plan.json", note="on a cluster that has it as a volume"),
            code="CheckpointNotMounted",
        )
    return Path(plain)


_TIMES = 10


def read_manifest(folder: Path) -> Manifest:
    """All files below the folder; empty for one that is not there. A link is not followed: it is not a file of ours.
    Where a file was renamed or removed meanwhile, all are listed again."""
    for _ in range(_TIMES):
        try:
            paths = list_files(folder)
            # Hashing gives way to other threads: a checkpoint of gigabytes takes all cores.
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                found = pool.map(lambda path: (path.stat().st_size, sha256_of(path)), paths.values())
                return Manifest(dict(zip(paths, found, strict=True)))
        except FileNotFoundError as error:
            gone = error.filename
    raise CannotTell(
        f"files of {folder} come and go while they are read, {_TIMES} times now; the last one that went is {gone}",
        meaning="A query writes there, or the maintenance of its state, which goes on in its session for a while. "
        "Nothing was changed.",
        next=surestart("inspect", folder, note="stop the query and its session; then the same command again"),
        code="CheckpointChanges",
    )


def list_files(folder: Path) -> dict[str, Path]:
    """Relative path -> file, of all below the folder. Raises for a link."""
    files: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink():
            raise CannotTell(
                f"{path} is a link",
                meaning="Moving it aside would not move what it points to, so the checkpoint would not come back.",
                next=typed("ls", "-l", path.parent),
                code="LinkInCheckpoint",
            )
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = path
    return files


# A file's clock may tick once a second: what has changed within its last tick may change again and look the same.
_SETTLED_NS = 2_000_000_000
_REMEMBERED = 100_000
_hashed: dict[tuple[int, ...], str] = {}


def sha256_of(path: Path) -> str:
    """A remedy asks for the same files again and again; one whose bytes were read after they had settled, and that the
    file system says was not touched since, is not read again."""
    with path.open("rb") as content:
        known = _identity(content.fileno())
        if known in _hashed:
            return _hashed[known]
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        settled = time.time_ns() - max(known[3:]) > _SETTLED_NS and _identity(content.fileno()) == known
    if settled and known[1]:
        if len(_hashed) >= _REMEMBERED:
            _hashed.clear()
        _hashed[known] = digest
    return digest


def _identity(descriptor: int) -> tuple[int, ...]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
