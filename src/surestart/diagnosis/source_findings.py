"""Findings about the sources: what the next batch wants to read and what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surestart.checkpoint.positions import DeltaPosition
from surestart.declaration import SourceDeclaration
from surestart.deltalog import Commit
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.finding import Finding, Severity
from surestart.diagnosis.sink_evidence import without_undone
from surestart.diagnosis.source_evidence import (
    DeltaSourceEvidence,
    FileSourceEvidence,
    Span,
    changed_columns,
    first_version,
)
from surestart.diagnosis.time_text import span_text, time_text

if TYPE_CHECKING:
    pass

_DAY = 86_400_000


def find_delta_source(
    source: SourceDeclaration, span: Span, evidence: DeltaSourceEvidence, commands: Commands, now: int
) -> tuple[Finding, ...]:
    """Everything that stops the stream or makes it lose commits of this table."""
    if evidence.problem:
        return (_unread(source, evidence.problem, commands),)
    position = span.delta
    if not evidence.exists:
        # Before the first start nothing is bound to it: the stage before makes it.
        severity = Severity.UNSAFE if position else Severity.INFO
        return (
            Finding(
                "SOURCE_MISSING",
                severity,
                f"source table {source.target} is not there",
                "It was dropped or moved, or the stage before has not run yet. The query fails at its start.",
                "surestart status",
                "create an empty table in its place: it has another id, and the query refuses it.",
            ),
        )
    if position is None:
        return ()
    if position.table_id != evidence.table_id:
        return (
            Finding(
                "SOURCE_TABLE_REPLACED",
                Severity.UNSAFE,
                f"the checkpoint has read table {position.table_id}, {source.target} is {evidence.table_id}",
                "The table was dropped and made again, or replaced. The next start fails with "
                "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE; which rows of the old table are in the new one, "
                "only "
                "their positions tell.",
                commands.plan("reset"),
                "delete the checkpoint, as Delta's message says: rows that are in both tables come twice.",
            ),
        )
    return tuple(_find_in_log(source, position, evidence, commands, now))


def _find_in_log(
    source: SourceDeclaration, position: DeltaPosition, evidence: DeltaSourceEvidence, commands: Commands, now: int
) -> list[Finding]:
    first, latest = first_version(position), evidence.latest_version
    if first > latest + 1 or (first == latest + 1 and position.index >= 0):
        return [
            Finding(
                "SOURCE_COMMITS_VANISHED",
                Severity.UNSAFE,
                f"the checkpoint stands at version {first} of {source.target}, whose log ends at {latest}",
                f"Commits {latest + 1}..{first - 1} were there when they were read and are gone: the table was put "
                "back "
                "to an older copy. Versions that are written next get numbers that the stream counts as read.",
                commands.plan("reset"),
                "write to the source table until its version passes the checkpoint's.",
            )
        ]
    if first < evidence.earliest_commit and first <= latest:
        gone = evidence.earliest_commit - first
        return [
            Finding(
                "SOURCE_HISTORY_GONE",
                Severity.UNSAFE,
                f"the next batch begins at version {first} of {source.target}; its log begins at "
                f"{evidence.earliest_commit}: {gone} commits are gone",
                "The log was cleaned up while the query was behind. Their rows are still in the table unless they "
                "were "
                "deleted, but no longer known as new.",
                commands.plan("backfill"),
                "set failOnDataLoss to false: the stream would go on behind the hole.",
            )
        ]
    # Inside the first snapshot, and once a version's first file is read, that version's own commit is past its check.
    begun = position.initial_snapshot or position.index >= 0
    pending = [commit for commit in without_undone(evidence.pending) if commit.version >= first + begun]
    return [
        *_find_changes(source, pending, commands),
        *_find_schema_change(source, evidence, commands),
        *_find_expiry(source, evidence, pending, commands, now),
    ]


def _find_changes(source: SourceDeclaration, pending: Sequence[Commit], commands: Commands) -> list[Finding]:
    """Commits that rewrote or deleted rows (DeltaSource.validateCommitAndDecideSkipping)."""
    options = {name.lower(): value.lower() for name, value in source.options}
    if options.get("readchangefeed") == "true" or options.get("readchangedata") == "true":
        return []
    skips = options.get("skipchangecommits") == "true"
    rewritten = [c for c in pending if c.changes and c.changes.removed and c.changes.added]
    deleted = [c for c in pending if c.changes and c.changes.removed and not c.changes.added]
    findings = []
    if rewritten and not skips and options.get("ignorechanges") != "true":
        findings.append(
            _stops(
                "SOURCE_REWRITTEN",
                source,
                rewritten,
                "Existing rows were rewritten, which a stream of appended rows cannot pass on: the next start fails "
                "with "
                "DELTA_SOURCE_TABLE_IGNORE_CHANGES.",
                commands.plan("reset"),
                "set skipChangeCommits before it is known that the commit holds no new rows: it is skipped whole.",
            )
        )
    elif rewritten:
        what = "left out whole, new rows included" if skips else "passed on again as if they were new"
        findings.append(
            Finding(
                "SOURCE_CHANGES_SKIPPED" if skips else "SOURCE_CHANGES_REPEATED",
                Severity.ATTENTION,
                f"{source.target}: {_versions(rewritten)} rewrote rows",
                f"By the stage's own options such commits are {what}.",
                commands.doctor(),
                "",
            )
        )
    if deleted and not skips and options.get("ignoredeletes") != "true" and options.get("ignorechanges") != "true":
        findings.append(
            _stops(
                "SOURCE_ROWS_DELETED",
                source,
                deleted,
                "Rows were deleted, which a stream of appended rows cannot pass on: the next start fails with "
                "DELTA_SOURCE_IGNORE_DELETE. Rows deleted before they were read are missing downstream, as upstream.",
                f"set the source option ignoreDeletes, then {commands.run()}",
                "delete the checkpoint.",
            )
        )
    return findings


def _stops(
    code: str, source: SourceDeclaration, commits: Sequence[Commit], meaning: str, next: str, do_not: str
) -> Finding:
    return Finding(code, Severity.UNSAFE, f"{source.target}: {_versions(commits)}", meaning, next, do_not)


def _find_schema_change(source: SourceDeclaration, evidence: DeltaSourceEvidence, commands: Commands) -> list[Finding]:
    changed = changed_columns(evidence.schema_before, evidence.schema_text) if evidence.schema_before else ()
    if not changed:
        return []
    versions = [commit for commit in evidence.pending if commit.schema_text is not None]
    return [
        Finding(
            "SOURCE_SCHEMA_CHANGED",
            Severity.UNSAFE,
            f"{source.target}: {_versions(versions)} renamed, dropped or retyped {', '.join(changed[:5])}",
            "A stream cannot read across that without schema tracking; the next start fails with "
            "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE or DELTA_SCHEMA_CHANGED.",
            commands.plan("reset"),
            "restart in a loop: additive changes need one restart, these do not heal by it.",
        )
    ]


def _find_expiry(
    source: SourceDeclaration, evidence: DeltaSourceEvidence, pending: Sequence[Commit], commands: Commands, now: int
) -> list[Finding]:
    """When the log's clean-up reaches the oldest unread commit."""
    oldest = next((commit.timestamp for commit in pending if commit.timestamp is not None), None)
    if oldest is None or not evidence.log_retention:
        return []
    left = oldest + evidence.log_retention - now
    if left > max(evidence.log_retention // 4, 2 * _DAY):
        return []
    return [
        Finding(
            "SOURCE_HISTORY_EXPIRES",
            Severity.ATTENTION,
            f"{source.target}: the oldest unread commit ({pending[0].version}) is from {time_text(oldest)}; its log "
            "is kept "
            f"until {time_text(oldest + evidence.log_retention)}"
            + (f", {span_text(left)} from now" if left > 0 else ", which is past"),
            "After that time the next checkpoint of the table's log deletes it, and the stream cannot go on from here.",
            commands.run(),
            "leave the query stopped beyond that time.",
        )
    ]


def find_file_source(
    source: SourceDeclaration, span: Span, evidence: FileSourceEvidence, commands: Commands
) -> tuple[Finding, ...]:
    if not evidence.exists and not evidence.problem:
        severity = Severity.UNSAFE if span.source.end is not None else Severity.INFO
        return (
            Finding(
                "SOURCE_MISSING",
                severity,
                f"landing folder {source.target} is not there",
                "It was moved or is not mounted, or nothing has landed yet. The query fails at its start.",
                "surestart status",
                "point the stage at another folder: files are known by their whole path, and all are read again.",
            ),
        )
    findings = []
    if evidence.outside:
        findings.append(
            Finding(
                "SOURCE_FOLDER_CHANGED",
                Severity.UNSAFE,
                f"the checkpoint has read {evidence.outside}, the stage declares {source.target}",
                "The file source knows files by their whole path: under another folder every file counts as new and "
                "is "
                "read again.",
                "move the files back, or link the folder under its old name",
                "start it: rows that are in the sink come twice.",
            )
        )
    if evidence.gone:
        findings.append(
            Finding(
                "SOURCE_FILES_GONE",
                Severity.UNSAFE,
                f"{len(evidence.gone)} of the {evidence.listed} files of the batch in flight are gone, such as "
                f"{evidence.gone[0]}",
                "The batch cannot be read again as it was planned; the start fails, or leaves their rows out where "
                "ignoreMissingFiles is set.",
                "put the files back under the same path, then " + commands.run(),
                "set spark.sql.files.ignoreMissingFiles: the sink may hold the batch without them.",
            )
        )
    if evidence.problem:
        findings.append(_unread(source, evidence.problem, commands))
    return tuple(findings)


def _unread(source: SourceDeclaration, problem: str, commands: Commands) -> Finding:
    return Finding(
        "SOURCE_NOT_READ",
        Severity.CANNOT_TELL,
        f"source {source.target}: {problem}",
        "Whether it still has what the next batch wants to read is not known.",
        commands.doctor(),
        "take an unread source for a complete one.",
    )


def _versions(commits: Sequence[Commit]) -> str:
    shown = ", ".join(f"{commit.version} ({commit.operation})" for commit in commits[:3])
    return f"version {shown}" + (f" and {len(commits) - 3} more" if len(commits) > 3 else "")
