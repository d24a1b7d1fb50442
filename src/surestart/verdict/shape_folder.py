"""Whether this is a checkpoint at all, whether it could be read, and whose it is: the folder and its metadata."""

from __future__ import annotations

from collections.abc import Iterator

from surestart.facts.checkpoint import log_file
from surestart.facts.checkpoint.is_checkpoint import is_checkpoint
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.typed import NextStep, surestart
from surestart.verdict.restart import NextStart, Outcome
from surestart.words.do_not import NO_EDIT
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import THE_CHECKPOINT, Commands


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
            "take an unread checkpoint for a missing one.",
        )
    if checkpoint.exists:
        return Finding(
            "NOT_A_CHECKPOINT",
            Severity.CANNOT_TELL,
            f"the folder holds {', '.join(checkpoint.strange[:5])} and nothing that a checkpoint has",
            "This is another folder: a table, or a root under which checkpoints lie.",
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
            "take an unread file for a whole one.",
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
