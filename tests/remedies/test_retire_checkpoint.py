"""A checkpoint moved aside and back is the same bytes, wherever the move died; what differs is never removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import Manifest, read_manifest
from surestart.remedies.basis.move_aside import move_verified, retired_folder
from surestart.remedies.steps.retire import check_retired
from tests.remedies.move import away, back, back_half_way, dies_at, retire_step, running

MOVING = [f"remedy.move.after_file:{number}" for number in (1, 3, 5)]
REMOVING = ["remedy.move.before_removal", "remedy.remove.after_rename"]
RESTORING = [f"remedy.restore.after_file:{number}" for number in (1, 3, 5)]


def fill(folder: Path, newest: int = 1, id_of: str = "first") -> Manifest:
    """Five files for newest=1, as a checkpoint has them."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for batch in range(newest + 1):
            (folder / name / str(batch)).write_bytes(f"v1\n{name} {batch} {id_of}\n".encode() * 100)
    (folder / "metadata").write_text(f'{{"id":"{id_of}"}}')
    return read_manifest(folder)


def places(environment: Environment) -> tuple[Path, Path, Path]:
    """The checkpoint's own, where the remedy puts it, and where the undo puts what came after."""
    digest = running(environment, journaled=False).digest
    aside = [retired_folder(environment, "sensor-raw-ingest", digest, which) for which in ("", "undone")]
    return Path(environment.checkpoint("raw-ingest")), aside[0], aside[1]


def names_beside(folder: Path) -> set[str]:
    return {path.name.removeprefix(folder.name) for path in folder.parent.iterdir() if path.name != folder.name}


def complete_copies(wanted: Manifest, *folders: Path) -> int:
    return sum(read_manifest(folder) == wanted for folder in folders)


@pytest.mark.parametrize("point", [*MOVING, *REMOVING])
def test_a_move_aside_that_died_is_done_again_and_nothing_is_lost(environment: Environment, point: str) -> None:
    here, aside, _ = places(environment)
    before = fill(here)

    dies_at(point, lambda: away(environment, before.digest))
    assert complete_copies(before, here, aside) >= 1
    assert away(environment, before.digest)["manifest"] == before.digest

    assert read_manifest(aside) == before
    assert not here.exists()
    assert names_beside(aside) == {".complete"}


@pytest.mark.parametrize("point", [*MOVING, *REMOVING])
def test_a_move_aside_that_died_can_be_undone_instead(environment: Environment, point: str) -> None:
    here, aside, _ = places(environment)
    before = fill(here)
    dies_at(point, lambda: away(environment, before.digest))

    assert back_half_way(environment, before.digest)["manifest"] == before.digest

    assert read_manifest(here) == before
    assert not aside.exists()


@pytest.mark.parametrize(
    ("point", "ran"),
    [(point, True) for point in [*MOVING, *REMOVING, *RESTORING]]
    + [(point, False) for point in [*REMOVING, *RESTORING]],
)
def test_an_undo_that_died_is_done_again_and_nothing_is_lost(environment: Environment, point: str, ran: bool) -> None:
    here, aside, since = places(environment)
    before = fill(here)
    away(environment, before.digest)
    after = fill(here, id_of="second") if ran else read_manifest(here)

    dies_at(point, lambda: back(environment, before.digest))
    assert complete_copies(before, here, aside) >= 1
    assert complete_copies(after, here, since) >= 1 or not ran
    assert back(environment, before.digest)["manifest"] == before.digest

    assert read_manifest(here) == before
    assert read_manifest(since) == after
    assert not aside.exists()
    # Once more, as when its journal entry was not written.
    back(environment, before.digest)
    assert (read_manifest(here), read_manifest(since)) == (before, after)


def test_a_file_altered_since_the_plan_is_refused_and_nothing_is_removed(environment: Environment) -> None:
    here, aside, _ = places(environment)
    planned = fill(here)
    (here / "commits" / "1").write_text("v1\nanother\n")
    altered = read_manifest(here)

    with pytest.raises(Refused, match="expected was"):
        away(environment, planned.digest)

    assert read_manifest(here) == altered
    assert not aside.exists()


def test_what_was_written_while_a_move_lay_half_way_is_not_removed(environment: Environment) -> None:
    here, aside, since = places(environment)
    planned = fill(here)
    dies_at("remedy.move.before_removal", lambda: away(environment, planned.digest))
    (here / "offsets" / "2").write_text("by plain Spark")
    altered = read_manifest(here)

    with pytest.raises(Refused, match="expected was"):
        away(environment, planned.digest)
    assert (read_manifest(here), read_manifest(aside)) == (altered, planned)

    back_half_way(environment, planned.digest)
    assert (read_manifest(here), read_manifest(since)) == (planned, altered)


def test_a_damaged_copy_never_replaces_the_original(environment: Environment) -> None:
    here, aside, _ = places(environment)
    planned = fill(here)
    dies_at("remedy.move.before_removal", lambda: away(environment, planned.digest))
    (aside / "commits" / "0").write_text("damaged")

    with pytest.raises(Refused, match="expected was"):
        away(environment, planned.digest)
    with pytest.raises(Refused, match="expected was"):
        back_half_way(environment, planned.digest)
    assert read_manifest(here) == planned


