"""Traces of hands and copies: rewound, copied, moved, shared by two writers, half deleted, mixed with other files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from surestart.declaration import SinkDeclaration
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.positions import FilesPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, is_checkpoint
from surestart.facts.evidence.sink_names import DELTA_KINDS
from surestart.history.checkpoint_place import checkpoint_place
from surestart.verdict.next_start import NextStart
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

# Spark writes offsets/N in the same second in which it plans batch N; clocks of driver and storage may differ.
COPY_GAP_S = 600
CLOCK_GAP_MS = 60_000
_DRAFT = re.compile(r"(offsets|commits)/\.(\d{1,18})\.([0-9a-fA-F-]{36})(?:\.TID\d+)?\.tmp")


def find_traces(checkpoint: Checkpoint, start: NextStart, declared: bool, commands: Commands) -> Iterator[Finding]:
    if checkpoint.exists is not True or not is_checkpoint(checkpoint):
        return
    yield from _rewound(checkpoint, commands)
    yield from _taken_from(checkpoint, declared, commands)
    yield from _orphan_checksums(checkpoint, commands)
    yield from _copied(checkpoint, declared, commands)
    yield from _moved(checkpoint, commands)
    yield from _two_writers(checkpoint, commands)
    yield from _strange(checkpoint, commands)
    yield from _leftovers(checkpoint, commands)


def traces_of_later_batches(checkpoint: Checkpoint) -> list[str]:
    """What shows that batches beyond the newest planned one have run."""
    planned = checkpoint.latest_planned
    traces: list[str] = []
    if planned is None:
        return traces
    for source in checkpoint.sources:
        log = source.folder.file_log if source.folder else None
        # One entry ahead is normal: the list is written just before offsets/N.
        if log and isinstance(source.end, FilesPosition) and log.last > source.end.log_offset + 1:
            traces.append(
                f"sources/{source.id} lists files up to entry {log.last}, the offsets are at {source.end.log_offset}"
            )
    for operator in checkpoint.state.operators:
        latest = max((versions.latest or 0 for versions in operator.stores.values()), default=0)
        if latest > planned + 1:
            traces.append(f"state/{operator.id} goes to version {latest}, batch {planned} writes {planned + 1}")
    return traces


def _rewound(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    traces, planned = traces_of_later_batches(checkpoint), checkpoint.latest_planned
    if traces:
        yield Finding(
            "REWOUND",
            Severity.UNSAFE,
            f"{'; '.join(traces[:2])}: later batches than {planned} have run",
            "The newest offsets and commits were deleted, or an older copy was put back. Their batch ids "
            "are used again for other rows, and a sink that knows the ids drops them without an error.",
            commands.plan("replay"),
            "start it: measured on Spark 4.0, 20 of 80 rows were lost without a message.",
        )


def _taken_from(checkpoint: Checkpoint, declared: bool, commands: Commands) -> Iterator[Finding]:
    """A checkpoint without `state/` is that of a query without state, or has lost it: nothing else in it tells which.
    Spark makes the folder's own entries with the first batch and takes none away."""
    own, newest = checkpoint.folder_modified, checkpoint.newest_modified
    if declared or checkpoint.state.exists is not False or checkpoint.latest_committed is None:
        return
    if checkpoint.query_id is None or checkpoint.strange or own is None or newest is None or own <= newest + 1:
        return
    yield Finding(
        "TAKEN_FROM_CHECKPOINT",
        Severity.CANNOT_TELL,
        f"something was put into this folder or taken from it {_span(own - newest)} after its newest file was written, "
        "and there is no state/",
        "If it was the state of an aggregation, a join or a deduplication, the next start fails. A query that keeps no "
        "state is whole.",
        commands.doctor(),
        "start a query that keeps state: without its state, rows that it has seen count as new.",
    )


