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
from surestart.facts.checkpoint.manifest import Manifest, read_manifest, sha256_of
from surestart.facts.storage.local_files import LocalStorage
from surestart.failpoints import reach
from surestart.remedies.plan.durable import sync, sync_folders
from surestart.remedies.plan.move_aside import _complete, _copy_verified, _differs, _write_marker

SCRATCH = "_rewind"


def scratch_folder(checkpoint: Path, query: str, digest: str) -> Path:
    return checkpoint.parent / SCRATCH / query / digest[:16]


def write_cut(origin: Path, cut: Cut, scratch: Path) -> Manifest:
    """The cut lies there, whole and synced; each file that is a copy is the same bytes."""
    if not _complete(scratch).exists():
        scratch.mkdir(parents=True, exist_ok=True)
        for folder in cut.folders:
            (scratch / folder).mkdir(parents=True, exist_ok=True)
        for name, size in cut.copied.items():
            _copy_verified(origin / name, scratch / name, size, sha256_of(origin / name))
            reach("remedy.rewind.after_file")
        storage = LocalStorage(str(origin))
        for name, which in cut.shortened.items():
            _write(scratch / name, b"\n".join(shortened_lines(storage, which)))
        # Last: the folder is no younger than its newest file, from which nothing was taken since.
        _write(scratch / METADATA, cut.metadata)
        sync_folders(scratch)
        _write_marker(_complete(scratch), read_manifest(scratch).digest)
    return _promised(scratch, scratch)


def place_cut(scratch: Path, here: Path) -> Manifest:
    """It is at `here`, where nothing else was, and no longer in the scratch folder."""
    if not _placing(scratch).exists():
        _write_marker(_placing(scratch), "")
    reach("remedy.rewind.placing")
    if scratch.is_dir() and not here.exists() and not here.is_symlink():
        try:
            scratch.rename(here)
        except OSError:
            here.mkdir()
    if scratch.is_dir():
        for folder in sorted(path for path in scratch.rglob("*") if path.is_dir()):
            (here / folder.relative_to(scratch)).mkdir(parents=True, exist_ok=True)
        for name, (size, sha) in sorted(read_manifest(scratch).files.items(), key=lambda one: one[0] == METADATA):
            _copy_verified(scratch / name, here / name, size, sha)
            reach("remedy.rewind.after_placed_file")
        sync_folders(here)
    sync(here.parent)
    placed = _promised(scratch, here)
    reach("remedy.rewind.placed")
    return placed


def is_placing(scratch: Path) -> bool:
    return _placing(scratch).exists()


def is_placed(scratch: Path, here: Path) -> bool:
    """What was written beside is in its place by now."""
    marker = _complete(scratch)
    return marker.exists() and read_manifest(here).digest == marker.read_text(encoding="utf-8")


def forget_cut(scratch: Path) -> None:
    """It is in its place, or not wanted any more."""
    _placing(scratch).unlink(missing_ok=True)
    if scratch.is_dir():
        shutil.rmtree(scratch)
    _complete(scratch).unlink(missing_ok=True)
    for folder in (scratch.parent, scratch.parent.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _promised(scratch: Path, where: Path) -> Manifest:
    found, promised = read_manifest(where), _complete(scratch).read_text(encoding="utf-8")
    if found.digest != promised:
        raise _differs(str(where), promised, found)
    return found


def _placing(scratch: Path) -> Path:
    return scratch.with_name(scratch.name + ".placing")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sync(path)
