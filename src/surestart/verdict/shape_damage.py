"""Whether this is a checkpoint at all, whether it could be read, and whose it is: the folder and its metadata. And
files of offsets/ and commits/ that are there and are not what Spark wrote: torn, appended to, changed, too new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from surestart.facts.checkpoint import log_file
from surestart.facts.checkpoint.batch_logs import CommitLogEntry, OffsetLogEntry
from surestart.facts.checkpoint.log_file import LogFault
from surestart.facts.checkpoint.snapshot import Checkpoint, is_checkpoint
from surestart.typed import NextStep, surestart
from surestart.verdict.next_start import NextStart, Outcome
from surestart.verdict.restart import may_be_continuous
from surestart.words.finding import NO_EDIT, Finding, Severity
from surestart.words.next_commands import THE_CHECKPOINT, Commands


def find_damaged_logs(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    yield from _torn(checkpoint, commands)
    yield from _stale_checksums(checkpoint, commands)
    yield from _versions(checkpoint, start, commands)


def _torn(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    newest = checkpoint.latest_planned
    continuous = may_be_continuous(checkpoint)
    for batch, entry in checkpoint.offsets.items():
        if isinstance(entry, LogFault) and entry.kind in (log_file.EMPTY, log_file.TORN):
            yield _torn_finding("OFFSETS_TORN", entry, batch in (newest, (newest or 0) - 1), commands)
        elif isinstance(entry, OffsetLogEntry):
            whole = replace(entry, has_metadata=True) if continuous else entry
            yield from _torn_inside(whole, batch in (newest, (newest or 0) - 1), commands)
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
            "Every start reads this file and fails, with every version of Spark.",
            commands.plan("replay"),
            "delete the file: "
            + (
                "with one log shorter than the other, the next start runs a batch again, or every start fails."
                if code == "OFFSETS_TORN"
                else "the batch is then replayed, and a sink without an identity check writes it twice."
            ),
        )
    return Finding(
        code,
        Severity.ATTENTION,
        fault.detail,
        "The next start does not read this file. It shows that a "
        "write was cut off or that something damaged the storage.",
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
        "Spark counts it as a whole commit"
        + (
            " with a watermark of 0: a query with a watermark lets late rows in again." if last else "; it is not read."
        ),
        commands.doctor(),
        "delete the file: the batch would be replayed.",
    )


def _stale_checksums(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for fault in (one for one in checkpoint.crc_faults.values() if one.kind == log_file.STALE_CRC):
        yield Finding(
            "CHECKSUM_STALE",
            Severity.UNSAFE,
            f"{fault.path}: {fault.detail}",
            "The file was changed after Spark wrote it. Where Spark compares the two, the start fails with a "
            "ChecksumException; its default on a local disk, and a cloud store, read the changed file.",
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
            commands.doctor(f"start it with the Spark that wrote it: {checkpoint.spark_version or 'a newer one'}"),
            "change the version line.",
        )
    commit = checkpoint.latest_commit
    if isinstance(commit, CommitLogEntry) and commit.state_ids and start.spark in ("4.0", "4.1"):
        yield Finding(
            "STATE_FORMAT_V2",
            Severity.INFO,
            f"commits/{commit.batch} has version v2: state format v2",
            f"Spark {start.spark} reads it only with spark.sql.streaming.stateStore.checkpointFormatVersion=2; "
            "without that setting the start fails with INVALID_LOG_VERSION.EXACT_MATCH_VERSION and changes nothing.",
            commands.run(),
        )


def find_folder_shapes(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    if checkpoint.exists is not True or not is_checkpoint(checkpoint):
        yield _absent(checkpoint, commands)
        return
    yield from _unreadable(checkpoint, commands)
    yield from _metadata(checkpoint, start, commands)


def _absent(checkpoint: Checkpoint, commands: Commands) -> Finding:
    if checkpoint.exists is None or (checkpoint.exists and checkpoint.other_faults):
        return Finding(
            "CHECKPOINT_UNREADABLE",
            Severity.CANNOT_TELL,
            checkpoint.other_faults[0].detail if checkpoint.other_faults else "the folder cannot be listed",
            "Nothing is known of this checkpoint. It may be whole.",
            commands.doctor("give this user read access to the folder first"),
            "treat an unread checkpoint as a missing one.",
        )
    if checkpoint.exists:
        return Finding(
            "NOT_A_CHECKPOINT",
            Severity.CANNOT_TELL,
            f"the folder holds {', '.join(checkpoint.strange[:5])} and nothing that a checkpoint has",
            "This is another folder: a table, or a root that holds checkpoints.",
            _inspect_another(checkpoint),
            "start a query on this folder: its files would mix with the ones that are there.",
        )
    return Finding(
        "CHECKPOINT_ABSENT",
        Severity.ATTENTION,
        "there is no such folder",
        "A first start begins at batch 0 under a new query id. "
        "Over output of an earlier run it writes every row again.",
        commands.doctor(),
        "start it if this query has run before: somebody moved or deleted its checkpoint.",
    )


def _inspect_another(checkpoint: Checkpoint) -> NextStep:
    """The first folder in it that may be a checkpoint; of a table, the table as what it is."""
    inner = next((name for name in checkpoint.strange if name[0] not in "._" and "." not in name), "")
    if inner and "_delta_log" not in checkpoint.strange:
        return surestart("inspect", f"{checkpoint.location.rstrip('/')}/{inner}")
    return surestart("inspect", THE_CHECKPOINT, "--sink", checkpoint.location)


def _unreadable(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    faults = [fault for fault in checkpoint.faults if fault.kind in (log_file.UNREADABLE, log_file.TOO_LARGE)]
    if faults:
        yield Finding(
            "CHECKPOINT_UNREADABLE",
            Severity.CANNOT_TELL,
            f"{faults[0].path}: {faults[0].detail}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""),
            "A part of the checkpoint could not be read, so nothing can be promised about the next start.",
            commands.doctor(),
            "treat an unread file as a whole one.",
        )


def _metadata(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    fault = checkpoint.metadata_fault
    if fault and fault.kind not in (log_file.UNREADABLE, log_file.TOO_LARGE):
        yield Finding(
            "METADATA_TORN",
            Severity.UNSAFE,
            fault.detail,
            "The query id cannot be read, so no Spark version starts this query; "
            "the id is the identity under which the sink knows the batches.",
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
            else f"Spark {start.spark} makes a new query id and replays batch "
            f"{start.batch}: a sink that holds it already writes it again."
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
