"""Findings about a Delta table as a source: another table, history gone, and each unread commit that the stream will
meet, said before the start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from surestart.declaration import SourceDeclaration
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.delta import Commit
from surestart.facts.delta.schema_change import TAKES_COLUMNS, changed_columns
from surestart.facts.delta.unread_commits import PASSING, TableReading, sort_commits
from surestart.facts.evidence.source_evidence import DeltaSourceEvidence, NextRead, first_version
from surestart.typed import NextStep, surestart
from surestart.verdict.source_findings import find_clock_behind, source_unread
from surestart.words.amounts import span_text, time_text
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

_DAY = 86_400_000


@dataclass(frozen=True)
class _Case:
    """A stage in front of the log of its table.

    position: None before its first batch.
    first: the version that it reads next.
    opened: the version at which its newest batch begins, which a start makes once more."""

    source: SourceDeclaration
    evidence: DeltaSourceEvidence
    reading: TableReading
    commands: Commands
    position: DeltaPosition | None
    first: int
    opened: int

    @property
    def unchecked(self) -> int:
        """The first version whose commit the stream has yet to check. Inside the first snapshot, and once a version's
        first file is read, that version's own commit is past its check."""
        begun = self.position is not None and (self.position.initial_snapshot or self.position.index >= 0)
        return self.first + begun

    @property
    def pending(self) -> list[Commit]:
        return [commit for commit in self.evidence.pending if commit.version >= self.unchecked]


def find_delta_source(
    source: SourceDeclaration,
    span: NextRead,
    evidence: DeltaSourceEvidence,
    commands: Commands,
    now: int,
    reading: TableReading | None = None,
) -> tuple[Finding, ...]:
    """Everything that stops the stream or makes it lose commits of this table. reading: as it reads at its next start,
    where a remedy has a say in it."""
    if evidence.problem:
        return (source_unread(source, evidence.problem, commands),)
    position = span.delta
    if not evidence.exists:
        # Before the first start no checkpoint is bound to the table: the stage above makes it.
        severity = Severity.UNSAFE if position else Severity.INFO
        return (
            Finding(
                "SOURCE_MISSING",
                severity,
                f"source table {source.target} is not there",
                "It was dropped or moved, or the stage before has not run yet. The query fails at its start.",
                surestart("status"),
                "create an empty table in its place: it has another id, and the query refuses it.",
            ),
        )
    if position is not None and position.table_id != evidence.table_id:
        return (_replaced(source, position, evidence, commands),)
    reading = reading or TableReading(source.options)
    begin = reading.begin if position is None else first_version(position)
    if begin is None:
        return ()
    opened = min(begin, span.opened) if span.opened is not None else begin
    case = _Case(source, evidence, reading, commands, position, begin, opened)
    stops = _vanished(case) or _history_gone(case) or _read_undone(case)
    return (stops,) if stops else tuple(_find_in_log(case, now))


def _replaced(
    source: SourceDeclaration, position: DeltaPosition, evidence: DeltaSourceEvidence, commands: Commands
) -> Finding:
    return Finding(
        "SOURCE_TABLE_REPLACED",
        Severity.UNSAFE,
        f"the checkpoint has read table {position.table_id}, {source.target} is {evidence.table_id}",
        "The table was dropped and made again, or replaced. The next start "
        "fails with DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE; only "
        "positions tell which rows of the old table are in the new one.",
        commands.plan("replay"),
        "delete the checkpoint, as Delta's message says: rows that are in both tables come twice.",
    )


def _vanished(case: _Case) -> Finding | None:
    first, latest = case.first, case.evidence.latest_version
    at_its_end = first == latest + 1 and (case.position is None or case.position.index < 0)
    if first <= latest or at_its_end:
        return None
    return Finding(
        "SOURCE_COMMITS_VANISHED",
        Severity.UNSAFE,
        f"the checkpoint is at version {first} of {case.source.target}, whose log ends at {latest}",
        f"Commits {latest + 1}..{first - 1} were there when they were read and are gone: the table was put back to "
        "an older copy. Versions that are written next get numbers that the stream counts as read.",
        case.commands.plan("replay"),
        "write to the source table until its version passes the checkpoint's.",
    )


