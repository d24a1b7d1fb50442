"""Findings about file sources, and what is said of any source that could not be asked."""

from __future__ import annotations

from surestart.declaration import SourceDeclaration
from surestart.facts.evidence.source_evidence import FileSourceEvidence, Span
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


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
                "The file source knows files by their whole path: under "
                "another folder every file counts as new and is read again.",
                commands.doctor("move the files back first, or link the folder under its old name"),
                "start it: rows that are in the sink come twice.",
            )
        )
    if evidence.gone:
        findings.append(
            Finding(
                "SOURCE_FILES_GONE",
                Severity.UNSAFE,
                f"{len(evidence.gone)} of the {evidence.listed} files of "
                f"the batch in flight are gone, such as {evidence.gone[0]}",
                "The batch cannot be read again as it was planned; the start fails, or leaves their rows out where "
                "ignoreMissingFiles is set. Begun anew behind its output, the stage reads the files that there are.",
                commands.plan("replay"),
                "set spark.sql.files.ignoreMissingFiles: the sink may hold the batch without them. Where files can be "
                "put back under the same path, do that and start it.",
            )
        )
    if evidence.problem:
        findings.append(source_unread(source, evidence.problem, commands))
    return tuple(findings)


def not_asked(source: SourceDeclaration, commands: Commands) -> Finding:
    """A source of a class that this program does not know how to ask."""
    return source_unread(source, f"a source of kind {source.kind!r} and a class of its own was not asked", commands)


def source_unread(source: SourceDeclaration, problem: str, commands: Commands) -> Finding:
    return Finding(
        "SOURCE_NOT_READ",
        Severity.CANNOT_TELL,
        f"source {source.target}: {problem}",
        "Whether it still has what the next batch wants to read is not known.",
        commands.doctor(),
        "take an unread source for a complete one.",
    )
