"""How far a stage has come: the end of its newest committed batch, as its checkpoint says.

    Kafka   partition -> next offset         a record below it has been read
    Delta   table id, version                a row that the table held at this version has been read
    files   entry of the checkpoint's list   a file listed up to there has been read

A batch that is planned and not committed does not count: its rows may be in the output or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surestart.facts.checkpoint.batch_logs import CommitLogEntry, OffsetLogEntry
from surestart.facts.checkpoint.positions import AutoLoaderPosition, DeltaPosition, FilesPosition, KafkaPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint

NOTHING, EVERYTHING, UP_TO, UNKNOWN = "nothing", "everything", "up to", "unknown"


@dataclass(frozen=True)
class StageProgress:
    """planned: the newest planned batch, committed or not.
    problem: why the position is not known."""

    checkpoint: str
    planned: int | None = None
    committed: int | None = None
    kafka: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    delta: DeltaPosition | None = None
    files: int | None = None
    auto_loader: bool = False
    problem: str = ""

    @property
    def in_flight(self) -> bool:
        return self.planned is not None and self.planned != self.committed


def read_stage_progress(checkpoint: str) -> StageProgress:
    """How far the query has read, by its newest committed batch. What cannot be read is a problem of the answer."""
    found = read_checkpoint(checkpoint, entries=2)
    progress = StageProgress(checkpoint, found.latest_planned, found.latest_committed)
    if found.exists is None:
        why = found.metadata_fault.detail if found.metadata_fault else "no answer"
        return StageProgress(checkpoint, problem=f"the checkpoint cannot be read: {why}")
    if found.latest_committed is None:
        return progress
    entry = found.offsets.get(found.latest_committed)
    if not isinstance(entry, OffsetLogEntry) or len(entry.sources) != 1:
        why = "is missing" if entry is None else "is damaged" if not isinstance(entry, OffsetLogEntry) else "is not one"
        return StageProgress(
            checkpoint,
            found.latest_planned,
            found.latest_committed,
            problem=f"the position of batch {found.latest_committed} {why}",
        )
    position = entry.sources[0].position
    return StageProgress(
        checkpoint,
        found.latest_planned,
        found.latest_committed,
        kafka=position.partitions if isinstance(position, KafkaPosition) else {},
        delta=position if isinstance(position, DeltaPosition) else None,
        files=position.log_offset if isinstance(position, FilesPosition) else None,
        auto_loader=isinstance(position, AutoLoaderPosition),
    )


@dataclass(frozen=True)
class TableProgress:
    """how: nothing, everything, up to (and with) `version`, or unknown.
    partly: the version after it may be half read, so a row that is missing there cannot be judged."""

    how: str
    version: int = -1
    partly: bool = False
    problem: str = ""


def progress_in_table(progress: StageProgress, table_id: str, latest: int) -> TableProgress:
    """What the stage has read of the table, whose newest version is `latest`."""
    if progress.problem:
        return TableProgress(UNKNOWN, problem=progress.problem)
    if progress.committed is None:
        return TableProgress(NOTHING)
    position = progress.delta
    if position is None:
        return TableProgress(UNKNOWN, problem="the checkpoint holds no position in a Delta table")
    if position.table_id != table_id:
        return TableProgress(
            UNKNOWN, problem=f"the checkpoint read table {position.table_id}, and the table is {table_id} now"
        )
    # Below -1 stand the marks of a schema change: the version's rows are still unread.
    partly = position.index >= 0
    done = -1 if position.initial_snapshot else position.version - 1
    if done >= latest:
        return TableProgress(EVERYTHING)
    if done < 0:
        return TableProgress(NOTHING, partly=partly)
    return TableProgress(UP_TO, done, partly)


def watermark_ms(checkpoint: Checkpoint) -> int | None:
    """Of the next batch: what the newest commit leaves to it, else what the newest planned batch has. None: not set,
    or not known. (Spark writes 0 for a query without a watermark.)"""
    commit, planned = checkpoint.latest_commit, checkpoint.latest_offsets
    left = commit.next_watermark_ms if isinstance(commit, CommitLogEntry) else None
    own = planned.watermark_ms if isinstance(planned, OffsetLogEntry) else None
    return max((value for value in (left, own) if value), default=None)
