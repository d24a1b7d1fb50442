"""A folder of a checkpoint moved to another place, verified byte for byte, and safe to die in between."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import Manifest, list_files, local_folder, read_manifest, sha256_of
from surestart.failpoints import fail_point
from surestart.remedies.basis.durable import sync, sync_folders
from surestart.typed import surestart, typed

RETIRED = "_retired"


def retired_folder(environment: Environment, query: str, digest: str, which: str = "") -> Path:
    """Where the checkpoint that this remedy put aside lies. which: "undone" for the one that an undo put aside."""
    name = digest[:16] + (f"-{which}" if which else "")
    return local_folder(environment.root_beside(query)) / RETIRED / query / name


def move_verified(
    origin: Path, target: Path, wanted: str | None, check: Callable[[], object] = lambda: None
) -> Manifest:
    """The files are in `target`, the same bytes, and no longer in `origin`. check: raises where they must stay, and is
    called right before they go."""
    if complete_marker(target).exists():
        manifest = read_manifest(target)
    else:
        manifest = read_manifest(origin)
        if wanted is not None and manifest.digest != wanted:
            raise copy_differs(str(origin), wanted, manifest)
        # Never emptied first: on a catalog another process of this remedy may have completed it by now, and be about
        # to remove the original.
        target.mkdir(parents=True, exist_ok=True)
        for name, (size, sha) in manifest.files.items():
            copy_verified(origin / name, target / name, size, sha)
            fail_point("remedy.move.after_file")
        if complete_marker(target).exists():
            manifest = read_manifest(target)
        else:
            _set_strays_aside(target, manifest)
            folders_belong_alike(origin, target)
            sync_folders(target)
            write_marker(complete_marker(target), manifest.digest)
    promised = complete_marker(target).read_text(encoding="utf-8")
    if manifest.digest != promised:
        raise copy_differs(str(target), promised, manifest)
    left = read_manifest(origin)
    if not left.is_within(manifest):
        # An earlier attempt died before the removal, and somebody has written there since.
        raise copy_differs(str(origin), promised, left)
    fail_point("remedy.move.before_removal")
    check()
    remove_folder(origin, target)
    return manifest


def _set_strays_aside(target: Path, manifest: Manifest) -> None:
    """A former attempt may have copied files that the origin has no longer."""
    for name in list_files(target).keys() - manifest.files.keys():
        stray = target.with_name(target.name + ".strays") / name
        stray.parent.mkdir(parents=True, exist_ok=True)
        (target / name).replace(stray)


def copy_verified(origin: Path, target: Path, size: int, sha: str) -> None:
    if target.is_file() and target.stat().st_size == size and sha256_of(target) == sha:
        sync(target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(origin, target)
    belong_alike(origin, target)
    keep_time(origin, target)
    sync(target)
    if sha256_of(target) != sha:
        raise Refused(
            f"{target} is not the same {size} bytes as {origin}",
            meaning="The storage did not keep what was written. The original is untouched.",
            next=typed("ls", "-l", origin, target, note="then the same command again"),
            code="CopyDiffers",
        )


def belong_alike(path: Path, copy: Path) -> None:
    """Modes, and where this user may give things away, the owner: the stream's own user has to write there. Before the
    times, which a file system may change with them."""
    with contextlib.suppress(OSError):
        if os.geteuid() == 0:
            os.chown(copy, path.stat().st_uid, path.stat().st_gid)
        shutil.copymode(path, copy)


def folders_belong_alike(folder: Path, copy: Path) -> None:
    """The same for the folders of the copy, and their times: one that is younger than its files looks as if something
    had been taken from it. Called after its files: a folder that is read-only now had to take them first."""
    for path in filter(Path.is_dir, [*folder.rglob("*"), folder]):
        if (there := copy / path.relative_to(folder)).is_dir():
            belong_alike(path, there)
            keep_time(path, there)


def keep_time(origin: Path, target: Path) -> None:
    """When it was written, where the file system keeps that: a checkpoint much younger than its batches looks like one
    that somebody has copied."""
    times = origin.stat()
    with contextlib.suppress(OSError):
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def remove_folder(folder: Path, target: Path) -> None:
    """The folder is gone; where the file system can rename, at once. What a link points to is emptied, and the link
    stays: moved, it would take nothing along, and without its folder Spark could not write through it."""
    if folder.is_symlink():
        for path in sorted(folder.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            fail_point("remedy.remove.after_entry")
        return
    going = target.with_name(target.name + ".going")
    if folder.is_dir():
        try:
            folder.rename(going)
        except OSError:
            shutil.rmtree(folder)
    fail_point("remedy.remove.after_rename")
    if going.is_dir():
        shutil.rmtree(going)


def remove_copy(aside: Path) -> None:
    """Removes the copy, which is of no use any more: the original is back."""
    for marker in (complete_marker(aside), aside.with_name(aside.name + ".restoring")):
        marker.unlink(missing_ok=True)
    shutil.rmtree(aside, ignore_errors=True)


def write_marker(path: Path, text: str) -> None:
    """Writes the marker. It has its name only once it is whole."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)


def complete_marker(folder: Path) -> Path:
    return folder.with_name(folder.name + ".complete")


def copy_differs(where: str, wanted: str, found: Manifest) -> Refused:
    return Refused(
        f"{where} holds {len(found.files)} files, {found.size} bytes, of digest {found.digest[:12]}; "
        f"expected was {wanted[:12]}",
        meaning="Somebody has written there since the plan was made, or the copy is damaged. Nothing was removed.",
        next=surestart("inspect", where),
        do_not="delete either of the two.",
        code="CheckpointDiffers",
    )
