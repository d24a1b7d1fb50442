"""With which options a new stream reads from where batch N began, for its owner to paste: Spark heeds them at the first
start of a new checkpoint only.

    Kafka        startingOffsets, of each partition that the batch before had reached
    Event Hubs   eventhubs.startingPositions, likewise, where it is declared: its positions look like Kafka's
    Delta        startingVersion; a batch that began inside a version reads the whole of that version again
    Iceberg      stream-from-timestamp, the time of the snapshot, where its table can be read
    files        no option at all: which files the batches before have read, and which come after
    Auto Loader, Kinesis, rate   no option takes a position; what takes a time, and which one

Also says what such a new stream does to each of its sinks, counted where the sink can be counted: its checkpoint has a
new query id, and its batches begin at 0."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry, SourceOffset
from surestart.facts.checkpoint.log_file import FormatError
from surestart.facts.checkpoint.positions import (
    RATE,
    AutoLoaderPosition,
    DeltaPosition,
    FilesPosition,
    IcebergPosition,
    KafkaPosition,
    KinesisPosition,
    RowsPosition,
)
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.delta import Commit
from surestart.facts.evidence.file_sink import FILE_LOG
from surestart.facts.evidence.iceberg_sink import read_iceberg_metadata
from surestart.facts.evidence.read_sinks import read_sink
from surestart.facts.evidence.session_evidence import read_sinks_by_session
from surestart.facts.evidence.sink_evidence import SinkEvidence, app_ids, batch_of, query_id_of
from surestart.facts.evidence.source_evidence import read_listed_paths
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.storage import Storage
from surestart.library_types import SparkSession
from surestart.verdict.acceptance_fresh import replaces_all

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


def options_of_batch(
    checkpoint: Checkpoint, storage: Storage, batch: int, declared: Sequence[SourceDeclaration] = ()
) -> tuple[ReaderOptions, ...]:
    """Where each source stood when the batch began: behind the batch before."""
    before, first = checkpoint.offsets.get(batch - 1), checkpoint.offsets.get(batch)
    entry = first if batch == 0 else before
    if not isinstance(entry, OffsetLogEntry):
        assert batch == 0
        return ()
    said = dict(zip((one.id for one in entry.sources), declared, strict=False))
    if batch == 0:
        return tuple(_from_the_beginning(one, checkpoint, said.get(one.id)) for one in entry.sources)
    return tuple(_behind(one, entry, checkpoint, storage, said.get(one.id)) for one in entry.sources)


def _from_the_beginning(one: SourceOffset, checkpoint: Checkpoint, declared: SourceDeclaration | None) -> ReaderOptions:
    folder = next((source.folder for source in checkpoint.sources if source.id == one.id), None)
    if folder is not None and folder.initial is not None:
        return _of_topics(one.id, folder.initial, checkpoint, declared)
    return ReaderOptions(one.id, {}, ("from its beginning: as its code says, without a position",))


def _behind(
    one: SourceOffset,
    entry: OffsetLogEntry,
    checkpoint: Checkpoint,
    storage: Storage,
    declared: SourceDeclaration | None,
) -> ReaderOptions:
    position = one.position
    if isinstance(position, KafkaPosition):
        return _of_topics(one.id, position, checkpoint, declared)
    if isinstance(position, DeltaPosition):
        return _of_delta(one.id, position)
    if isinstance(position, FilesPosition):
        return _of_files(one.id, position, checkpoint, storage)
    if isinstance(position, IcebergPosition):
        return _of_iceberg(one.id, position, declared)
    stood = f"it stood at {position.describe()}"
    if isinstance(position, AutoLoaderPosition):
        return _by_time(one.id, entry, f"Auto Loader begins at no position; {stood}", _AUTO_LOADER)
    if isinstance(position, KinesisPosition):
        return _by_time(one.id, entry, f"no option takes a place in each shard; {stood}", _KINESIS)
    kinds = {declared.kind if declared else "", *(each.kind for each in checkpoint.sources if each.id == one.id)}
    if isinstance(position, RowsPosition) or RATE in kinds:
        return ReaderOptions(one.id, {}, (f"a rate source makes its rows anew and begins at 0; {stood}",))
    return ReaderOptions(one.id, {}, (f"no option is known for it; {stood}",))


# Databricks, Auto Loader options: generic options. The time is that of the file, not that of its discovery.
_AUTO_LOADER = '.option("modifiedAfter", "{at:%Y-%m-%d %H:%M:%S}.000000 UTC+0") leaves out older files'
# Databricks, Kinesis options; github.com/awslabs/spark-sql-kinesis-connector, kinesis.startingPosition.
_KINESIS = (
    '.option("initialPosition", \'{{"at_timestamp": "{at:%m/%d/%Y %H:%M:%S} UTC", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}}'
    '\') on Databricks, .option("kinesis.startingPosition", "AT_TIMESTAMP {at:%Y-%m-%dT%H:%M:%SZ}") '
    "of the AWS connector"
)


def _by_time(source: str, entry: OffsetLogEntry, stood: str, option: str) -> ReaderOptions:
    """What takes a time alone. What waited when the batch before was planned is older than that."""
    if not entry.timestamp_ms:
        return ReaderOptions(source, {}, (stood, f"when batch {entry.batch} was planned is not known"))
    at = datetime.fromtimestamp(entry.timestamp_ms // 1000, UTC)
    waited = (
        f"batch {entry.batch} was planned then. What came before and had not been read by it does not come: go back"
    )
    return ReaderOptions(
        source, {}, (stood, option.format(at=at), f"{waited} by as much as the stream lagged, and rows come twice")
    )


def _of_topics(
    source: str, position: KafkaPosition, checkpoint: Checkpoint, declared: SourceDeclaration | None
) -> ReaderOptions:
    newest = checkpoint.latest_offsets
    listed = newest.sources if isinstance(newest, OffsetLogEntry) else ()
    now = next((one.position for one in listed if one.id == source), None)
    known = now.partitions if isinstance(now, KafkaPosition) else {}
    # Spark refuses a list that lacks a partition of the topic. One that was made since is read from its begin.
    every = {
        topic: {
            partition: position.partitions.get(topic, {}).get(partition, _BEGIN)
            for partition in sorted({*position.partitions.get(topic, {}), *known.get(topic, {})})
        }
        for topic in sorted({*position.partitions, *known})
    }
    if declared is not None and declared.kind == "event-hubs":
        return _of_hubs(source, every)
    offsets = {topic: {str(number): offset for number, offset in each.items()} for topic, each in every.items()}
    said = f"Spark wants every partition named: one made since the newest batch is added with {_BEGIN}, its begin"
    return ReaderOptions(source, {"startingOffsets": _compact(offsets)}, (said,))


_BEGIN = -2


def _of_hubs(source: str, every: Mapping[str, Mapping[int, int]]) -> ReaderOptions:
    """As the connector's guide has it (github.com/Azure/azure-event-hubs-spark, docs/PySpark): text of a JSON object as
    the key, and of offset, seqNo and enqueuedTime the one that counts."""
    positions = {
        _compact({"ehName": hub, "partitionId": partition}): {
            "offset": "-1" if number == _BEGIN else None,
            "seqNo": -1 if number == _BEGIN else number,
            "enqueuedTime": None,
            "isInclusive": True,
        }
        for hub, each in every.items()
        for partition, number in each.items()
    }
    said = "a partition that is not named begins as startingPosition says, or at its begin"
    return ReaderOptions(source, {"eventhubs.startingPositions": _compact(positions)}, (said,))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _of_iceberg(source: str, position: IcebergPosition, declared: SourceDeclaration | None) -> ReaderOptions:
    stood = f"it stood at {position.describe()}"
    if position.snapshot < 0:
        return ReaderOptions(source, {}, ("from its beginning: it had read nothing yet",))
    if position.whole:
        return ReaderOptions(source, {}, (f"{stood}: no option begins inside a whole table",))
    name, wanted = "stream-from-timestamp", f"the time of snapshot {position.snapshot} in ms since 1970"
    if declared is None or not declared.path:
        return ReaderOptions(source, {}, (stood, f"{name} takes {wanted}: the table's snapshots name it"))
    try:
        metadata = read_iceberg_metadata(open_storage(declared.path))
    except (OSError, FormatError, SurestartError) as error:
        return ReaderOptions(source, {}, (stood, f"{name} takes {wanted}; {declared.path} cannot be read: {error}"))
    found = metadata.snapshots.get(position.snapshot) if metadata is not None else None
    if found is None or found.timestamp is None:
        return ReaderOptions(
            source, {}, (stood, f"{declared.path} has no such snapshot any more: no option begins there")
        )
    said = (f"the first {position.file} files of that snapshot come again",) if position.file > 0 else ()
    return ReaderOptions(source, {name: str(found.timestamp)}, said)


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
    ours = {name: one.version for name, one in held.transactions.items() if query_id_of(name) == query_id}
    if not ours:
        return f"names no batch of this query: what batch {batch} and later ones wrote comes twice, uncounted"
    newest = max(ours.values())
    own = [commit for commit in held.commits if app_ids(commit) & ours.keys()]
    if own and all(map(replaces_all, own)):
        return "each batch writes the whole result anew: no row comes twice, and what is not read again is not in it"
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
