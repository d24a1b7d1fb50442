"""Moves a checkpoint aside, verified byte for byte, to <checkpoint_root>/_retired/<query>/<digest>; and back.

    1. copy: each file, synced, compared by size and SHA-256 with the plan       dies: copied again
    2. <digest>.complete is written, it holds the manifest's digest              from here on the copy counts
    3. the original goes: renamed out of sight where that works, then removed    dies: removed further

No step relies on a rename: volumes and object stores have none that is atomic. A checkpoint half removed is never
opened, because the start gate knows of the remedy.
"""

from __future__ import annotations

from typing import Any

from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import local_folder, read_manifest
from surestart.failpoints import fail_point
from surestart.history.describe_run import plan_command
from surestart.remedies.basis.durable import sync_folders
from surestart.remedies.basis.move_aside import (
    complete_marker,
    copy_differs,
    copy_verified,
    folders_belong_alike,
    move_verified,
    remove_copy,
    remove_folder,
    retired_folder,
    write_marker,
)
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext, refuse_carried_on


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """Nothing is at the checkpoint's path; what was there lies aside, complete."""
    link = run.chain.link(step.stage)
    aside = retired_folder(run.environment, link.query, run.digest)
    here = local_folder(link.checkpoint)
    moved = move_verified(here, aside, _wanted(run, step), lambda: refuse_carried_on(run, "apply"))
    return {"aside": str(aside), "files": len(moved.files), "size": moved.size, "manifest": moved.digest}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The checkpoint is back, byte for byte; what the stage has made since lies aside."""
    link = run.chain.link(step.stage)
    here, aside = local_folder(link.checkpoint), retired_folder(run.environment, link.query, run.digest)
    since = retired_folder(run.environment, link.query, run.digest, "undone")
    wanted = _wanted(run, step)
    if complete_marker(aside).exists():
        restoring = aside.with_name(aside.name + ".restoring")
        found = read_manifest(aside)
        if found.digest != wanted:
            raise copy_differs(str(aside), wanted, found)
        if not restoring.exists():
            if step.id in run.journal.done or not read_manifest(here).is_within(found):
                move_verified(here, since, None, lambda: refuse_carried_on(run, "undo"))
            else:
                # The complete copy has whatever is left of the original.
                refuse_carried_on(run, "undo")
                remove_folder(here, aside)
            write_marker(restoring, wanted)
        refuse_carried_on(run, "undo")
        for name, (size, sha) in found.files.items():
            copy_verified(aside / name, here / name, size, sha)
            fail_point("remedy.restore.after_file")
        folders_belong_alike(aside, here)
        sync_folders(here)
    back = read_manifest(here)
    if back.digest != wanted:
        raise copy_differs(str(here), wanted, back)
    remove_copy(aside)
    return {"manifest": back.digest, "since": str(since)}


def check_retired(run: StepContext, step: Step) -> None:
    """Raises when the retired checkpoint is not there any more, or not as it was."""
    link = run.chain.link(step.stage)
    aside = retired_folder(run.environment, link.query, run.digest)
    wanted = _wanted(run, step)
    if not complete_marker(aside).exists() and read_manifest(local_folder(link.checkpoint)).digest == wanted:
        return  # It is back already.
    if not aside.is_dir():
        raise Refused(
            f"{aside} is gone: `surestart prune` has removed it, or somebody else",
            meaning=f"The former checkpoint of {link.query} cannot come back. Nothing was changed.",
            next=plan_command(run.environment, "replay", step.stage, "--from-output", note="or reset"),
            code="UndoTooLate",
        )
    found = read_manifest(aside)
    if found.digest != wanted:
        raise copy_differs(str(aside), wanted, found)


def _wanted(run: StepContext, step: Step) -> str:
    """The digest of the files that the plan saw; where the stages go on until a swap, of those there were then."""
    return str(step.arguments.get("manifest") or run.facts("check")["manifests"][step.stage])
