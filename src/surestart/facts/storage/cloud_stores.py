"""Cloud stores through fsspec: s3://, gs://, abfss:// and whatever else an installed one answers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import Any, BinaryIO, cast

from surestart.errors import CannotTell
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, FolderEntry
from surestart.typed import surestart
from surestart.words.inert import inert
from surestart.words.next_commands import install

# What opens a scheme: the extra that brings it, and what it installs.
_S3, _GCS, _AZURE = ("s3", "s3fs"), ("gcs", "gcsfs"), ("azure", "adlfs")
_BRINGS = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GCS),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), _AZURE),
}
_HADOOP = ("hdfs", "viewfs", "har")
# The same store under names that fsspec does not know.
_SPELLED = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}


def open_url(url: str) -> FsspecStorage:
    """Raises CannotTell when the filesystem for the scheme is not installed, or cannot be opened."""
    scheme = url.partition(":")[0].lower()
    spelled = _SPELLED.get(scheme, scheme) + url[len(scheme) :]
    if scheme in ("wasb", "wasbs"):
        spelled = spelled.replace(".blob.core.", ".dfs.core.", 1)
    try:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(spelled, use_listings_cache=False)
    except Exception as error:
        # Each filesystem fails to open in its own way: ValueError, OSError for a library that is missing, its SDK's.
        raise _not_opened(_SPELLED.get(scheme, scheme), url, error) from error
    return FsspecStorage(url, filesystem, str(root).rstrip("/"))


def _not_opened(scheme: str, url: str, error: Exception) -> CannotTell:
    reason = f"{type(error).__name__}: {inert(str(error), 200)}"
    what = f"no filesystem for {scheme}:// can be opened from here ({reason})"
    extra, package = _BRINGS.get(scheme, ("", ""))
    missing = isinstance(error, ImportError) or bool(package and find_spec(package) is None)
    if missing and package:
        note = f"what the extra surestart[{extra}] brings"
        command = install("fsspec", package, note=note)
    elif scheme in _HADOOP:
        what += ", and no extra of surestart brings Hadoop's own client"
        note = "where libhdfs and HADOOP_HOME are there; else mount it, or copy the folder with hdfs dfs -get"
        command = install("fsspec", "pyarrow", note=note)
    elif missing:
        note = f"and the client that is named above: no extra of surestart opens {scheme}://"
        command = install("fsspec", note=note)
    elif package:
        # The client is there: its login or its network is not.
        command = surestart("inspect", url, note="once the store can be logged in to from here")
    else:
        command = surestart("inspect", "--help", note=f"no client for {scheme}:// is known here: mount it, or copy it")
    return CannotTell(
        what,
        meaning="The checkpoint was not read; nothing is known of it.",
        next=command,
        do_not="treat an unread checkpoint as a safe one.",
        code="StorageNotInstalled" if missing else "StorageNotReachable",
    )


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

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        full = self._full(path)
        with _os_errors(path):
            found = self.filesystem.ls(full, detail=True)
        # Object stores list a file as if it were a folder that holds itself.
        if len(found) == 1 and found[0]["name"].rstrip("/") == full and found[0].get("type") == "file":
            raise NotADirectoryError(f"{path} is a file")
        for item in found:
            name = item["name"].rstrip("/").rpartition("/")[2]
            if item["name"].rstrip("/") != full and name:
                yield FolderEntry(name, _kind(item), item.get("size"), _seconds(item))

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
