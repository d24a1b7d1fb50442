"""Cloud stores through fsspec: s3://, gs://, abfss:// and whatever else an installed one answers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, cast

from surestart.errors import CannotTell
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, Entry

_EXTRA = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure"}


def open_url(url: str) -> FsspecStorage:
    """Raises CannotTell when the filesystem for the scheme is not installed."""
    scheme = url.partition(":")[0]
    install = f"pip install 'surestart[{_EXTRA.get(scheme, 's3')}]'"
    # Hadoop's names for S3 are unknown to fsspec.
    spelled = "s3" + url[len(scheme) :] if scheme in ("s3a", "s3n") else url
    try:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(spelled, use_listings_cache=False)
    except Exception as error:
        # Each filesystem fails to open in its own way: ValueError, OSError for a library that is missing, its SDK's.
        raise CannotTell(
            f"no filesystem for {scheme}:// can be opened from here ({type(error).__name__}: {str(error)[:200]})",
            meaning="The checkpoint was not read; nothing is known of it.",
            next=install,
            do_not="take an unread checkpoint for a safe one.",
            code="StorageNotInstalled",
        ) from error
    return FsspecStorage(url, filesystem, str(root).rstrip("/"))


@dataclass(frozen=True)
class FsspecStorage:
    location: str
    filesystem: Any
    root: str

    @property
    def kind(self) -> str:
        return "fsspec"

    @property
    def checks_crc(self) -> bool:
        return False

    def list_folder(self, path: str) -> Iterator[Entry]:
        full = self._full(path)
        with _os_errors(path):
            found = self.filesystem.ls(full, detail=True)
        # Object stores list a file as if it were a folder that holds itself.
        if len(found) == 1 and found[0]["name"].rstrip("/") == full and found[0].get("type") == "file":
            raise NotADirectoryError(f"{path} is a file")
        for item in found:
            name = item["name"].rstrip("/").rpartition("/")[2]
            if item["name"].rstrip("/") != full and name:
                yield Entry(name, _kind(item), item.get("size"), _seconds(item))

    def read_file(self, path: str, limit: int) -> bytes:
        with self.open_file(path) as file, _os_errors(path):
            return file.read(limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        with _os_errors(path):
            # readahead: one request for a small log file instead of one per block.
            return cast(AbstractContextManager[BinaryIO], self.filesystem.open(self._full(path), "rb"))

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root


def _kind(item: dict[str, Any]) -> str:
    return {"file": FILE, "directory": FOLDER}.get(str(item.get("type")), OTHER)


def _seconds(item: dict[str, Any]) -> float | None:
    for key in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = item.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return None


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Every store's own error becomes an OSError: the reader reports it as evidence that is out of reach."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{path or 'the checkpoint'}: {type(error).__name__}: {str(error)[:200]}") from error
