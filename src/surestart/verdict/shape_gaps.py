"""Batches that one of the two logs lacks: deleted logs, holes, one log ahead of the other, names that mislead."""

from __future__ import annotations

from collections.abc import Iterator

from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.verdict.next_start import NextStart, Outcome
from surestart.verdict.restart import may_be_asynchronous
from surestart.words.amounts import batches
from surestart.words.finding import KEEP, NO_EDIT, Finding, Severity
from surestart.words.next_commands import Commands


def find_log_gaps(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    if checkpoint.logs_listed:
        yield from _missing_logs(checkpoint, start, commands)
        yield from _relation(checkpoint, start, commands)
        yield from _holes(checkpoint, commands)
    yield from _odd_names(checkpoint, commands)


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
            f"Only batch {planned} is replayed, and {batches(0, planned - 1)} taken for done. The sink knows.",
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
            f"This query has run. The next start begins at batch 0 under {identity}, with "
            "the sources' old notes: rows are lost or written twice, without an error.",
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
            "start it before you have asked the sink.",
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
            f"Offsets were deleted. Each start runs batch {planned} again and then "
            "fails with CONCURRENT_STREAM_LOG_UPDATE, which blames a second query; "
            "a sink without an identity check gets the batch again each time.",
            commands.plan("replay"),
            "restart in a loop, or look for a second query first.",
        )
    elif committed is not None and committed < planned - 1:
        yield Finding(
            "COMMITS_BEHIND",
            Severity.ATTENTION,
            f"offsets/ goes to {planned}, commits/ to {committed}: {planned - committed} behind, one is normal",
            f"Only batch {planned} is replayed, and {batches(committed + 1, planned - 1)} taken for done. Commit files "
            "were deleted, or the query ran with asynchronous progress tracking.",
            commands.doctor(),
            "expect the missing batches to be replayed: deleting commit files does not rewind a query.",
        )
    elif checkpoint.in_flight is not None and start.outcome is Outcome.REPLAYS:
        yield Finding(
            "IN_FLIGHT",
            Severity.INFO,
            f"batch {planned} is planned and not committed",
            "The query stopped inside it: the next start replays it with the same offsets. "
            "Normal after any crash; the sink knows whether its rows are there already.",
            commands.run(),
        )


def _holes(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for folder, code in ((checkpoint.offsets_folder, "OFFSETS_HOLE"), (checkpoint.commits_folder, "COMMITS_HOLE")):
        if not folder.holes:
            continue
        first, last = folder.holes[-1]
        name = f"{first}" if first == last else f"{first} to {last}"
        needed = code == "OFFSETS_HOLE" and folder.last is not None and last == folder.last - 1
        if may_be_asynchronous(checkpoint):
            yield _written_now_and_then(
                code, f"{folder.name}/ lacks {name}, and so does the other log", needed, commands
            )
            continue
        yield Finding(
            code,
            Severity.UNSAFE if needed else Severity.ATTENTION,
            f"{folder.name}/ lacks {name}, between {folder.first} and {folder.last}"
            + (f", and {len(folder.holes) - 1} more holes" if len(folder.holes) > 1 else ""),
            f'Every start fails with "batch {last} doesn\'t exist".'
            if needed
            else "Spark never leaves a hole: a file was deleted, or two "
            "checkpoints were mixed. The next start does not notice it.",
            commands.plan("replay") if needed else commands.doctor(),
            "delete the newest offset file, as Spark's message says: its batch "
            "id would be used again for other rows, and the sink drops them."
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


def _written_now_and_then(code: str, lacks: str, needed: bool, commands: Commands) -> Finding:
    """Some queries leave such holes, and so does whoever deletes from both logs."""
    return Finding(
        code,
        Severity.CANNOT_TELL if needed else Severity.ATTENTION,
        lacks,
        "A query with asyncProgressTrackingEnabled leaves such holes and goes on; it reads again what came after the "
        "newest entry. "
        + ("Without that option every start fails here." if needed else "Else files were deleted from both logs."),
        commands.doctor("once it is known that its code sets asyncProgressTrackingEnabled"),
        NO_EDIT,
    )


def _odd_names(checkpoint: Checkpoint, commands: Commands) -> Iterator[Finding]:
    for folder in (checkpoint.offsets_folder, checkpoint.commits_folder):
        newest = -1 if folder.last is None else folder.last
        for name, batch in folder.misread:
            yield Finding(
                "NAME_MISREAD",
                Severity.UNSAFE if batch > newest else Severity.ATTENTION,
                f"{folder.name}/{name} is not a name that Spark writes",
                f"Spark takes it for batch {batch} and looks for a file {folder.name}/{batch}"
                + (": every start fails." if batch > newest else "."),
                commands.doctor(f"move {folder.name}/{name} out of the checkpoint first"),
                "rename it to a number.",
            )
        for batch in folder.blocked:
            yield Finding(
                "FOLDER_IN_LOG",
                Severity.UNSAFE if batch >= newest else Severity.ATTENTION,
                f"{folder.name}/{batch} is a folder",
                "Spark does not list it, but it stands in the way when Spark writes: the batch is run, and then cannot "
                "be noted.",
                commands.plan("replay"),
                NO_EDIT,
            )
