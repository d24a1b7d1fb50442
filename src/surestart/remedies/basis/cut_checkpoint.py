"""Writes a cut of a checkpoint beside it, and puts it in the place of that one; safe to die in between.

    <folder of the checkpoint>/_rewind/<query>/<digest>             the cut, file by file as Spark wrote them
    <folder of the checkpoint>/_rewind/<query>/<digest>.complete    it is whole, and this is its manifest's digest
    <folder of the checkpoint>/_rewind/<query>/<digest>.placing     the place is free; what is there by now is the cut

Nothing is edited in place: the one in use stays as it is until the new one was read back, and is then moved aside.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from surestart.facts.checkpoint.cut import METADATA, Cut, shortened_lines
from surestart.facts.checkpoint.manifest import Manifest, list_files, read_manifest, sha256_of
from surestart.facts.storage.open_storage import LocalStorage
from surestart.failpoints import fail_point
from surestart.remedies.basis.durable import sync, sync_folders
from surestart.remedies.basis.move_aside import (
    belong_alike,
    complete_marker,
    copy_differs,
    copy_verified,
    folders_belong_alike,
    write_marker,
)

SCRATCH = "_rewind"


def scratch_folder(checkpoint: Path, query: str, digest: str) -> Path:
    return checkpoint.parent / SCRATCH / query / digest[:16]


def write_cut(origin: Path, cut: Cut, scratch: Path) -> Manifest:
    """The cut lies there, whole and synced; each file that is a copy is the same bytes."""
    if complete_marker(scratch).exists():
        return _promised(scratch, scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    for folder in cut.folders:
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    files: dict[str, tuple[int, str]] = {}
    for name, size in cut.copied.items():
        files[name] = size, sha256_of(origin / name)
        copy_verified(origin / name, scratch / name, *files[name])
        fail_point("remedy.rewind.after_file")
    storage = LocalStorage(str(origin))
    # Metadata last: the folder is no younger than its newest file, from which nothing was taken since.
    for name, which in (*cut.shortened.items(), (METADATA, None)):
        content = cut.metadata if which is None else b"\n".join(shortened_lines(storage, which))
        _write(scratch / name, content)
        belong_alike(origin / (METADATA if which is None else which.origin), scratch / name)
        files[name] = len(content), sha256_of(scratch / name)
    folders_belong_alike(origin, scratch)
    sync_folders(scratch)
    made = Manifest(files)
    if list_files(scratch).keys() != files.keys():
        raise copy_differs(str(scratch), made.digest, read_manifest(scratch))
    write_marker(complete_marker(scratch), made.digest)
    return made


def place_cut(scratch: Path, here: Path) -> Manifest:
    """It is at `here`, where nothing else was, and no longer in the scratch folder."""
    if not _placing(scratch).exists():
        write_marker(_placing(scratch), "")
    fail_point("remedy.rewind.placing")
    if scratch.is_dir() and not here.exists() and not here.is_symlink():
        try:
            scratch.rename(here)
        except OSError:
            here.mkdir()
    if scratch.is_dir():
        for folder in sorted(path for path in scratch.rglob("*") if path.is_dir()):
            (here / folder.relative_to(scratch)).mkdir(parents=True, exist_ok=True)
        for name, (size, sha) in sorted(read_manifest(scratch).files.items(), key=lambda one: one[0] == METADATA):
            copy_verified(scratch / name, here / name, size, sha)
            fail_point("remedy.rewind.after_placed_file")
        folders_belong_alike(scratch, here)
        sync_folders(here)
    sync(here.parent)
    placed = _promised(scratch, here)
    fail_point("remedy.rewind.placed")
    return placed


def is_placing(scratch: Path) -> bool:
    return _placing(scratch).exists()


def is_placed(scratch: Path, here: Path) -> bool:
    """Whether what was written beside is in its place by now."""
    marker = complete_marker(scratch)
    return marker.exists() and read_manifest(here).digest == marker.read_text(encoding="utf-8")


def forget_marker(place: Path) -> None:
    """What says that it is whole is of no use any more: it stays where it was written."""
    complete_marker(place).unlink(missing_ok=True)


def forget_cut(scratch: Path) -> None:
    """Nothing of the cut is left in the scratch folder: it is in its place, or no longer wanted."""
    _placing(scratch).unlink(missing_ok=True)
    if scratch.is_dir():
        shutil.rmtree(scratch)
    complete_marker(scratch).unlink(missing_ok=True)
    for folder in (scratch.parent, scratch.parent.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _promised(scratch: Path, where: Path) -> Manifest:
    found, promised = read_manifest(where), complete_marker(scratch).read_text(encoding="utf-8")
    if found.digest != promised:
        raise copy_differs(str(where), promised, found)
    return found


def _placing(scratch: Path) -> Path:
    return scratch.with_name(scratch.name + ".placing")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sync(path)