def _orphan_checksums(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for folder in (checkpoint.offsets_folder, checkpoint.commits_folder):
        orphans = sorted(folder.crcs - set(folder.ids) - set(folder.blocked))
        newer = [batch for batch in orphans if folder.last is None or batch > folder.last]
        if orphans:
            shown = ", ".join(str(batch) for batch in orphans[-5:])
            yield Finding(
                "CHECKSUM_WITHOUT_FILE",
                Severity.ATTENTION,
                f"{folder.name}/ has checksums of batches that are gone: {shown}",
                "The files were deleted by hand"
                + (
                    f": {folder.name}/ once went to {max(newer)}. A sink that "
                    f"knows batch {max(newer)} drops it when its id is used again."
                    if newer and folder.name == "offsets"
                    else "."
                ),
                commands.doctor(),
                "delete more files.",
            )


def _copied(checkpoint: Checkpoint, declared: bool, commands: Commands) -> Iterator[Finding]:
    """A finding for a stage that would be started on the copy. By itself a copy is no fault: it may be a backup."""
    entry = checkpoint.latest_offsets
    written = checkpoint.offsets_folder.last_modified
    if not isinstance(entry, OffsetLogEntry) or not entry.timestamp_ms or written is None:
        return
    gap = written - entry.timestamp_ms / 1000
    if gap > COPY_GAP_S:
        yield Finding(
            "COPIED",
            Severity.ATTENTION if declared else Severity.INFO,
            f"offsets/ was last written {_span(gap)} after batch {entry.batch}, its newest, was planned",
            "The folder was copied, moved between stores or restored from a backup. A backup may be older than "
            "the sink; a copy shares its query id with the original, and both count as one query to the sink.",
            commands.doctor("the original must not run beside it"),
            "run the copy and the original against one sink.",
        )


def _span(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"


def _moved(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    location = _bare(checkpoint.location)
    for log in checkpoint.schema_logs:
        if log.source_path and not _bare(log.source_path).startswith(location + "/"):
            yield Finding(
                "SCHEMA_LOG_MOVED",
                Severity.UNSAFE,
                f"{log.path} was written for {log.source_path}",
                'Delta compares this path with the present one and fails: "The Delta source metadata path used for '
                'execution … is different".',
                commands.plan("reset"),
                "edit the schema log.",
            )
    for operator in checkpoint.state.operators:
        elsewhere = [path for path in operator.schema_paths if not _bare(path).startswith(location + "/")]
        if elsewhere:
            yield Finding(
                "STATE_SCHEMA_MOVED",
                Severity.ATTENTION,
                f"state/{operator.id} names schema files at {elsewhere[0]}",
                "The checkpoint was moved or copied; this operator keeps absolute paths, which still "
                "point to the old place. Schema checks then compare with nothing, or with the other copy.",
                commands.doctor(),
                "delete the old place before the query has run at the new one.",
            )


def _bare(path: str) -> str:
    """A location without the spellings that mean the same: file:/x, file:///x, dbfs:/Volumes/x, a trailing slash."""
    path = re.sub(r"^dbfs:/+Volumes/", "/Volumes/", path)
    path = re.sub(r"^file:/+", "/", path)
    path = re.sub(r"^(s3)[an]://", r"\1://", path)
    return path.rstrip("/")


def _two_writers(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    drafts: dict[str, set[str]] = defaultdict(set)
    for name in (*checkpoint.offsets_folder.leftovers, *checkpoint.commits_folder.leftovers):
        match = _DRAFT.fullmatch(name)
        if match:
            drafts[f"{match.group(1)}/{match.group(2)}"].add(match.group(3))
    ids = {"offsets": set(checkpoint.offsets_folder.ids), "commits": set(checkpoint.commits_folder.ids)}
    traces = []
    for path, uuids in sorted(drafts.items()):
        folder, _, batch = path.partition("/")
        if len(uuids) > 1:
            traces.append(f"{len(uuids)} unfinished drafts of {path}")
        elif int(batch) in ids[folder]:
            traces.append(f"{path} is there, and so is an unfinished draft of it")
    entries = [entry for entry in checkpoint.offsets.values() if isinstance(entry, OffsetLogEntry)]
    for before, after in pairwise(entries):
        if before.timestamp_ms and after.timestamp_ms and before.timestamp_ms > after.timestamp_ms + CLOCK_GAP_MS:
            back = (before.timestamp_ms - after.timestamp_ms) / 1000
            traces.append(f"batch {after.batch} was planned {_span(back)} before batch {before.batch}")
    if traces:
        yield Finding(
            "TWO_WRITERS",
            Severity.ATTENTION,
            "; ".join(traces[:3]),
            "Two runs have written into this checkpoint at the same time, its files come from two "
            "checkpoints, or a clock was set back. Two runs of one query both write each batch.",
            commands.history(),
            "start another run before you know that every other one has ended.",
        )


def find_in_table(checkpoint: Checkpoint, sinks: Iterable[SinkDeclaration], commands: Commands) -> Iterator[Finding]:
    """Where the checkpoint lies below the folder of a Delta table that it writes. VACUUM passes over a folder whose
    name begins with "_" (Delta's guide, structured streaming: "<table-name>/_checkpoints")."""
    place = checkpoint_place(checkpoint.location)
    for table in sorted({sink.path for sink in sinks if sink.path and sink.kind in DELTA_KINDS}):
        root = checkpoint_place(table)
        below = place.removeprefix(f"{root}/").split("/") if place.startswith(f"{root}/") else ()
        if below and not any(name.startswith(("_", ".")) for name in below):
            yield _in_table(f"the checkpoint is {'/'.join(below)} in the folder of the Delta table {table}", commands)


def _in_table(where: str, commands: Commands) -> Finding:
    return Finding(
        "CHECKPOINT_IN_TABLE",
        Severity.ATTENTION,
        where,
        "VACUUM deletes files that the table does not know once they are old, the checkpoint's among them. Until "
        "then a start is not harmed by it.",
        commands.doctor("once the checkpoint is in a folder of its own"),
        "run VACUUM on that table.",
    )


def _strange(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    if not checkpoint.strange:
        return
    if "_delta_log" in checkpoint.strange:
        yield _in_table("the checkpoint's folder is a Delta table's folder too", commands)
        return
    names = ", ".join(checkpoint.strange[:5]) + (" …" if len(checkpoint.strange) > 5 else "")
    yield Finding(
        "STRANGE_FILES",
        Severity.ATTENTION,
        f"Spark did not make: {names}",
        "Somebody or something else writes into this folder. Spark passes over them.",
        commands.doctor(),
        "keep backups or notes inside a checkpoint.",
    )


def _leftovers(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    if checkpoint.leftover_count:
        yield Finding(
            "LEFTOVERS",
            Severity.INFO,
            f"{checkpoint.leftover_count} temporary files of writers that died, such as {checkpoint.leftovers[0]}",
            "Spark passes over them.",
            commands.run(),
        )
