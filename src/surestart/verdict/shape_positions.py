"""The positions in offsets/: another number or kind of sources than in the code or the batch before; moved back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint import positions
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.positions import (
    DeltaPosition,
    FilesPosition,
    KafkaPosition,
    NoPosition,
    NumberPosition,
    Position,
    UnknownPosition,
    may_be_called,
)
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

# A files source is Auto Loader on Databricks and Spark's file source elsewhere: the declaration does not say which.


def find_position_shapes(
    checkpoint: Checkpoint, declaration: StageDeclaration | None, commands: Commands
) -> Iterator[Finding]:
    yield from _compare_declared(checkpoint, declaration, commands)
    yield from _compare_neighbours(checkpoint, commands)
    yield from _moves_back(checkpoint, commands)
    for source in checkpoint.sources:
        yield from _moves(source, commands)
    yield from _control_batches(checkpoint, commands)


def _control_batches(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    """Planned by an operation on the checkpoint and not by its query (OffsetSeqMetadataV2.controlBatchInfo)."""
    pending = checkpoint.in_flight
    control = checkpoint.control_batches
    if pending is not None and pending in control:
        yield Finding(
            "CONTROL_BATCH_PENDING",
            Severity.CANNOT_TELL,
            f"batch {pending} is a control batch ({control[pending]}) and not committed",
            "An operation on the checkpoint, such as a rewind or a repartition of its state, was begun and not "
            "finished. Most versions refuse to start the query then (DETECTED_PENDING_CONTROL_BATCH, "
            "STREAMING_UNFINISHED_REPARTITION_DETECTED); what another one does with the batch is not known. Run that "
            "operation again, with the same settings.",
            commands.doctor(),
            "delete the batch's file in offsets/: what the operation has changed already stays changed.",
        )
    elif control:
        newest = max(control)
        yield Finding(
            "CONTROL_BATCH",
            Severity.INFO,
            f"batch {newest} was a control batch ({control[newest]})",
            "An operation on the checkpoint was done in it. It moved no row, and a sink need not know its number.",
            commands.doctor(),
        )


def _compare_declared(
    checkpoint: Checkpoint, declaration: StageDeclaration | None, commands: Commands
) -> Iterator[Finding]:
    entry = checkpoint.latest_offsets
    if declaration is None or not isinstance(entry, OffsetLogEntry) or not entry.sources:
        return
    declared = declaration.sources
    if entry.version == 1 and len(declared) != len(entry.sources):
        yield Finding(
            "SOURCE_COUNT_CHANGED",
            Severity.UNSAFE,
            f"offsets/{entry.batch} holds {len(entry.sources)} sources, the stage declares {len(declared)}",
            'Spark matches sources by their place in the query and fails: "There are '
            f'[{len(entry.sources)}] sources in the checkpoint offsets and now there are [{len(declared)}]".',
            commands.plan("reset"),
            "add or remove a source and keep the checkpoint.",
        )
        return
    found = {source.id: source for source in checkpoint.sources}
    for index, (source, wanted) in enumerate(zip(entry.sources, declared, strict=False)):
        kind = found[source.id].kind if source.id in found else source.position.kind
        if not may_be_called(kind, wanted.kind):
            yield Finding(
                "SOURCE_KIND_CHANGED",
                Severity.UNSAFE,
                f"source {index} was {kind} and is declared as {wanted.kind} ({wanted.target})",
                "The new source cannot read the old one's position. Spark itself compares nothing here.",
                commands.plan("reset"),
                "swap sources under a checkpoint.",
            )


def _compare_neighbours(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    """Two entries of one query have the same sources; an entry that differs came from another query's checkpoint."""
    entries = [entry for entry in checkpoint.offsets.values() if isinstance(entry, OffsetLogEntry) and entry.sources]
    folders = {source.id: source.folder for source in checkpoint.sources}
    for before, after in pairwise(entries):
        difference = _difference(before, after)
        if difference:
            yield _foreign(f"offsets/{after.batch} {difference} than offsets/{before.batch}", commands)
    newest = entries[-1] if entries else None
    for source in newest.sources if newest else ():
        own = folders.get(source.id)
        kept = own.kind if own else ""
        told = source.position.kind in (positions.KAFKA, positions.FILES, positions.DELTA)
        if told and newest and kept in (positions.KAFKA, positions.FILES) and kept != source.position.kind:
            what = f"offsets/{newest.batch} has a {source.position.kind} position, sources/{source.id} is {kept}"
            yield _foreign(what, commands)


