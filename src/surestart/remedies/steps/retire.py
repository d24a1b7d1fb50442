"""Moves a checkpoint aside, verified byte for byte, to <checkpoint_root>/_retired/<query>/<digest>; and back.

    1. copy: each file, synced, compared by size and SHA-256 with the plan       dies: copied again
    2. <digest>.complete is written, it holds the manifest's digest              from here on the copy counts
    3. the original goes: renamed out of sight where that works, then removed    dies: removed further

No step relies on a rename: volumes and object stores have none that is atomic. A checkpoint half removed is never
opened, because the start gate knows of the remedy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.failpoints import reach
from surestart.remedies.durable import sync, sync_folders
from surestart.remedies.journaling import refuse_carried_on
from surestart.remedies.manifest import Manifest, local_folder, read_manifest, sha256_of
from surestart.remedies.next_command import plan_command
from surestart.remedies.plan import Step
from surestart.remedies.running import Running
from surestart.typed import surestart, typed

RETIRED = "_retired"


def retired_folder(environment: Environment, query: str, digest: str, which: str = "") -> Path:
    """Where the checkpoint that this remedy put aside lies. which: "undone" for the one that an undo put aside."""
    name = digest[:16] + (f"-{which}" if which else "")
    return local_folder(environment.checkpoint_root.rstrip("/")) / RETIRED / query / name


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    """Nothing is at the checkpoint's path; what was there lies aside, complete."""
    link = run.chain.link(step.stage)
    aside = retired_folder(run.environment, link.query, run.digest)
    here = local_folder(link.checkpoint)
    moved = move_verified(here, aside, _wanted(run, step), lambda: refuse_carried_on(run, "apply"))
    return {"aside": str(aside), "files": len(moved.files), "size": moved.size, "manifest": moved.digest}


def undo_step(run: Running, step: Step) -> dict[str, Any]:
    """The checkpoint is back, byte for byte; what the stage has made since lies aside."""
    link = run.chain.link(step.stage)
    here, aside = local_folder(link.checkpoint), retired_folder(run.environment, link.query, run.digest)
    since = retired_folder(run.environment, link.query, run.digest, "undone")
    wanted = _wanted(run, step)
    if _complete(aside).exists():
        restoring = aside.with_name(aside.name + ".restoring")
        found = read_manifest(aside)
        if found.digest != wanted:
            raise _differs(str(aside), wanted, found)
        if not restoring.exists():
            if step.id in run.journal.done or not read_manifest(here).is_within(found):
                move_verified(here, since, None, lambda: refuse_carried_on(run, "undo"))
            else:
                # What is left of the original there is in the complete copy.
                refuse_carried_on(run, "undo")
                _remove(here, aside)
            _write_marker(restoring, wanted)
        refuse_carried_on(run, "undo")
        for name, (size, sha) in found.files.items():
            _copy_verified(aside / name, here / name, size, sha)
            reach("remedy.restore.after_file")
        sync_folders(here)
    back = read_manifest(here)
    if back.digest != wanted:
        raise _differs(str(here), wanted, back)
    _forget(aside)
    return {"manifest": back.digest, "since": str(since)}


def check_retired(run: Running, step: Step) -> None:
    """Raises when the retired checkpoint is not there any more, or not as it was."""
    link = run.chain.link(step.stage)
    aside = retired_folder(run.environment, link.query, run.digest)
    wanted = _wanted(run, step)
    if not _complete(aside).exists() and read_manifest(local_folder(link.checkpoint)).digest == wanted:
        return  # It is back already.
    if not aside.is_dir():
        raise Refused(
            f"{aside} is gone: `surestart prune` has removed it, or somebody else",
            meaning=f"The former checkpoint of {link.query} cannot come back. Nothing was changed.",
            next=plan_command(run.environment, "replay", step.stage, "--from-output") + "  # or reset",
            code="UndoTooLate",
        )
    found = read_manifest(aside)
    if found.digest != wanted:
        raise _differs(str(aside), wanted, found)


