"""Which version of a table held a batch of a stage, and who else has written since."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from surestart.environment import Environment, Table
from surestart.errors import CannotTell, Refused
from surestart.facts.delta import Commit, read_active_files
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.delta.remedy_note import read_remedy_note
from surestart.facts.evidence.sink_evidence import app_ids, batch_of, without_undone
from surestart.history.describe_run import plan_command
from surestart.journal.taken_back import read_commits
from surestart.remedies.basis.chain import Link, anew_command
from surestart.remedies.basis.other_writers import own_merges
from surestart.remedies.basis.rows_that_stay import read_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 3
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
    if not own or (min(number for number, _ in own) > batch + 1 and commits[0].version > 0):
        oldest = min((number for number, _ in own), default=None)
        raise CannotTell(
            f"the log of {table.name} has no commit of batch {batch} of {link.query} any more"
            + (f"; its oldest is batch {oldest}" if oldest is not None else "; it has none of this query"),
            meaning="What the table held then cannot be told from its log. Nothing was planned.",
            next=anew_command(environment, link),
            code="CommitGone",
        )
    return later[0].rows_at - 1 if later else commits[-1].version


def batch_by(commit: Commit, ids: Collection[str]) -> int | None:
    """The batch that one of these query ids has written by it; a second write of a batch counts like the first."""
    mine = [one for one in app_ids(commit) if one.partition(":")[0] in ids]
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