def _history_gone(case: _Case) -> Finding | None:
    first, opened, begins = case.first, case.opened, case.evidence.earliest_commit
    latest = case.evidence.latest_version
    if opened >= begins or opened > latest:
        return None
    unread = first < begins and first <= latest
    return Finding(
        "SOURCE_HISTORY_GONE",
        Severity.UNSAFE,
        f"the {'next' if unread else 'newest'} batch begins at version {first if unread else opened} of "
        f"{case.source.target}; its log begins at {begins}: {begins - opened} commits are gone",
        "The log was cleaned up while the query was behind. Their rows are still in the table unless they were "
        "deleted, but nothing says any more that they are new."
        if unread
        else "Nothing unread is lost. But a start makes the newest batch once more, also a committed one, and "
        "fails where the log does not reach back to its begin: DELTA_MISSING_FILES_UNEXPECTED_VERSION.",
        case.commands.plan("replay"),
        "set failOnDataLoss to false: the stream would go on after the hole.",
    )


def _read_undone(case: _Case) -> Finding | None:
    undone = case.reading.find_read(case.evidence.pending)
    if undone is None:
        return None
    return Finding(
        "SOURCE_READ_UNDONE",
        Severity.UNSAFE,
        f"the stage is at version {case.first} of {case.source.target}, among versions {undone.before + 1} to "
        f"{undone.last}, which an undo has taken back",
        "It has read rows that the table no longer has, and its output holds them. The start is refused.",
        case.commands.plan("reset"),
        "start it with plain Spark: what it reads next belongs with rows that were taken back.",
    )


def _find_in_log(case: _Case, now: int) -> Iterator[Finding]:
    if not case.reading.reads_feed:
        yield from _find_changes(case)
    if not case.reading.tracks_schema:
        yield from _find_schema_change(case)
    yield from _find_end(case)
    yield from _find_vacuumed(case)
    yield from _find_expiry(case, now)


def _find_vacuumed(case: _Case) -> Iterator[Finding]:
    """Of commits that the stream reads whole. One that also removed rows is another finding, or is skipped."""
    source, commands = case.source, case.commands
    plain = {one.version for one in case.reading.not_passed(case.pending) if not (one.changes and one.changes.removed)}
    gone = [(version, path) for version, path in case.evidence.gone if version in plain]
    if gone:
        version, path = gone[0]
        yield Finding(
            "SOURCE_FILES_GONE",
            Severity.UNSAFE,
            f"{source.target}: version {version} is not read yet, and its file {path} is not there any more",
            "The table has its rows in other files since, and a VACUUM has deleted this one. A stream reads the file "
            "of the commit itself: the start fails, or leaves its rows out where ignoreMissingFiles is set.",
            commands.plan("replay"),
            "set spark.sql.files.ignoreMissingFiles: the rows would be left out without a word.",
        )
    elif case.evidence.files_unread:
        problem = f"whether the files of its unread commits are there: {case.evidence.files_unread}"
        yield source_unread(source, problem, commands)