def _wanted(run: Running, step: Step) -> str:
    """The digest of the files that the plan saw; where the stages go on until a swap, of those there were then."""
    return str(step.arguments.get("manifest") or run.facts("check")["manifests"][step.stage])


def move_verified(
    origin: Path, target: Path, wanted: str | None, check: Callable[[], object] = lambda: None
) -> Manifest:
    """The files are in `target`, the same bytes, and no longer in `origin`. check: raises where they must stay, and is
    called right before they go."""
    if not _complete(target).exists():
        manifest = read_manifest(origin)
        if wanted is not None and manifest.digest != wanted:
            raise _differs(str(origin), wanted, manifest)
        # Never emptied first: on a catalog another process of this remedy may have completed it by now, and be about
        # to remove the original.
        target.mkdir(parents=True, exist_ok=True)
        for name, (size, sha) in manifest.files.items():
            _copy_verified(origin / name, target / name, size, sha)
            reach("remedy.move.after_file")
        if not _complete(target).exists():
            _set_strays_aside(target, manifest)
            sync_folders(target)
            _write_marker(_complete(target), manifest.digest)
    manifest = read_manifest(target)
    promised = _complete(target).read_text(encoding="utf-8")
    if manifest.digest != promised:
        raise _differs(str(target), promised, manifest)
    left = read_manifest(origin)
    if not left.is_within(manifest):
        # Died before the removal, and somebody has written there before this call.
        raise _differs(str(origin), promised, left)
    reach("remedy.move.before_removal")
    check()
    _remove(origin, target)
    return manifest


def _set_strays_aside(target: Path, manifest: Manifest) -> None:
    """A former attempt may have copied files that the origin has no longer."""
    for name in read_manifest(target).files.keys() - manifest.files.keys():
        stray = target.with_name(target.name + ".strays") / name
        stray.parent.mkdir(parents=True, exist_ok=True)
        (target / name).replace(stray)


def _copy_verified(origin: Path, target: Path, size: int, sha: str) -> None:
    if target.is_file() and target.stat().st_size == size and sha256_of(target) == sha:
        sync(target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(origin, target)
    sync(target)
    if sha256_of(target) != sha:
        raise Refused(
            f"{target} is not the same {size} bytes as {origin}",
            meaning="The storage did not keep what was written. The original is untouched.",
            next=typed("ls", "-l", origin, target, note="then the same command again"),
            code="CopyDiffers",
        )


def _remove(folder: Path, target: Path) -> None:
    """The folder is gone; where the file system can rename, at once. What a link points to is emptied, and the link
    stays: moved, it would take nothing along, and without its folder Spark could not write through it."""
    if folder.is_symlink():
        for path in sorted(folder.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            reach("remedy.remove.after_entry")
        return
    going = target.with_name(target.name + ".going")
    if folder.is_dir():
        try:
            folder.rename(going)
        except OSError:
            shutil.rmtree(folder)
    reach("remedy.remove.after_rename")
    if going.is_dir():
        shutil.rmtree(going)


def _forget(aside: Path) -> None:
    """The copy is of no use any more: the original is back."""
    for marker in (_complete(aside), aside.with_name(aside.name + ".restoring")):
        marker.unlink(missing_ok=True)
    shutil.rmtree(aside, ignore_errors=True)


def _write_marker(path: Path, text: str) -> None:
    """Under its name only when it is whole."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)


def _complete(folder: Path) -> Path:
    return folder.with_name(folder.name + ".complete")


def _differs(where: str, wanted: str, found: Manifest) -> Refused:
    return Refused(
        f"{where} holds {len(found.files)} files, {found.size} bytes, of digest {found.digest[:12]}; "
        f"expected was {wanted[:12]}",
        meaning="Somebody has written there since the plan was made, or the copy is damaged. Nothing was removed.",
        next=surestart("inspect", where),
        do_not="delete either of the two.",
        code="CheckpointDiffers",
    )
