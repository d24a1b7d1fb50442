"""With which options a new stream reads from where batch N began, for its owner to paste: Spark heeds them at the first
start of a new checkpoint only.

    Kafka    startingOffsets, of each partition that the batch before had reached
    Delta    startingVersion; a batch that began inside a version reads the whole of that version again
    files    no option at all: which files the batches before have read, and which come after
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from surestart.facts.checkpoint.offset_log import OffsetLogEntry, SourceOffset
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition, KafkaPosition
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.evidence.source_evidence import read_listed_paths
from surestart.facts.storage.storage import Storage

SHOWN = 10


@dataclass(frozen=True)
class ReaderOptions:
    """Of one source.

    options: to paste; none: there is no option for it.
    says: what they do not cover, and how many rows of the source come again by it.
    files: that have to be read, where the source takes no position."""

    source: str
    options: Mapping[str, str]
    says: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        for name, value in self.options.items():
            yield f"source {self.source}: .option({json.dumps(name)}, {json.dumps(value)})"
        yield from (f"source {self.source}: {line}" for line in self.says)
        yield from (f"source {self.source}: read {file}" for file in self.files[:SHOWN])
        if len(self.files) > SHOWN:
            yield f"source {self.source}: … {len(self.files) - SHOWN:,} more files, all of them in the plan"


def options_of_batch(checkpoint: Checkpoint, storage: Storage, batch: int) -> tuple[ReaderOptions, ...]:
    """Where each source stood when the batch began: behind the batch before."""
    before, first = checkpoint.offsets.get(batch - 1), checkpoint.offsets.get(batch)
    if batch == 0:
        shown = first.sources if isinstance(first, OffsetLogEntry) else ()
        return tuple(_from_the_beginning(one, checkpoint) for one in shown)
    assert isinstance(before, OffsetLogEntry)
    return tuple(_behind(one, checkpoint, storage) for one in before.sources)


def _from_the_beginning(one: SourceOffset, checkpoint: Checkpoint) -> ReaderOptions:
    folder = next((source.folder for source in checkpoint.sources if source.id == one.id), None)
    if folder is not None and folder.initial is not None:
        return ReaderOptions(one.id, {"startingOffsets": _offsets(folder.initial)})
    return ReaderOptions(one.id, {}, ("from its beginning: as its code says, without a position",))


def _behind(one: SourceOffset, checkpoint: Checkpoint, storage: Storage) -> ReaderOptions:
    position = one.position
    if isinstance(position, KafkaPosition):
        return ReaderOptions(one.id, {"startingOffsets": _offsets(position)}, ("partitions made since are read whole",))
    if isinstance(position, DeltaPosition):
        return _of_delta(one.id, position)
    if isinstance(position, FilesPosition):
        return _of_files(one.id, position, checkpoint, storage)
    return ReaderOptions(one.id, {}, (f"no option is known for it; it stood at {position.describe()}",))


def _offsets(position: KafkaPosition) -> str:
    body = {
        topic: {str(partition): offset for partition, offset in sorted(offsets.items())}
        for topic, offsets in sorted(position.partitions.items())
    }
    return json.dumps(body, separators=(",", ":"))


def _of_delta(source: str, position: DeltaPosition) -> ReaderOptions:
    version = position.version
    if position.initial_snapshot:
        said = f"it stood inside the first snapshot, of version {version}: no option begins there. Without one all of"
        return ReaderOptions(source, {}, (f"{said} the table is read, with the rows that it had given by then",))
    files = position.index + 1
    said = f"it stood inside version {version}: the first {files} files of that come again" if files > 0 else ""
    return ReaderOptions(source, {"startingVersion": str(version)}, (said,) if said else ())


def _of_files(source: str, position: FilesPosition, checkpoint: Checkpoint, storage: Storage) -> ReaderOptions:
    log = next((one.folder.file_log for one in checkpoint.sources if one.id == source and one.folder), None)
    said = "a file source has no start option: what lies in its folder is read, also what was read before"
    if log is None or log.last <= position.log_offset:
        return ReaderOptions(source, {}, (said, "no file was listed after that batch"))
    try:
        files = tuple(read_listed_paths(storage, source, position.log_offset + 1, log.last))
    except (OSError, ValueError) as error:
        return ReaderOptions(source, {}, (said, f"which files come after it cannot be told: {error}"))
    return ReaderOptions(source, {}, (said, f"{len(files):,} files were listed from there on"), files)