def _find_changes(case: _Case) -> Iterator[Finding]:
    """Commits that are no plain appends (DeltaSource.validateCommitAndDecideSkipping)."""
    source, commands, own = case.source, case.commands, TableReading(case.source.options)
    unread = sort_commits(case.reading.not_passed(case.pending))
    # To get past what an undo has taken back the start would pass over every change: one that is nobody's remedy would
    # be left out whole with its new rows. It is refused instead (remedies.taken_back).
    if unread.rewritten and not own.passes_changes:
        yield _stops(
            "SOURCE_REWRITTEN",
            source,
            unread.rewritten,
            "Existing rows were rewritten, which a stream of appended rows cannot pass on: "
            "the next start fails with DELTA_SOURCE_TABLE_IGNORE_CHANGES.",
            commands.plan("replay"),
            "set skipChangeCommits before you know that the commit holds no new rows: it is skipped whole.",
        )
    elif unread.rewritten:
        yield _passed_on(source, unread.rewritten, own, commands)
    if unread.deleted and not own.passes_deletes:
        yield _stops(
            "SOURCE_ROWS_DELETED",
            source,
            unread.deleted,
            "Rows were deleted, which a stream of appended rows cannot pass on: the next start fails with "
            "DELTA_SOURCE_IGNORE_DELETE. Rows deleted before they were read are missing downstream, as upstream.",
            commands.plan("replay"),
            "set ignoreDeletes: what a RESTORE brings back later is then passed on as new, and comes twice.",
        )
    if unread.returned:
        yield _returned(case, unread.returned)
    if unread.unclear:
        yield Finding(
            "SOURCE_COMMIT_UNCLEAR",
            Severity.CANNOT_TELL,
            f"{source.target}: {_versions(unread.unclear)}: the table's history does not say which files it removed",
            "If it removed or rewrote rows, the next start fails at it.",
            commands.accept("SOURCE_COMMIT_UNCLEAR"),
            "treat it as an append.",
        )


def _passed_on(
    source: SourceDeclaration, rewritten: Sequence[Commit], own: TableReading, commands: Commands
) -> Finding:
    what = "left out whole, new rows included" if own.skips else "passed on again as if they were new"
    return Finding(
        "SOURCE_CHANGES_SKIPPED" if own.skips else "SOURCE_CHANGES_REPEATED",
        Severity.ATTENTION,
        f"{source.target}: {_versions(rewritten)} rewrote rows",
        f"By the stage's own options such commits are {what}.",
        commands.doctor(),
        "",
    )


def _returned(case: _Case, returned: Sequence[Commit]) -> Finding:
    """The finding for a RESTORE that only adds rows. The stream has read these rows before if it has met, or will meet,
    their removal. With a checkpoint that is younger than the removal, they may be new to it."""
    met = any(one.changes and one.changes.removed and one.version < returned[-1].version for one in case.pending)
    return Finding(
        "SOURCE_ROWS_RETURN",
        Severity.UNSAFE if met else Severity.CANNOT_TELL,
        f"{case.source.target}: {_versions(returned)} brings back rows that were removed",
        "To the stream they are new rows. Those that it has passed on before come twice downstream.",
        case.commands.plan("replay"),
        "start it, or set ignoreDeletes: nothing stops the rows that come again.",
    )


def open_where_not_said(
    source: SourceDeclaration, findings: Iterable[Finding], commands: Commands
) -> Iterator[Finding]:
    """Of a stream that others run. What its reader does at such a commit stands in its code alone: a checkpoint keeps
    no option of a reader."""
    said = TableReading(source.options).says_what_passes
    for finding in findings:
        if finding.code not in _AT_A_CHANGE or finding.severity is not Severity.UNSAFE or said:
            yield finding
            continue
        yield replace(
            finding,
            severity=Severity.CANNOT_TELL,
            meaning=f"{finding.meaning} A reader with {', '.join(PASSING)} goes on, and nobody has said what this one "
            "has: write it beside its source in surestart.toml, as in skipChangeCommits = true, or = false for none.",
            next=commands.doctor("once its source says it"),
        )


_AT_A_CHANGE = ("SOURCE_REWRITTEN", "SOURCE_ROWS_DELETED")


def _stops(
    code: str, source: SourceDeclaration, commits: Sequence[Commit], meaning: str, next: NextStep, do_not: str
) -> Finding:
    return Finding(code, Severity.UNSAFE, f"{source.target}: {_versions(commits)}", meaning, next, do_not)


