"""With which options a new stream reads from where batch N began, for its owner to paste: Spark heeds them at the first
start of a new checkpoint only.

    Kafka    startingOffsets, of each partition that the batch before had reached
    Delta    startingVersion; a batch that began inside a version reads the whole of that version again
    files    no option at all: which files the batches before have read, and which come after

What a stream that is begun anew from batch N does to each of its sinks, counted where the sink can be counted.

A new checkpoint has a new query id and counts its batches from 0."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry, SourceOffset
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition, KafkaPosition
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.delta import Commit
from surestart.facts.evidence.file_sink import FILE_LOG
from surestart.facts.evidence.read_sinks import read_sink
from surestart.facts.evidence.session_evidence import read_sinks_by_session
from surestart.facts.evidence.sink_evidence import SinkEvidence, app_ids, batch_of
from surestart.facts.evidence.source_evidence import read_listed_paths
from surestart.facts.storage.storage import Storage
from surestart.library_types import SparkSession

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
        return ReaderOptions(source, {}, (f"{said} the table is read, with the rows that it had given until then",))
    files = position.index + 1
    said = f"it stood inside version {version}: the first {files} files of that come again" if files > 0 else ""
    return ReaderOptions(source, {"startingVersion": str(version)}, (said,) if said else ())


def _of_files(source: str, position: FilesPosition, checkpoint: Checkpoint, storage: Storage) -> ReaderOptions:
    log = next((one.folder.file_log for one in checkpoint.sources if one.id == source and one.folder), None)
    said = "a file source has no start option: everything in its folder is read, even what was read before"
    if log is None or log.last <= position.log_offset:
        return ReaderOptions(source, {}, (said, "no file was listed after that batch"))
    try:
        files = tuple(read_listed_paths(storage, source, position.log_offset + 1, log.last))
    except (OSError, ValueError) as error:
        return ReaderOptions(source, {}, (said, f"which files come after it cannot be told: {error}"))
    return ReaderOptions(source, {}, (said, f"{len(files):,} files were listed from there on"), files)


def rows_again(
    spark: SparkSession | None, environment: Environment, sinks: Iterable[SinkDeclaration], query_id: str, batch: int
) -> list[str]:
    """One line for each sink: which rows come twice, or not at all."""
    lines = [f"{one.target}: {_told(spark, one, query_id, batch)}" for one in sinks]
    return lines or ["No sink is declared: whether rows come twice or not at all cannot be told."]


def _told(spark: SparkSession | None, sink: SinkDeclaration, query_id: str, batch: int) -> str:
    try:
        by_session = read_sinks_by_session(spark, [sink]) if spark is not None and not sink.path else {}
        held = by_session.get(sink.target) or read_sink(sink, count_rows=False, query_id=query_id)
    except SurestartError as error:
        return f"cannot be told: {error.what}"
    if held.problem:
        return f"cannot be told: {held.problem}"
    if held.batches is not None or held.source == FILE_LOG:
        return _by_number(held)
    if sink.identity == "constant":
        return _of_constant(sink, held)
    if not held.asked:
        keys = f"rows are matched by {', '.join(sink.keys)} and change nothing" if sink.keys else ""
        return keys or f"keeps no record of batches: what batch {batch} and later ones wrote comes twice, uncounted"
    return _of_query(sink, held, query_id, batch)


def _by_number(held: SinkEvidence) -> str:
    last = held.batches.last if held.batches is not None else None
    if last is None:
        return "holds no batch: nothing comes twice"
    return (
        f"knows batches by number alone and holds 0..{last}: it drops the first {last + 1} batches of a new "
        "checkpoint, so their rows do not come at all. Give the new stream a folder of its own"
    )


def _of_constant(sink: SinkDeclaration, held: SinkEvidence) -> str:
    found = held.transactions.get(sink.constant)
    if found is None:
        return f"knows no batch under {sink.constant!r}: what is there comes twice, uncounted"
    return (
        f"holds batches up to {found.version} under the constant {sink.constant!r}: it drops the first "
        f"{found.version + 1} batches of a new checkpoint, so their rows do not come at all. Give the new stream "
        "another txnAppId"
    )


def _of_query(sink: SinkDeclaration, held: SinkEvidence, query_id: str, batch: int) -> str:
    ours = {name: one.version for name, one in held.transactions.items() if name.partition(":")[0] == query_id}
    if not ours:
        return f"names no batch of this query: what batch {batch} and later ones wrote comes twice, uncounted"
    newest = max(ours.values())
    if newest < batch - 1:
        return f"holds batches up to {newest}: those of {newest + 1}..{batch - 1} do not come at all"
    if newest < batch:
        return f"holds batches up to {newest}: no row comes twice"
    if sink.keys:
        return f"batches {batch}..{newest} come again and are matched by {', '.join(sink.keys)}: they change nothing"
    rows = _rows(held.commits, set(ours), batch, newest)
    counted = f"{rows:,} rows" if rows is not None else "rows that its commits do not count"
    return f"holds batches {batch}..{newest} of this query: {counted} come twice"


def _rows(commits: Iterable[Commit], names: set[str], batch: int, newest: int) -> int | None:
    """None where not every batch has a commit that says how many rows it wrote."""
    rows, seen = 0, set[int]()
    for commit in commits:
        for name in names & app_ids(commit):
            number = batch_of(commit, name)
            if number is not None and number >= batch:
                if commit.output_rows is None:
                    return None
                rows += commit.output_rows
                seen.add(number)
                break
    return rows if newest in seen and min(seen) <= batch else None