def _difference(before: OffsetLogEntry, after: OffsetLogEntry) -> str:
    if before.version == after.version == 1 and len(before.sources) != len(after.sources):
        return f"has {len(after.sources)} sources, {len(before.sources)} before: other"
    olds = {source.id: source.position for source in before.sources}
    for source in after.sources:
        old, new = olds.get(source.id), source.position
        if old is None or isinstance(old, NoPosition) or isinstance(new, NoPosition) or _broken(old) or _broken(new):
            continue
        if old.kind != new.kind:
            return f"has a {new.kind} source, {old.kind} before: another"
        topics = [position.partitions.keys() for position in (old, new) if isinstance(position, KafkaPosition)]
        if len(topics) == 2 and all(topics) and not topics[0] & topics[1]:
            return "names other topics"
        if isinstance(old, DeltaPosition) and isinstance(new, DeltaPosition) and old.table_id != new.table_id:
            return "reads another Delta table"
    return ""


def _broken(position: Position) -> bool:
    """Cut off: shape_damage reports it."""
    return isinstance(position, UnknownPosition) and position.broken


def _foreign(evidence: str, commands: Commands) -> Finding:
    return Finding(
        "FOREIGN_ENTRY",
        Severity.UNSAFE,
        evidence,
        "Files of another query are in this checkpoint, or other code ran on it. "
        "Spark fails, or reads from a position that belongs to other data.",
        commands.plan("replay"),
        "copy files from one checkpoint into another.",
    )


def _moves(source: CheckpointSource, commands: Commands) -> Iterator[Finding]:
    if isinstance(source.end, NoPosition) and source.start is not None and not isinstance(source.start, NoPosition):
        yield Finding(
            "POSITION_VOID",
            Severity.UNSAFE,
            f"source {source.id} has no position in the newest batch and had one before ({source.start.describe()})",
            "The source begins anew and reads everything again; the batch ids are new, so the sink takes it all twice.",
            commands.plan("replay"),
            "start it.",
        )
    negative = _negative(source.end) or _negative(source.start)
    if negative:
        yield Finding(
            "POSITION_INVALID",
            Severity.UNSAFE,
            f"source {source.id}: {negative}",
            "No source writes such a position.",
            commands.plan("replay"),
            "start it.",
        )


def _moves_back(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    """The two newest entries decide what is read next; an older one that is out of line shows damage only."""
    newest = checkpoint.latest_planned or 0
    entries = [entry for entry in checkpoint.offsets.values() if isinstance(entry, OffsetLogEntry)]
    for before, after in pairwise(entries):
        olds = {source.id: source.position for source in before.sources}
        back = next(
            (text for source in after.sources if (text := _moved_back(olds.get(source.id), source.position))), ""
        )
        if not back:
            continue
        yield Finding(
            "POSITION_BACKWARD",
            Severity.UNSAFE if after.batch >= newest - 1 else Severity.ATTENTION,
            f"between batch {before.batch} and {after.batch} a source moved {back}",
            "No source moves back. The file was cut off inside a number, edited, or comes from another checkpoint; "
            "what is between is read again under new batch ids.",
            commands.plan("replay"),
            "start it.",
        )


def _moved_back(start: Position | None, end: Position | None) -> str:
    if isinstance(start, NumberPosition) and isinstance(end, NumberPosition) and end.value < start.value:
        return f"from {start.value} back to {end.value}"
    if isinstance(start, FilesPosition) and isinstance(end, FilesPosition) and end.log_offset < start.log_offset:
        return f"from entry {start.log_offset} back to {end.log_offset}"
    if isinstance(start, DeltaPosition) and isinstance(end, DeltaPosition):
        same = end.table_id == start.table_id
        if same and (end.version, end.index) < (start.version, start.index):
            return f"from version {start.version} back to {end.version}"
    if isinstance(start, KafkaPosition) and isinstance(end, KafkaPosition):
        for topic, partitions in start.partitions.items():
            for partition, offset in partitions.items():
                now = end.partitions.get(topic, {}).get(partition)
                if now is not None and 0 <= now < offset:
                    return f"{topic}-{partition} from {offset} back to {now}"
    return ""


def _negative(end: Position | None) -> str:
    if isinstance(end, KafkaPosition):
        for topic, partitions in end.partitions.items():
            for partition, offset in partitions.items():
                if not 0 <= offset < 2**63:
                    return f"{topic}-{partition} at {offset}"
    if isinstance(end, FilesPosition) and end.log_offset < 0:
        return f"entry {end.log_offset} of the file list"
    return f"version {end.version}" if isinstance(end, DeltaPosition) and end.version < 0 else ""
