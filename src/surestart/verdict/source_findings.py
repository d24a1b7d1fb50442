"""Findings about file sources, and what is said of any source that could not be asked."""

from __future__ import annotations

from surestart.declaration import SourceDeclaration
from surestart.facts.evidence.source_evidence import FileSourceEvidence, NextRead
from surestart.typed import surestart
from surestart.words.amounts import span_text, time_text
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def find_file_source(
    source: SourceDeclaration, span: NextRead, evidence: FileSourceEvidence, commands: Commands, held: bool = False
) -> tuple[Finding, ...]:
    """held: each sink is one of Spark's own, has the batch in flight, and passes over its replay without reading it."""
    if not evidence.exists and not evidence.problem:
        severity = Severity.UNSAFE if span.source.end is not None else Severity.INFO
        return (
            Finding(
                "SOURCE_MISSING",
                severity,
                f"landing folder {source.target} is not there",
                "It was moved or is not mounted, or nothing has landed yet. The query fails at its start.",
                surestart("status"),
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
    if evidence.gone and held:
        findings.append(
            Finding(
                "SOURCE_FILES_GONE",
                Severity.ATTENTION,
                f"{len(evidence.gone)} of the {evidence.listed} files of the batch in flight are gone, such as "
                f"{evidence.gone[0]}",
                "The sink has their rows, and passes over the batch without reading them again.",
                commands.run(),
                "clear the output before they are back: nobody else has their rows.",
            )
        )
    elif evidence.gone:
        findings.append(
            Finding(
                "SOURCE_FILES_GONE",
                Severity.UNSAFE,
                f"{len(evidence.gone)} of the {evidence.listed} files of "
                f"the batch in flight are gone, such as {evidence.gone[0]}",
                "The batch cannot be read again as it was planned; the start fails, or leaves their rows out where "
                "ignoreMissingFiles is set. If the stage begins anew after its output, it reads the files that exist.",
                commands.plan("replay"),
                "set spark.sql.files.ignoreMissingFiles: the sink may hold the batch without them. Where files can be "
                "put back under the same path, do that and start it.",
            )
        )
    if evidence.problem:
        findings.append(source_unread(source, evidence.problem, commands))
    return tuple(findings)


# Only their service knows what they still have. Spark's source stops when what it has to read is gone.
ASKED_BY_SPARK = ("auto-loader", "iceberg", "kinesis", "event-hubs", "rate-micro-batch", "socket")


def source_not_asked(source: SourceDeclaration, commands: Commands) -> Finding:
    """The finding for a source that was not asked: its brokers are not named, or it is of an unknown class."""
    named = "bootstrap" in dict(source.options)
    why = "its topics are a pattern" if named else 'no brokers are named for it, as by bootstrap = "HOST:PORT"'
    return source_unread(source, f"it was not asked: {why}", commands)


def not_declared(kind: str, commands: Commands) -> Finding:
    unknown = kind in ("unknown", "number", "none yet")
    return Finding(
        "SOURCE_NOT_DECLARED",
        Severity.CANNOT_TELL if unknown else Severity.ATTENTION,
        f"the checkpoint has a source of kind {kind}, and nobody has said what it reads",
        "Whether it still has what comes next was not asked. Spark stops where a file, a commit or a record that it "
        "needs is gone. It does not always notice that a topic or a table was made anew under its name.",
        commands.doctor("once surestart.toml names its source"),
        "treat a source that was not asked as one that has everything.",
    )


def left_to_spark(source: SourceDeclaration, commands: Commands) -> Finding:
    return Finding(
        "SOURCE_NOT_ASKED",
        Severity.ATTENTION,
        f"{source.target} is a source of kind {source.kind}, which only Spark can ask",
        "The start finds out whether it still has what comes next, and stops if it has not.",
        commands.doctor(),
        "leave the stream stopped for longer than its source keeps its data.",
    )


def source_unread(source: SourceDeclaration, problem: str, commands: Commands) -> Finding:
    return Finding(
        "SOURCE_NOT_READ",
        Severity.CANNOT_TELL,
        f"source {source.target}: {problem}",
        "Whether it still has what the next batch wants to read is not known.",
        commands.doctor(),
        "treat an unread source as a complete one.",
    )


# Clocks of one cluster differ by seconds. What counts by days is not changed by less than this.
TOLERATED = 3_600_000


def find_clock_behind(what: str, written_at: int | None, now: int, commands: Commands) -> tuple[Finding, ...]:
    """A finding, or nothing while the clock may be right. what: what is said to have been written at that time."""
    if written_at is None or written_at <= now + TOLERATED:
        return ()
    return (
        Finding(
            "CLOCK_BEHIND",
            Severity.CANNOT_TELL,
            f"this machine's clock says {time_text(now)}; {what} was written at {time_text(written_at)}, "
            f"{span_text(written_at - now)} later",
            "What has expired by now, and what will soon, cannot be told by a clock that is behind.",
            commands.doctor(),
            "trust a wrong clock that something has not expired yet.",
        ),
    )