def test_an_undo_is_refused_before_it_begins_when_its_checkpoint_was_pruned(environment: Environment) -> None:
    here, aside, _ = places(environment)
    planned = fill(here)
    away(environment, planned.digest)
    after = fill(here, id_of="second")
    shutil.rmtree(aside)

    with pytest.raises(Refused, match="is gone"):
        check_retired(running(environment, journaled=True), retire_step(planned.digest))
    assert read_manifest(here) == after


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another device than tmp_path, where no rename leads."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system here")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.mark.parametrize("point", ["", *MOVING, *REMOVING])
def test_where_nothing_can_be_renamed_the_checkpoint_is_moved_all_the_same(
    tmp_path: Path, elsewhere: Path, point: str
) -> None:
    origin, target = tmp_path / "checkpoints" / "q", elsewhere / "q" / "d"
    before = fill(origin)

    if point:
        dies_at(point, lambda: move_verified(origin, target, before.digest))
    assert complete_copies(before, origin, target) >= 1
    move_verified(origin, target, before.digest)

    assert read_manifest(target) == before
    assert not origin.exists()
    assert names_beside(target) == {".complete"}


def test_a_removal_that_died_between_two_files_is_carried_on(tmp_path: Path) -> None:
    origin, target = tmp_path / "q", tmp_path / "_retired" / "q" / "d"
    before = fill(origin)
    dies_at("remedy.move.before_removal", lambda: move_verified(origin, target, before.digest))
    # As where no rename is possible and the process died while files were deleted one by one.
    shutil.rmtree(origin / "commits")

    move_verified(origin, target, before.digest)

    assert read_manifest(target) == before
    assert not origin.exists()


def test_a_copy_is_on_the_disk_before_its_original_goes(environment: Environment, monkeypatch: Any) -> None:
    here, aside, _ = places(environment)
    before = fill(here)
    synced: dict[Path, int] = {}
    really = os.fsync

    def noting(descriptor: int) -> None:
        really(descriptor)
        synced[Path(f"/proc/self/fd/{descriptor}").readlink()] = len(read_manifest(here).files)

    monkeypatch.setattr(os, "fsync", noting)
    away(environment, before.digest)

    wanted = {aside / name for name in before.files} | {aside, aside / "offsets", aside.parent}
    wanted |= {aside.with_name(aside.name + ".complete.new")}
    assert set(synced) >= wanted
    # The original was whole at each of them.
    assert set(synced.values()) == {len(before.files)}


def test_what_another_process_has_copied_is_never_removed(environment: Environment) -> None:
    """On a catalog nothing keeps two processes of one remedy apart: the other may be about to remove the original."""
    here, aside, _ = places(environment)
    before = fill(here)
    dies_at("remedy.move.after_file:3", lambda: away(environment, before.digest))
    copied = {path: path.stat().st_mtime_ns for path in aside.rglob("*") if path.is_file()}
    assert len(copied) == 3

    away(environment, before.digest)

    assert {path: path.stat().st_mtime_ns for path in copied} == copied


def test_what_the_origin_has_no_longer_is_set_aside_and_not_retired(environment: Environment) -> None:
    here, _, since = places(environment)
    fill(here)
    dies_at("remedy.move.after_file:3", lambda: move_verified(here, since, None))
    (here / "commits/0").unlink()
    left = read_manifest(here)

    move_verified(here, since, None)

    assert read_manifest(since) == left
    assert (since.with_name(f"{since.name}.strays") / "commits/0").is_file()


LINKED = [*MOVING[:1], "remedy.move.before_removal", "remedy.remove.after_entry:1", "remedy.remove.after_entry:2"]


@pytest.mark.parametrize("point", [None, *LINKED])
def test_the_files_behind_a_linked_checkpoint_are_moved_and_the_link_stays(
    environment: Environment, tmp_path: Path, point: str | None
) -> None:
    here, aside, since = places(environment)
    disk = tmp_path / "another disk" / "checkpoint"
    before = fill(disk)
    here.parent.mkdir(parents=True)
    here.symlink_to(disk)
    if point:
        dies_at(point, lambda: away(environment, before.digest))
        assert complete_copies(before, here, aside) >= 1

    # Applied, and applied again.
    for _ in range(2):
        assert away(environment, before.digest)["manifest"] == before.digest
        assert read_manifest(aside) == before
        assert here.readlink() == disk
        assert not list(disk.iterdir())

    after = fill(here, newest=0, id_of="second")
    assert read_manifest(disk) == after
    if point:
        dies_at("remedy.restore.after_file:2", lambda: back(environment, before.digest))
    # Undone, and undone again.
    for _ in range(2):
        back(environment, before.digest)
        assert read_manifest(disk) == before
        assert read_manifest(since) == after
        assert here.readlink() == disk
