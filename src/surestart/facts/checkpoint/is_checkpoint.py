"""Whether a folder is a checkpoint at all, or one with other things in it."""

from __future__ import annotations

from surestart.facts.checkpoint.snapshot import Checkpoint


def is_checkpoint(checkpoint: Checkpoint) -> bool:
    return not checkpoint.strange or bool(
        checkpoint.query_id
        or checkpoint.metadata_fault
        or checkpoint.offsets_folder.exists
        or checkpoint.commits_folder.exists
        or checkpoint.sources_exist
        or checkpoint.state.exists
    )
