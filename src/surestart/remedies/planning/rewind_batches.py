"""To which batches a checkpoint can go back, and what keeps it from going back further.

offsets   offsets/N, commits/N, and offsets/N-1, which a start after batch N reads
state     version N + 1 of every store, with all that it begins with
source    what was read after batch N is still there
table     the table's log and its files reach back to the version that held batch N
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from surestart.errors import CannotTell
from surestart.facts.checkpoint.cut import CannotCut, Cut, CutStorage, read_cut
from surestart.facts.checkpoint.file_list import plain_path, read_entries
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.checkpoint.offset_log import OffsetLogEntry
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition, NumberPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.facts.storage.storage import Storage
from surestart.typed import surestart
from surestart.verdict.shapes import diagnose_checkpoint
from surestart.words.finding import Severity


@dataclass(frozen=True)
class RewindBound:
    """what: offsets, state, source or table.
    oldest: the oldest batch that it allows; None: none."""

    what: str
    oldest: int | None
    why: str = ""


def kept_batches(checkpoint: Checkpoint) -> tuple[int, ...]:
    """Committed batches whose entries are there as a start after them reads them, oldest first."""
    planned, committed = set(checkpoint.offsets_folder.ids), set(checkpoint.commits_folder.ids)
    return tuple(one for one in sorted(planned & committed) if one == 0 or one - 1 in planned)


def batches_with_state(checkpoint: Checkpoint, batches: Iterable[int]) -> tuple[int, ...]:
    """Those whose state's files are there, by their names."""
    if not checkpoint.state.operators:
        return tuple(batches)
    return tuple(one for one in batches if find_missing_state(checkpoint, one + 1) is None)


def find_fault(storage: Storage, batch: int) -> str:
    """Why the checkpoint cannot be cut there, or what would keep the next start from loading what the cut has; ""."""
    cut = try_cut(storage, batch)
    if not isinstance(cut, Cut):
        return cut
    shown = CutStorage(storage, cut)
    found = read_checkpoint(storage.location, shown)
    # By itself: what a diagnosis cannot tell of the sources, it says in the place of what it knows of the state.
    if missing := find_missing_state(found, batch + 1):
        return f"STATE_MISSING: {missing.detail}"
    worse = [one for one in diagnose_checkpoint(found) if one.severity is Severity.UNSAFE]
    return f"{worse[0].code}: {worse[0].evidence}" if worse else ""


def try_cut(storage: Storage, batch: int) -> Cut | str:
    """The cut, with a placeholder for the new query id."""
    try:
        return read_cut(storage, batch, "00000000-0000-4000-8000-000000000000")
    except CannotCut as problem:
        return str(problem)


def newest_whole(storage: Storage, batches: Iterable[int]) -> int | None:
    return next((one for one in sorted(batches, reverse=True) if not find_fault(storage, one)), None)


def unread_files(storage: Storage, checkpoint: Checkpoint, batch: int) -> Iterator[str]:
    """Files that were read after the batch, and are not there any more to be read again."""
    return (path for path in _files_after(storage, checkpoint, batch) if _is_local(path) and not _is_there(path))


def file_not_looked_for(storage: Storage, checkpoint: Checkpoint, batch: int) -> str:
    """A file that was read after the batch, and lies where nobody looked whether it still is; "" for none."""
    return next((path for path in _files_after(storage, checkpoint, batch) if not _is_local(path)), "")


def _files_after(storage: Storage, checkpoint: Checkpoint, batch: int) -> Iterator[str]:
    entry = checkpoint.offsets.get(batch)
    if not isinstance(entry, OffsetLogEntry):
        return
    for source in entry.sources:
        position = source.position
        if not isinstance(position, FilesPosition | NumberPosition):
            continue
        last = position.log_offset if isinstance(position, FilesPosition) else position.value
        folder = f"sources/{source.id}"
        try:
            names = [one.name for one in storage.list_folder(folder)]
        except FileNotFoundError:
            continue
        for name in sorted(names, key=len):
            if not is_batch_name(name.removesuffix(".compact")) or int(name.partition(".")[0]) <= last:
                continue
            try:
                listed = [path for _, path in read_entries(storage, f"{folder}/{name}", 2**62, last + 1)]
            except (OSError, ValueError) as error:
                raise CannotTell(
                    f"{folder}/{name} of {storage.location} cannot be read: {error}",
                    meaning="Which files were read after the batch is not known. Nothing was planned.",
                    next=surestart("plan", "--help"),
                    code="FileListUnreadable",
                ) from error
            yield from listed


def _is_local(path: str) -> bool:
    return plain_path(path).startswith(("file:/", "/"))


def _is_there(path: str) -> bool:
    from urllib.parse import unquote

    plain = "/" + plain_path(path).removeprefix("file:").lstrip("/")
    return Path(plain).exists() or Path(unquote(plain)).exists()


def newest_within(checkpoint: Checkpoint, version: int, batches: Iterable[int]) -> int | None:
    """The newest of these batches that has read nothing of its table behind that version."""
    for batch in sorted(batches, reverse=True):
        entry = checkpoint.offsets.get(batch)
        found = [source.position for source in entry.sources] if isinstance(entry, OffsetLogEntry) else []
        if len(found) == 1 and isinstance(found[0], DeltaPosition) and _reached(found[0]) <= version + 1:
            return batch
    return None


def _reached(position: DeltaPosition) -> int:
    """The version that the batch has reached: all before it was read, and nothing of it or after it."""
    return position.version + 1 if position.initial_snapshot or position.index >= 0 else position.version
