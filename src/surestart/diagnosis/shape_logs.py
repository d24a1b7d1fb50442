"""metadata, offsets/ and commits/: torn, missing, holes, one log ahead of the other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from surestart.checkpoint import log_file
from surestart.checkpoint.commit_log import CommitLogEntry
from surestart.checkpoint.log_file import LogFault
from surestart.checkpoint.offset_log import OffsetLogEntry
from surestart.checkpoint.snapshot import Checkpoint
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.finding import Finding, Severity
from surestart.diagnosis.restart import NextStart, Outcome

KEEP = "delete the checkpoint: without its query id the sink cannot tell old rows from new ones."
NO_EDIT = "write into the checkpoint by hand or delete single files: the batch ids stay known to the sink."


def find_log_shapes(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    if checkpoint.exists is not True or not is_checkpoint(checkpoint):
        yield _absent(checkpoint, commands)
        return
    yield from _unreadable(checkpoint, commands)
    yield from _metadata(checkpoint, start, commands)
    yield from _torn(checkpoint, commands)
    yield from _stale_checksums(checkpoint, commands)
    yield from _versions(checkpoint, start, commands)
    yield from _missing_logs(checkpoint, start, commands)
    yield from _relation(checkpoint, start, commands)
    yield from _holes(checkpoint, commands)
    yield from _odd_names(checkpoint, commands)


def is_checkpoint(checkpoint: Checkpoint) -> bool:
    return not checkpoint.strange or bool(
        checkpoint.query_id
        or checkpoint.metadata_fault
        or checkpoint.offsets_folder.exists
        or checkpoint.commits_folder.exists
        or checkpoint.sources_exist
        or checkpoint.state.exists
    )


def _absent(checkpoint: Checkpoint, commands: Commands) -> Finding:
    if checkpoint.exists is None or (checkpoint.exists and checkpoint.other_faults):
        return Finding(
            "CHECKPOINT_UNREADABLE",
            Severity.CANNOT_TELL,
            checkpoint.other_faults[0].detail if checkpoint.other_faults else "the folder cannot be listed",
            "Nothing is known of this checkpoint. It may be whole.",
            "give this user read access to the folder, then: " + commands.doctor(),
            "take an unread checkpoint for a missing one.",
        )
    if checkpoint.exists:
        return Finding(
            "NOT_A_CHECKPOINT",
            Severity.CANNOT_TELL,
            f"the folder holds {', '.join(checkpoint.strange[:5])} and nothing that a checkpoint has",
            "This is another folder: a table, or a root under which checkpoints lie.",
            f"surestart inspect {shlex.quote(checkpoint.location.rstrip('/') + '/' + checkpoint.strange[0])}",
            "start a query on this folder: its files would mix with the ones that are there.",
        )
    return Finding(
        "CHECKPOINT_ABSENT",
        Severity.ATTENTION,
        "there is no such folder",
        "A first start begins at batch 0 under a new query id. Over output of an earlier run it writes every row "
        "again.",
        commands.doctor(),
        "start it if this query has run before: somebody moved or deleted its checkpoint.",
    )


def _unreadable(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    faults = [fault for fault in checkpoint.faults if fault.kind in (log_file.UNREADABLE, log_file.TOO_LARGE)]
    if faults:
        yield Finding(
            "CHECKPOINT_UNREADABLE",
            Severity.CANNOT_TELL,
            f"{faults[0].path}: {faults[0].detail}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""),
            "A part of the checkpoint could not be read, so nothing can be promised about the next start.",
            commands.doctor(),
            "take an unread file for a whole one.",
        )


def _metadata(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    fault = checkpoint.metadata_fault
    if fault and fault.kind not in (log_file.UNREADABLE, log_file.TOO_LARGE):
        yield Finding(
            "METADATA_TORN",
            Severity.UNSAFE,
            fault.detail,
            "The query id cannot be read, so no Spark version starts this query; the id is the identity under "
            "which the "
            "sink knows the batches.",
            commands.plan("replay"),
            "delete the file: Spark before 4.2 would then go on under a new id and write the batch in flight twice.",
        )
    if checkpoint.metadata_trailing:
        yield Finding(
            "METADATA_APPENDED",
            Severity.ATTENTION,
            f"metadata goes on after its JSON with {checkpoint.metadata_trailing[:20]!r}",
            "Spark passes over these bytes and never writes them: something else wrote into the checkpoint.",
            commands.doctor(),
            NO_EDIT,
        )
    used = checkpoint.latest_planned is not None or checkpoint.latest_committed is not None
    if checkpoint.query_id is None and fault is None and used:
        replays = start.outcome is Outcome.REPLAYS
        unsafe = replays or start.outcome in (Outcome.FAILS, Outcome.LOOPS)
        effect = (
            f"The next start on Spark {start.spark} {start.sentence}."
            if not replays
            else f"Spark {start.spark} makes a new query id and replays batch {start.batch}: a sink that holds it "
            "already "
            "writes it again."
        )
        yield Finding(
            "METADATA_MISSING",
            Severity.UNSAFE if unsafe else Severity.ATTENTION,
            f"metadata is missing, batches up to {_newest(checkpoint)} are there",
            f"{effect} Spark 4.2 refuses to start; older ones renew the identity without a word.",
            commands.plan("replay") if unsafe else commands.doctor(),
            "put another query's metadata file here.",
        )


def _newest(checkpoint: Checkpoint) -> int:
    return max(checkpoint.latest_planned or 0, checkpoint.latest_committed or 0)


def _torn(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    newest = checkpoint.latest_planned
    for batch, entry in checkpoint.offsets.items():
        if isinstance(entry, LogFault) and entry.kind in (log_file.EMPTY, log_file.TORN):
            yield _torn_finding("OFFSETS_TORN", entry, batch in (newest, (newest or 0) - 1), commands)
        elif isinstance(entry, OffsetLogEntry):
            yield from _torn_inside(entry, batch in (newest, (newest or 0) - 1), commands)
    unread = checkpoint.offsets_folder.empty - checkpoint.offsets.keys()
    if unread:
        fault = LogFault(f"offsets/{max(unread)}", log_file.EMPTY, f"{len(unread)} older offset files have 0 bytes")
        yield _torn_finding("OFFSETS_TORN", fault, False, commands)
    for batch, commit in checkpoint.commits.items():
        last = batch == checkpoint.latest_committed
        if isinstance(commit, LogFault) and commit.kind in (log_file.EMPTY, log_file.TORN):
            yield _torn_finding("COMMITS_TORN", commit, last, commands)
        elif isinstance(commit, CommitLogEntry) and (commit.bare or commit.trailing):
            yield _bare_commit(commit, last, commands)


def _torn_inside(entry: OffsetLogEntry, needed: bool, commands: Commands) -> Iterator[Finding]:
    path = f"offsets/{entry.batch}"
    detail = ""
    if not entry.sources:
        detail = f"{path} ends after its second line: it names no source"
    elif not entry.has_metadata:
        detail = f"line 2 of {path} is empty"
    for source in entry.sources:
        if source.text is not None and getattr(source.position, "broken", False):
            detail = f"{path}: the position of source {source.id} is cut off"
    if detail:
        yield _torn_finding("OFFSETS_TORN", LogFault(path, log_file.TORN, detail), needed, commands)
    elif entry.trailing:
        yield Finding(
            "OFFSETS_APPENDED",
            Severity.ATTENTION,
            f"{path} goes on after its JSON with {entry.trailing[:20]!r}",
            "Spark passes over these bytes and never writes them: something else wrote into the checkpoint.",
            commands.doctor(),
            NO_EDIT,
        )


def _torn_finding(code: str, fault: LogFault, needed: bool, commands: Commands) -> Finding:
    if needed:
        return Finding(
            code,
            Severity.UNSAFE,
            fault.detail,
            "Every start reads this file and fails, whatever Spark version.",
            commands.plan("replay"),
            "delete the file: "
            + (
                "with one log shorter than the other the next start runs a batch again or fails at every start."
                if code == "OFFSETS_TORN"
                else "the batch is then replayed, and a sink without an identity check writes it twice."
            ),
        )
    return Finding(
        code,
        Severity.ATTENTION,
        fault.detail,
        "The next start does not read this file. It shows that a write was cut off or that something damaged the "
        "storage.",
        commands.doctor(),
        NO_EDIT,
    )


def _bare_commit(commit: CommitLogEntry, last: bool, commands: Commands) -> Finding:
    path = f"commits/{commit.batch}"
    if commit.trailing and not commit.bare:
        return Finding(
            "COMMITS_APPENDED",
            Severity.ATTENTION,
            f"{path} goes on after its JSON with {commit.trailing[:20]!r}",
            "Spark passes over these bytes and never writes them: something else wrote into the checkpoint.",
            commands.doctor(),
            NO_EDIT,
        )
    return Finding(
        "COMMIT_CUT_TO_VERSION",
        Severity.ATTENTION,
        f"{path} has its version line and nothing more ({commit.size} bytes)",
        "Spark takes it for a whole commit"
        + (
            " with a watermark of 0: a query with a watermark lets late rows in again." if last else "; it is not read."
        ),
        commands.doctor(),
        "delete the file: the batch would be replayed.",
    )


def _stale_checksums(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for fault in checkpoint.crc_faults.values():
        yield Finding(
            "CHECKSUM_STALE",
            Severity.UNSAFE,
            f"{fault.path}: {fault.detail}",
            "The file was changed after Spark wrote it. On a local file system the start fails with a "
            "ChecksumException; "
            "on a cloud store it reads the changed file.",
            commands.plan("replay"),
            "delete the .crc file: that hides the change, and what the file says is not what Spark wrote.",
        )


def _versions(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    if start.outcome is Outcome.FAILS and start.cause == log_file.VERSION:
        yield Finding(
            "LOG_VERSION",
            Severity.UNSAFE,
            start.why,
            "A newer Spark, or one with other settings, wrote this checkpoint.",
            "start it with the Spark version that wrote it"
            + (f" ({checkpoint.spark_version})" if checkpoint.spark_version else ""),
            "change the version line.",
        )
    commit = checkpoint.latest_commit
    if isinstance(commit, CommitLogEntry) and commit.state_ids and start.spark in ("4.0", "4.1"):
        yield Finding(
            "STATE_FORMAT_V2",
            Severity.INFO,
            f"commits/{commit.batch} has version v2: state format v2",
            f"Spark {start.spark} reads it only with spark.sql.streaming.stateStore.checkpointFormatVersion=2; "
            "without "
            "that setting the start fails with INVALID_LOG_VERSION.EXACT_MATCH_VERSION and changes nothing.",
            commands.run(),
        )


def _missing_logs(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    planned, committed = checkpoint.latest_planned, checkpoint.latest_committed
    if planned is None and committed is not None:
        yield Finding(
            "OFFSETS_DELETED",
            Severity.UNSAFE,
            f"offsets/ holds no batch, commits/ goes to {committed}",
            f"The next start on Spark {start.spark} {start.sentence}.",
            commands.plan("replay"),
            "delete commits/ as well: batch ids would begin at 0 under an id that the sink knows, and it drops them.",
        )
    if planned is not None and planned > 0 and committed is None:
        yield Finding(
            "COMMITS_DELETED",
            Severity.ATTENTION,
            f"offsets/ goes to {planned}, commits/ holds no batch",
            f"Only batch {planned} is replayed; 0 to {planned - 1} count as done. Whether they are, the sink knows.",
            commands.doctor(),
            "delete offsets/ as well: " + KEEP[len("delete the checkpoint: ") :],
        )
    if planned is None and committed is None:
        yield from _nothing_planned(checkpoint, commands)


def _nothing_planned(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    logs = [source.folder.file_log for source in checkpoint.sources if source.folder and source.folder.file_log]
    ran = [f"sources/ lists files up to entry {log.last}" for log in logs if log.last > 0]
    if checkpoint.state.operators:
        ran.append(f"state/ holds {checkpoint.state.files} files")
    if checkpoint.schema_logs:
        ran.append("a Delta schema log is there")
    if ran:
        identity = (
            "the same query id: the sink drops batches that it knows" if checkpoint.query_id else "a new query id"
        )
        yield Finding(
            "LOGS_DELETED",
            Severity.UNSAFE,
            f"neither offsets/ nor commits/ holds a batch, but {' and '.join(ran)}",
            f"This query has run. The next start begins at batch 0 under {identity}, with the sources' old notes: "
            "rows are "
            "lost or written twice, without an error.",
            commands.plan("replay"),
            "start it: the first batch ids are the ones that the sink has seen.",
        )
    elif checkpoint.sources_exist and checkpoint.sources:
        yield Finding(
            "LOGS_EMPTY",
            Severity.CANNOT_TELL,
            "neither offsets/ nor commits/ holds a batch; sources/ does",
            "Either the very first start was cut off before it planned batch 0, which is harmless, or both logs were "
            "deleted. The checkpoint cannot tell which; the sink can.",
            commands.doctor(),
            "start it before the sink was asked.",
        )
    else:
        # Spark makes both folders in the moment in which it writes metadata; a store without real folders has none.
        vanished = checkpoint.query_id and checkpoint.storage == "local" and not checkpoint.offsets_folder.exists
        yield Finding(
            "NEVER_STARTED",
            Severity.CANNOT_TELL if vanished else Severity.INFO if checkpoint.query_id else Severity.ATTENTION,
            "no batch has been planned"
            + (
                ", and offsets/ itself is gone"
                if vanished
                else ""
                if checkpoint.query_id
                else ", and there is no query id"
            ),
            "The next start begins at batch 0. Over output of an earlier run it writes every row again.",
            commands.doctor(),
            "start it if this query has run before.",
        )


def _relation(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    planned, committed = checkpoint.latest_planned, checkpoint.latest_committed
    if planned is None:
        return
    if committed is not None and committed > planned:
        yield Finding(
            "COMMIT_AHEAD",
            Severity.UNSAFE,
            f"commits/ goes to {committed}, offsets/ only to {planned}",
            f"Offsets were deleted. Each start runs batch {planned} again and then fails with "
            "CONCURRENT_STREAM_LOG_UPDATE, which blames a second query; a sink without an identity check gets the "
            "batch "
            "again each time.",
            commands.plan("replay"),
            "restart in a loop, or look for a second query first.",
        )
    elif committed is not None and committed < planned - 1:
        yield Finding(
            "COMMITS_BEHIND",
            Severity.ATTENTION,
            f"offsets/ goes to {planned}, commits/ to {committed}: {planned - committed} behind, one is normal",
            f"Only batch {planned} is replayed; {committed + 1} to {planned - 1} count as done. Commit files were "
            "deleted, "
            "or the query ran with asynchronous progress tracking.",
            commands.doctor(),
            "expect the missing batches to be replayed: deleting commit files does not rewind a query.",
        )
    elif checkpoint.in_flight is not None and start.outcome is Outcome.REPLAYS:
        yield Finding(
            "IN_FLIGHT",
            Severity.INFO,
            f"batch {planned} is planned and not committed",
            "The query stopped inside it: the next start replays it with the same offsets. Normal after any crash; "
            "whether "
            "its rows are in the sink already, the sink knows.",
            commands.run(),
        )


def _holes(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for folder, code in ((checkpoint.offsets_folder, "OFFSETS_HOLE"), (checkpoint.commits_folder, "COMMITS_HOLE")):
        if not folder.holes:
            continue
        first, last = folder.holes[-1]
        name = f"{first}" if first == last else f"{first} to {last}"
        needed = code == "OFFSETS_HOLE" and folder.last is not None and last == folder.last - 1
        yield Finding(
            code,
            Severity.UNSAFE if needed else Severity.ATTENTION,
            f"{folder.name}/ lacks {name}, between {folder.first} and {folder.last}"
            + (f", and {len(folder.holes) - 1} more holes" if len(folder.holes) > 1 else ""),
            f'Every start fails with "batch {last} doesn\'t exist".'
            if needed
            else "Spark never leaves a hole: a file was deleted, or two checkpoints were mixed. The next start "
            "does not "
            "notice it.",
            commands.plan("replay") if needed else commands.doctor(),
            "delete the newest offset file, as Spark's message says: its batch id would be used again for other "
            "rows, and "
            "the sink drops them."
            if needed
            else NO_EDIT,
        )
    first_planned = checkpoint.offsets_folder.first
    if (
        checkpoint.latest_planned is not None
        and checkpoint.latest_planned > 0
        and len(checkpoint.offsets_folder.ids) == 1
    ):
        yield Finding(
            "OFFSETS_HOLE",
            Severity.UNSAFE,
            f"offsets/ holds only {first_planned}; {checkpoint.latest_planned - 1} is missing",
            f'Every start fails with "batch {checkpoint.latest_planned - 1} doesn\'t exist".',
            commands.plan("replay"),
            NO_EDIT,
        )


def _odd_names(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for folder in (checkpoint.offsets_folder, checkpoint.commits_folder):
        newest = -1 if folder.last is None else folder.last
        for name, batch in folder.misread:
            yield Finding(
                "NAME_MISREAD",
                Severity.UNSAFE if batch > newest else Severity.ATTENTION,
                f"{folder.name}/{name} is no name that Spark writes",
                f"Spark takes it for batch {batch} and looks for a file {folder.name}/{batch}"
                + (": every start fails." if batch > newest else "."),
                f"move {folder.name}/{name} out of the checkpoint, then: {commands.doctor()}",
                "rename it to a number.",
            )
        for batch in folder.blocked:
            yield Finding(
                "FOLDER_IN_LOG",
                Severity.UNSAFE if batch >= newest else Severity.ATTENTION,
                f"{folder.name}/{batch} is a folder",
                "Spark's listing passes over it and its writing runs into it: the batch is run and then cannot be "
                "noted.",
                commands.plan("replay"),
                NO_EDIT,
            )
