"""One checkpoint, read from every kind of storage, with the same answer; links and pipes are never followed out."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from surestart.errors import CannotTell, UsageError
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.storage.databricks_volumes import open_volume
from surestart.facts.storage.open_storage import open_storage
from tests.checkpoint.checkpoint_maker import files, make_checkpoint, make_state
from tests.checkpoint.files_api_server import files_api

VOLUME = "/Volumes/main/sensor/checkpoints/sensor-raw-ingest"


def the_same(checkpoint: Checkpoint) -> Checkpoint:
    """Without what the storage itself is: its name, its clock."""
    return replace(
        checkpoint,
        location="",
        storage="",
        checks_crc=False,
        metadata_modified=None,
        folder_modified=None,
        newest_modified=None,
        offsets_folder=replace(checkpoint.offsets_folder, first_modified=None, last_modified=None),
        commits_folder=replace(checkpoint.commits_folder, first_modified=None, last_modified=None),
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    root = make_checkpoint(tmp_path / "ck", source=files)
    make_state(root, range(1, 6))
    return root


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "{}/", "{}/../ck"])
def test_every_spelling_of_a_local_path(checkpoint: Path, spelling: str) -> None:
    assert read_checkpoint(spelling.format(checkpoint)).latest_planned == 4


def test_a_relative_path_is_made_absolute(checkpoint: Path) -> None:
    before = Path.cwd()
    os.chdir(checkpoint.parent)
    try:
        assert read_checkpoint("ck").location == str(checkpoint)
    finally:
        os.chdir(before)


def test_a_store_behind_fsspec_gives_the_same_checkpoint(checkpoint: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(checkpoint), "/bucket/ck", recursive=True)
    try:
        found = read_checkpoint("memory://bucket/ck")
    finally:
        memory.rm("/bucket", recursive=True)
    assert found.storage == "fsspec"
    assert the_same(found) == the_same(read_checkpoint(str(checkpoint), entries=8))


def test_nothing_behind_fsspec_is_absent(checkpoint: Path) -> None:
    assert read_checkpoint("memory://bucket/nothing-here").exists is False


def test_a_volume_read_through_the_files_api_gives_the_same_checkpoint(checkpoint: Path) -> None:
    from databricks.sdk import WorkspaceClient

    with files_api(VOLUME, checkpoint) as server:
        client = WorkspaceClient(host=server.url, token="not-a-secret", auth_type="pat")
        found = read_checkpoint(VOLUME, open_volume(VOLUME, client))
        absent = read_checkpoint(VOLUME, open_volume("/Volumes/main/sensor/checkpoints/other", client))
        # The SDK asks for a signed link to download from: a PUT by name, a read by effect.
        asked = {method for method, path in server.calls if not path.startswith("/api/2.0/fs/create-download-url")}
    assert the_same(found) == the_same(read_checkpoint(str(checkpoint), entries=8))
    assert (found.storage, found.location, absent.exists, asked) == ("databricks", VOLUME, False, {"GET"})


def test_a_scheme_without_its_filesystem_names_the_extra() -> None:
    with pytest.raises(CannotTell) as caught:
        open_storage("abfss://container@account.dfs.core.windows.net/ck")
    assert "surestart[azure]" in str(caught.value.next)


@pytest.mark.parametrize("location", ["", "   ", "a\x00b", "dbfs:/user/ck"])
def test_an_impossible_location_is_refused(location: str) -> None:
    with pytest.raises(UsageError):
        open_storage(location)


def test_listings_do_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    def listings(batches: int) -> int:
        root = make_checkpoint(tmp_path / str(batches), planned=range(batches), committed=range(batches))
        storage = Counting(open_storage(str(root)))
        read_checkpoint(str(root), storage)
        return storage.listings

    assert listings(5) == listings(500)


class Counting:
    """A storage that counts what is asked of it."""

    def __init__(self, inner: object) -> None:
        self.inner = inner
        self.listings = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def list_folder(self, path: str) -> object:
        self.listings += 1
        return self.inner.list_folder(path)  # type: ignore[attr-defined]


def test_a_link_inside_the_checkpoint_is_followed(checkpoint: Path) -> None:
    (checkpoint / "offsets/5").symlink_to(checkpoint / "offsets/4")
    assert read_checkpoint(str(checkpoint)).latest_planned == 5


@pytest.mark.parametrize("target", ["/etc/passwd", "/", "/dev/zero"])
def test_a_link_out_of_the_checkpoint_is_not_opened(checkpoint: Path, target: str) -> None:
    (checkpoint / "offsets/4").unlink()
    (checkpoint / "offsets/4").symlink_to(target)
    (checkpoint / "metadata").unlink()
    (checkpoint / "metadata").symlink_to(target)
    found = read_checkpoint(str(checkpoint))
    assert {fault.path for fault in found.faults} == {"metadata", "offsets/4"}
    assert found.query_id is None
    assert "root:" not in repr(found)


def test_a_folder_that_leads_out_is_not_listed(checkpoint: Path, tmp_path: Path) -> None:
    elsewhere = make_checkpoint(tmp_path / "elsewhere", planned=range(90), committed=range(90))
    (checkpoint / "offsets").rename(tmp_path / "gone")
    (checkpoint / "offsets").symlink_to(elsewhere / "offsets")
    found = read_checkpoint(str(checkpoint))
    assert (found.offsets_folder.exists, found.latest_planned) == (None, None)
    assert found.faults[0].path == "offsets"


def test_a_pipe_is_not_waited_for(checkpoint: Path) -> None:
    (checkpoint / "commits/4").unlink()
    os.mkfifo(checkpoint / "commits/4")
    found = read_checkpoint(str(checkpoint))
    assert [fault.path for fault in found.faults] == ["commits/4"]


def test_a_checkpoint_reached_through_a_link_is_read(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkpoint)
    assert read_checkpoint(str(tmp_path / "link")).latest_planned == 4
