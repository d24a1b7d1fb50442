"""Files of offsets/ and commits/ that are there and are not what Spark wrote: torn, appended to, changed, too new."""

from __future__ import annotations

from collections.abc import Iterator

from surestart.facts.checkpoint import log_file
from surestart.facts.checkpoint.commit_log import CommitLogEntry
from surestart.facts.checkpoint.log_file import LogFault
from surestart.facts.checkpoint.offset_log import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.verdict.restart import NextStart, Outcome
from surestart.words.do_not import NO_EDIT
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def find_damaged_logs(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    yield from _torn(checkpoint, commands)
    yield from _stale_checksums(checkpoint, commands)
    yield from _versions(checkpoint, start, commands)


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
        "Spark takes it for a whole commit"
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
