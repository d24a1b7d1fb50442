"""What a remedy moves aside with the folder of a checkpoint: the checkpoint, and nothing else."""

from __future__ import annotations

from surestart.errors import CannotTell, Refused
from surestart.facts.checkpoint.is_checkpoint import is_checkpoint
from surestart.facts.checkpoint.manifest import Manifest, local_folder, read_manifest
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.remedies.basis.chain import Link
from surestart.typed import surestart


def read_what_moves(link: Link, checkpoint: Checkpoint) -> Manifest:
    """What is moved with the checkpoint's folder. Raises where something else would go with it."""
    folder = local_folder(link.checkpoint)
    if checkpoint.exists is None:
        raise CannotTell(
            f"{link.checkpoint} cannot be read: {'; '.join(fault.detail for fault in checkpoint.other_faults[:1])}",
            meaning="What would be moved aside is not known. Nothing was planned.",
            next=surestart("inspect", link.checkpoint),
            code="CheckpointNotMounted",
        )
    found = "nothing that a checkpoint has" if checkpoint.exists and not is_checkpoint(checkpoint) else ""
    manifest = read_manifest(folder) if not found else Manifest({})
    found = found or next(filter(None, map(_of_another, manifest.files)), "")
    if not found:
        return manifest
    raise Refused(
        f"the checkpoint of {link.name} is said to be {link.checkpoint}, and that folder holds {found}",
        meaning="A remedy moves the whole folder aside: a table, or the checkpoints of other streams, would go with "
        "it. Nothing was changed.",
        next=surestart("inspect", "--all", link.checkpoint, note="what is in it; then correct where it is declared"),
        code="NotOneCheckpoint",
    )


def _of_another(file: str) -> str:
    """The table or the other checkpoint below a checkpoint's folder that this file is of, or ""."""
    folders = file.split("/")[:-1]
    if "_delta_log" in folders or "_spark_metadata" in folders:
        return f"a table: {file}"
    # What a source or a state store keeps there belongs to the checkpoint.
    others = folders[1:] if folders[:1] not in (["sources"], ["state"]) else []
    return f"another checkpoint: {file}" if "offsets" in others else ""
