"""The event time behind which a query takes no more rows, as its newest entries have it."""

from __future__ import annotations

from surestart.facts.checkpoint.commit_log import CommitLogEntry
from surestart.facts.checkpoint.offset_log import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint


def watermark_ms(checkpoint: Checkpoint) -> int | None:
    """Of the next batch: what the newest commit leaves to it, else what the newest planned batch has. None: not set,
    or not known. (Spark writes 0 for a query without a watermark.)"""
    commit, planned = checkpoint.latest_commit, checkpoint.latest_offsets
    left = commit.next_watermark_ms if isinstance(commit, CommitLogEntry) else None
    own = planned.watermark_ms if isinstance(planned, OffsetLogEntry) else None
    return max((value for value in (left, own) if value), default=None)
