"""What sources/ and state/ hold beside the two logs: lists cut off, notes damaged, versions gone."""

from __future__ import annotations

from collections.abc import Iterator

from surestart.facts.checkpoint import log_file, positions
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource
from surestart.facts.checkpoint.state_versions import expected_partitions
from surestart.typed import spark_sql, sql_text, surestart
from surestart.verdict.next_start import NextStart, Outcome
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def find_source_shapes(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    for source in checkpoint.sources:
        yield from _damaged_notes(source, commands)
        yield from _file_list(source, start, commands)
        if source.kind == positions.AUTO_LOADER:
            yield _auto_loader(checkpoint, source)
        yield from _kafka_initial(checkpoint, source, start, commands)
    if start.outcome is Outcome.FAILS and start.cause == "state":
        yield Finding(
            "STATE_MISSING",
            Severity.UNSAFE,
            start.why,
            f"The next start fails with {start.error}.",
            commands.plan("reset"),
            "delete state/ alone: the query would go on counting from nothing, or fail.",
        )
    elif start.outcome is Outcome.CANNOT_TELL and start.cause == "state":
        yield Finding(
            "STATE_EMPTY",
            Severity.CANNOT_TELL,
            start.why,
            "A query that keeps no state never makes this folder. What was in it is gone, and the next start fails; "
            "or somebody made it by hand, and it means nothing.",
            commands.doctor("once you know whether the query aggregates, joins or removes duplicates"),
            "remove the folder: a query that has lost its state would then look like one that never had any.",
        )
    for operator in checkpoint.state.operators:
        if operator.stores and expected_partitions(checkpoint, operator) is None:
            yield Finding(
                "STATE_PARTITIONS_UNCLEAR",
                Severity.CANNOT_TELL,
                f"state/{operator.id} holds partition 0 only, "
                f"{checkpoint.confs.get('spark.sql.shuffle.partitions')} are pinned, and its schema cannot be read",
                "A global aggregation has one partition. Any other operation has lost the rest, and the start fails.",
                commands.doctor(),
                "treat one partition as all of them before you know what the operation groups by.",
            )
    yield from _state_notes(checkpoint, commands)


def _file_list(source: CheckpointSource, start: NextStart, commands: Commands) -> Iterator[Finding]:
    if source.kind != positions.FILES:
        return
    if start.outcome is Outcome.FAILS and start.cause == "source list" and start.at == f"sources/{source.id}":
        yield Finding(
            "FILE_LIST_DAMAGED",
            Severity.UNSAFE,
            start.why,
            "The file source keeps in sources/ which files it has seen. Every "
            "start reads that list from its last .compact on, and fails.",
            commands.plan("replay"),
            "delete sources/: every file would be new again and be read once more.",
        )
    elif source.folder and source.folder.faults:
        fault = source.folder.faults[0]
        forgets = fault.kind == log_file.FORGETFUL
        if fault.kind not in (log_file.UNREADABLE, log_file.TOO_LARGE):
            yield Finding(
                "FILE_LIST_DAMAGED",
                Severity.UNSAFE,
                fault.detail,
                "Spark reads past it and forgets the files that were in it: they are new again and are read once more."
                if forgets
                else "The list of files seen is read at every start, which fails.",
                commands.plan("replay"),
                "start it." if forgets else "delete sources/: every file would be new again and be read once more.",
            )


def _damaged_notes(source: CheckpointSource, commands: Commands) -> Iterator[Finding]:
    """What another source keeps for itself: the rate source reads it at every start, Delta with schema tracking too."""
    if source.kind in (positions.FILES, positions.KAFKA) or not source.folder:
        return
    faults = [fault for fault in source.folder.faults if fault.kind not in (log_file.UNREADABLE, log_file.TOO_LARGE)]
    if faults:
        yield Finding(
            "SOURCE_NOTES_DAMAGED",
            Severity.UNSAFE if source.end is not None else Severity.ATTENTION,
            faults[0].detail,
            "The source wrote this for itself and may read it at every start; the start then fails.",
            commands.plan("replay"),
            "delete the file: the source would begin anew.",
        )


def _auto_loader(checkpoint: Checkpoint, source: CheckpointSource) -> Finding:
    return Finding(
        "AUTO_LOADER_OPAQUE",
        Severity.INFO,
        f"sources/{source.id}/rocksdb holds Auto Loader's list of files, in a format that only Databricks reads",
        "Which files are ingested cannot be told from here.",
        spark_sql(
            f"SELECT * FROM cloud_files_state({sql_text(checkpoint.location)})",
            "on Databricks, in a session",
        ),
        "delete it: every file would be new again.",
    )


def _kafka_initial(
    checkpoint: Checkpoint, source: CheckpointSource, start: NextStart, commands: Commands
) -> Iterator[Finding]:
    if source.kind != positions.KAFKA or checkpoint.latest_planned is None:
        return
    faults = source.folder.faults if source.folder else ()
    if source.folder is not None and source.folder.initial is not None and not faults:
        return
    replays_first = start.outcome is Outcome.REPLAYS and start.batch == 0
    torn = bool(faults)
    if torn or replays_first:
        what = faults[0].detail if torn else f"sources/{source.id}/0 is missing and batch 0 is in flight"
        yield Finding(
            "KAFKA_INITIAL_OFFSETS",
            Severity.UNSAFE if replays_first else Severity.ATTENTION,
            what,
            "Batch 0 begins at these offsets. Without them it begins where "
            "startingOffsets points now, and reads other rows than planned."
            if replays_first
            else "Only batch 0 begins at these offsets; the next start does not need them.",
            commands.plan("replay") if replays_first else commands.doctor(),
            "change startingOffsets now.",
        )


def _state_notes(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    faults = [
        fault for fault in checkpoint.state.faults if fault.kind in (log_file.EMPTY, log_file.TORN, log_file.STALE_CRC)
    ]
    if faults:
        yield Finding(
            "STATE_DAMAGED",
            Severity.ATTENTION,
            f"{faults[0].path}: {faults[0].detail}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""),
            "A state file or its description is not what Spark wrote. If the next batch loads it, the start fails.",
            commands.doctor(),
            "delete state files.",
        )
    if checkpoint.state.sampled:
        yield Finding(
            "STATE_NOT_LISTED",
            Severity.CANNOT_TELL,
            checkpoint.state.sampled,
            "So many folders are not listed over the network; whether every version is there is not known.",
            surestart("inspect", checkpoint.location, note="where the storage is mounted"),
            "treat unlisted state as complete state.",
        )
