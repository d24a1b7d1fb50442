"""Which version of a table held a batch of a stage, who else has written since, and to which batches a checkpoint can
go back. What has to be kept for that:

offsets   offsets/N, commits/N, and offsets/N-1, which a start after batch N reads
state     version N + 1 of every store, with all that it begins with
source    what was read after batch N is still there
table     the table's log and its files reach back to the version that held batch N"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, Table
from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.cut import CannotCut, Cut, CutStorage, read_cut
from surestart.facts.checkpoint.file_list import plain_path, read_entries
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition, NumberPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.facts.delta import Commit, read_active_files, read_delta_log
from surestart.facts.delta.commit import FileChanges
from surestart.facts.delta.commit_notes import read_remedy_note
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.evidence.sink_evidence import app_ids, batch_of, query_id_of, without_undone
from surestart.facts.storage.storage import Storage
from surestart.history.describe_run import plan_command
from surestart.journal.taken_back import read_commits
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Link, anew_command
from surestart.remedies.basis.other_writers import own_merges
from surestart.remedies.basis.rows_that_stay import read_at
from surestart.typed import surestart
from surestart.verdict.shapes import diagnose_checkpoint
from surestart.words.finding import Severity

# For a stage below whose first batch has read what is taken back: it begins anew.
BEFORE_THE_FIRST = -1
_SHOWN = 3
# Whether a file is there takes some microseconds each, of a network disk a thousand times as long.
_LOOKED_FOR = 20_000
_SETTINGS = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES")


def read_standing(spark: SparkSession, table: Table) -> tuple[Commit, ...]:
    """The commits that made the table what it is, oldest first."""
    return without_undone(read_commits(spark, table, 0))


def version_of_batch(
    environment: Environment, link: Link, table: Table, commits: Sequence[Commit], ids: Collection[str], batch: int
) -> int:
    """The version just before the query's first commit of a later batch; the newest one where there is none."""
    own = [(number, one) for one in commits if (number := batch_by(one, ids)) is not None]
    later = [one for number, one in own if number > batch]
    oldest = oldest_told(commits, ids)
    if oldest is None or batch < oldest:
        raise CannotTell(
            f"the log of {table.name} has no commit of batch {batch} of {link.query} any more"
            + (f"; it begins with what batch {oldest} left" if oldest is not None else "; it has none of this query"),
            meaning="What the table held then cannot be told from its log. Nothing was planned.",
            next=anew_command(environment, link),
            code="CommitGone",
        )
    return later[0].rows_at - 1 if later else commits[-1].version


def oldest_told(commits: Sequence[Commit], ids: Collection[str]) -> int | None:
    """The oldest batch of which the log says what the table held; -1: nothing yet. None: it has no commit of the query.

    A log that begins later, as that of a clone or of a fork, begins with the rows of all batches so far. A commit
    without rows, such as the pair that a fork leaves there, says that they were there already."""
    own = ((number, one) for one in commits if (number := batch_by(one, ids)) is not None)
    number, first = next(own, (None, None))
    if number is None or first is None:
        return None
    before = [one for one in commits if one.version < first.rows_at]
    if commits[0].version == 0 and not any(one.changes is None or one.changes.added for one in before):
        return BEFORE_THE_FIRST
    # Nothing before what a log begins with can be rebuilt.
    begins = not before
    brings_none = first.changes == FileChanges() and first.rows_at == first.version
    # What a table held of others when batch 0 began is no row of an older batch.
    return number if begins or (brings_none and number > 0) else number - 1


def batch_by(commit: Commit, ids: Collection[str]) -> int | None:
    """The batch that one of these query ids has written by it; a second write of a batch counts like the first."""
    mine = [one for one in app_ids(commit) if query_id_of(one) in ids]
    found = [number for one in mine if (number := batch_of(commit, one)) is not None]
    return max(found, default=None)


def refuse_other_writers(
    environment: Environment,
    link: Link,
    table: Table,
    commits: Sequence[Commit],
    ids: Collection[str],
    version: int,
    *,
    has_positions: bool,
) -> None:
    """Raises where somebody else has changed the table behind that version: a RESTORE would take their rows with it."""
    own = own_merges(commits, link.query)
    others = [
        one
        for one in commits
        if one.version > version and batch_by(one, ids) is None and one.version not in own and _changes(one)
    ]
    if not others:
        return
    batch = _next_batch(commits, ids, version)
    way = (
        plan_command(environment, "replay", link.name, "--from-batch", batch, note="by the positions of the rows")
        if has_positions
        else anew_command(environment, link)
    )
    raise Refused(
        f"{table.name} was changed since by another than {link.query}: {_listed(others)}",
        meaning="A table goes back as a whole: what they did would be taken back with it. Nothing was planned.",
        next=way,
        code="OthersHaveWritten",
    )


def stays_of_others(commits: Sequence[Commit], query: str, ids: Collection[str], version: int) -> str:
    """What others did to the table between the query's last batch before that version and the version itself: so it
    was when the next batch began, and so it stays. "" for nothing."""
    merges = own_merges(commits, query)
    others: list[Commit] = []
    for one in commits:
        if one.version <= version:
            others = [] if batch_by(one, ids) is not None else [*others, one]
    return _listed([one for one in others if one.version not in merges and _changes(one) and not _makes(one)])


def _makes(commit: Commit) -> bool:
    return commit.operation.startswith("CREATE")


