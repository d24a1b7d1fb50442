"""Unity Catalog volumes from outside a cluster, through databricks-sdk's Files API: listing and download only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from surestart.errors import CannotTell
from surestart.facts.storage.storage import FILE, FOLDER, FolderEntry
from surestart.typed import NextCommand, typed
from surestart.words.next_commands import install_extra


def open_volume(path: str, client: Any = None) -> VolumeStorage:
    """Raises CannotTell when databricks-sdk is absent or finds no login. `client` is a WorkspaceClient."""
    if client is None:
        try:
            from databricks.sdk import WorkspaceClient

            client = WorkspaceClient()
        except ImportError as error:
            raise _cannot("databricks-sdk is not installed", install_extra("databricks")) from error
        except ValueError as error:
            # The SDK raises ValueError when it finds no way to log in.
            raise _cannot(
                f"no login to Databricks: {str(error)[:200]}", typed("databricks", "auth", "login")
            ) from error
    return VolumeStorage(path.rstrip("/"), client)


@dataclass(frozen=True)
class VolumeStorage:
    location: str
    client: Any

    @property
    def kind(self) -> str:
        return "databricks"

    @property
    def checks_crc(self) -> bool:
        return False

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        with _os_errors(path):
            for item in self.client.files.list_directory_contents(self._full(path)):
                modified = item.last_modified / 1000 if item.last_modified is not None else None
                name = item.name or (item.path or "").rstrip("/").rpartition("/")[2]
                yield FolderEntry(name, FOLDER if item.is_directory else FILE, item.file_size, modified)

    def read_file(self, path: str, limit: int) -> bytes:
        with self.open_file(path) as file, _os_errors(path):
            return file.read(limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        with _os_errors(path):
            return cast(AbstractContextManager[BinaryIO], self.client.files.download(self._full(path)).contents)

    def _full(self, path: str) -> str:
        return f"{self.location}/{path}" if path else self.location


def _cannot(what: str, command: NextCommand) -> CannotTell:
    return CannotTell(
        what,
        meaning="A /Volumes path exists on clusters only; from here it is read through the Files API.",
        next=command,
        do_not="treat an unread checkpoint as a safe one.",
        code="StorageNotReachable",
    )


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """The SDK's errors by name, so that the SDK is imported only where it is used."""
    try:
        yield
    except Exception as error:
        # DatabricksError is an OSError by inheritance: its own name says more.
        what = f"{path or 'the checkpoint'}: {type(error).__name__}: {str(error)[:200]}"
        kinds: dict[str, type[OSError]] = {"NotFound": FileNotFoundError, "PermissionDenied": PermissionError}
        kind = kinds.get(type(error).__name__)
        if kind is None and isinstance(error, OSError):
            raise
        raise (kind or OSError)(what) from error