def _find_schema_change(case: _Case) -> Iterator[Finding]:
    """Compares each unread schema with the newest one, with which the stream is planned. So a column that was added and
    dropped again stops it as well."""
    source, evidence, commands = case.source, case.evidence, case.commands
    changes = [commit for commit in case.pending if commit.schema_text is not None]
    if not changes:
        return
    earlier = [evidence.schema_before, *(commit.schema_text or "" for commit in changes)]
    lost = dict.fromkeys(name for one in earlier if one for name in changed_columns(one, evidence.schema_text))
    taken = [commit for commit in changes if commit.operation in TAKES_COLUMNS]
    if lost or taken:
        yield Finding(
            "SOURCE_SCHEMA_CHANGED",
            Severity.UNSAFE,
            f"{source.target}: {_versions(taken or changes)} renamed, dropped or retyped "
            f"{', '.join(list(lost)[:5]) or 'columns'}",
            "A stream cannot read across that without schema tracking; the next start fails with "
            "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE or DELTA_SCHEMA_CHANGED.",
            commands.plan("replay"),
            "restart in a loop: additive changes need one restart, but no restart helps against these.",
        )
    elif evidence.mapped and not evidence.schema_before and changes[0].version > 0:
        yield Finding(
            "SOURCE_SCHEMA_UNCLEAR",
            Severity.CANNOT_TELL,
            f"{source.target}: {_versions(changes)} changed the schema; what it was before cannot be read any more",
            "If a column was renamed, dropped or retyped, the next start fails.",
            commands.accept("SOURCE_SCHEMA_UNCLEAR"),
            "treat it as an added column.",
        )


def _find_end(case: _Case) -> Iterator[Finding]:
    """Commits that were not looked at are never passed over in silence."""
    first, evidence = case.unchecked, case.evidence
    looked_at = evidence.pending[-1].version if evidence.pending else first - 1
    if looked_at < evidence.latest_version and first <= evidence.latest_version:
        yield Finding(
            "SOURCE_NOT_READ_TO_END",
            Severity.CANNOT_TELL,
            f"{case.source.target}: of the unread commits {first}..{evidence.latest_version} those after {looked_at} "
            "were not looked at",
            "The stream goes on up to there. Whether a later commit stops it is not known.",
            case.commands.accept("SOURCE_NOT_READ_TO_END"),
            "treat what was not looked at as plain appends.",
        )


def _find_expiry(case: _Case, now: int) -> Iterator[Finding]:
    """When the log's clean-up reaches the oldest unread commit."""
    source, evidence, pending = case.source, case.evidence, case.pending
    oldest = next((commit.timestamp for commit in pending if commit.timestamp is not None), None)
    if oldest is None or not evidence.log_retention:
        return
    if behind := find_clock_behind(f"a commit of {source.target}", oldest, now, case.commands):
        yield from behind
        return
    left = oldest + evidence.log_retention - now
    if left > max(evidence.log_retention // 4, 2 * _DAY):
        return
    yield Finding(
        "SOURCE_HISTORY_EXPIRES",
        Severity.ATTENTION,
        f"{source.target}: the oldest unread commit ({pending[0].version}) is from {time_text(oldest)}; its log "
        f"is kept until {time_text(oldest + evidence.log_retention)}"
        + (f", {span_text(left)} from now" if left > 0 else ", which is past"),
        "After that time the next checkpoint of the table's log deletes it, and the stream cannot go on from here.",
        case.commands.run(),
        "leave the query stopped beyond that time.",
    )


def _versions(commits: Sequence[Commit]) -> str:
    shown = ", ".join(_named(commit) for commit in commits[:3])
    return f"version {shown}" + (f" and {len(commits) - 3} more" if len(commits) > 3 else "")


def _named(commit: Commit) -> str:
    when = f", {time_text(commit.timestamp)}" if commit.timestamp is not None else ""
    return f"{commit.version} ({commit.operation}{when})"