def settings_since(commits: Sequence[Commit], version: int) -> str:
    """Changes of the table's properties behind that version; "" for none."""
    return ", ".join(
        f"{one.operation} at version {one.version}"
        for one in commits
        if one.version > version and one.operation in _SETTINGS
    )


def rows_at(spark: SparkSession, environment: Environment, table: Table, version: int) -> int | None:
    if not table.path:
        return read_at(spark, environment, table.name, version).count()
    try:
        files = read_active_files(table.path, version)
    except NoDeltaLog:
        return None
    counts = [None if file.rows is None else file.rows - file.deleted_rows for file in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def _listed(commits: Sequence[Commit]) -> str:
    more = f" and {len(commits) - _SHOWN} more" if len(commits) > _SHOWN else ""
    return ", ".join(_tell(one) for one in commits[-_SHOWN:]) + more


def _next_batch(commits: Sequence[Commit], ids: Collection[str], version: int) -> int:
    later = [number for one in commits if one.version > version and (number := batch_by(one, ids)) is not None]
    return min(later, default=0)


def _changes(commit: Commit) -> bool:
    if commit.schema_text is not None and commit.operation not in _SETTINGS:
        return True
    return commit.changes is None or bool(commit.changes.added or commit.changes.removed)


def _tell(commit: Commit) -> str:
    when = datetime.datetime.fromtimestamp((commit.timestamp or 0) / 1000, datetime.UTC)
    note = read_remedy_note(commit.user_metadata)
    who = f" of the remedy {note.digest[:12]}" if note else f" of query {commit.query_id}" if commit.query_id else ""
    return f"{commit.operation}{who} at version {commit.version}, {when:%Y-%m-%d %H:%M} UTC"


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
    found = _files_after(storage, checkpoint, batch)
    return (path for _, _, path in found if is_local(path) and not file_is_there(path))


def file_not_looked_for(storage: Storage, checkpoint: Checkpoint, batch: int) -> str:
    """A file that was read after the batch, and lies where nobody looked whether it still is; "" for none."""
    return next((path for _, _, path in _files_after(storage, checkpoint, batch) if not is_local(path)), "")


def source_bound(
    storage: Storage, checkpoint: Checkpoint, declared: Sequence[SourceDeclaration], batches: Sequence[int]
) -> RewindBound | None:
    """The oldest of these batches behind which its sources still have everything: the files are there, the table's log
    reaches back. None where nobody looked: at Kafka, at files elsewhere, at more files than are looked for."""
    reached = [_files_from(storage, checkpoint, batches), _tables_from(checkpoint, declared, batches)]
    known = [one for one in reached if one is not None]
    oldest = max(known, default=None)
    return (
        None if oldest is None else RewindBound("source", oldest, "the oldest behind which everything is still there")
    )


def _files_from(storage: Storage, checkpoint: Checkpoint, batches: Sequence[int]) -> int | None:
    gone: dict[str, int] = {}
    looked = 0
    for source, number, path in _files_after(storage, checkpoint, batches[0]):
        looked += 1
        if looked > _LOOKED_FOR or not is_local(path):
            return None
        if not file_is_there(path):
            gone[source] = max(number, gone.get(source, number))
    behind = (
        one for one in batches if all(_list_entry(checkpoint, one, source) >= last for source, last in gone.items())
    )
    return next(behind, batches[-1]) if looked else None


def _tables_from(checkpoint: Checkpoint, declared: Sequence[SourceDeclaration], batches: Sequence[int]) -> int | None:
    """Of a table that is read by its path."""
    oldest = None
    for place, one in enumerate(declared):
        if one.kind != "delta" or not one.path:
            continue
        try:
            first = read_delta_log(one.path).earliest_commit
        except (SurestartError, OSError):
            return None
        behind = (batch for batch in batches if _table_version(checkpoint, batch, place) >= first)
        oldest = max(next(behind, batches[-1]), oldest or 0)
    return oldest


def _position(checkpoint: Checkpoint, batch: int, source: int | str) -> object:
    entry = checkpoint.offsets.get(batch)
    sources = entry.sources if isinstance(entry, OffsetLogEntry) else ()
    found = (one.position for place, one in enumerate(sources) if source in (place, one.id))
    return next(found, None)


def _list_entry(checkpoint: Checkpoint, batch: int, source: str) -> int:
    position = _position(checkpoint, batch, source)
    return position.log_offset if isinstance(position, FilesPosition) else -1


def _table_version(checkpoint: Checkpoint, batch: int, source: int) -> int:
    position = _position(checkpoint, batch, source)
    return position.version if isinstance(position, DeltaPosition) else -1


def _files_after(storage: Storage, checkpoint: Checkpoint, batch: int) -> Iterator[tuple[str, int, str]]:
    """Source, entry of its list, path."""
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
                listed = [*read_entries(storage, f"{folder}/{name}", 2**62, last + 1)]
            except (OSError, ValueError) as error:
                raise CannotTell(
                    f"{folder}/{name} of {storage.location} cannot be read: {error}",
                    meaning="Which files were read after the batch is not known. Nothing was planned.",
                    next=surestart("plan", "--help"),
                    code="FileListUnreadable",
                ) from error
            yield from ((source.id, number, path) for number, path in listed)


def is_local(path: str) -> bool:
    return plain_path(path).startswith(("file:/", "/"))


def file_is_there(path: str) -> bool:
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
