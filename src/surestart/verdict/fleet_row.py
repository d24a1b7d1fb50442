"""One stream among many, as one line of a table: small enough to keep ten thousand of them in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.typed import NextStep, surestart
from surestart.verdict.inspection import SINK_NOT_NAMED, Inspection
from surestart.words.finding import Acceptance, Finding, Severity, Verdict, verdict_of, worst_first

# So many findings of each stream, the worst ones. The others show when that stream alone is asked about.
FINDINGS = 12
NOT_ASKED = "not asked"
RANK = {verdict: rank for rank, verdict in enumerate((Verdict.UNSAFE, Verdict.CANNOT_TELL, Verdict.ATTENTION))}


@dataclass(frozen=True)
class FleetRow:
    """name: as its row is headed.
    next_start: in a few words.
    sink: what it does with the next batch, in a word or two.
    alone: the verdict on the checkpoint where no sink was asked, else None.
    last_batch_at: when the newest batch was planned, in ms since 1970.
    unread: what waits at its sources, "" where nobody asked.
    sources: id, kind, position."""

    name: str
    location: str
    verdict: Verdict
    next_start: str = "not looked at"
    sentence: str = ""
    sink: str = NOT_ASKED
    alone: Verdict | None = None
    batch: int | None = None
    last_batch_at: int | None = None
    unread: str = ""
    query_id: str | None = None
    sources: tuple[tuple[str, str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    more_findings: int = 0

    @property
    def order(self) -> tuple[int, int, str]:
        """The worst first."""
        alone = self.alone or self.verdict
        return RANK.get(self.verdict, 3), RANK.get(alone, 3), self.name

    @property
    def worst(self) -> Finding | None:
        """The finding on which the verdict rests. That nobody named a sink is said once for all streams."""
        loud = [one for one in self.findings if one.severity is not Severity.INFO and one.code != SINK_NOT_NAMED]
        return loud[0] if loud else None

    def with_findings(self, more: Iterable[Finding]) -> FleetRow:
        found = worst_first((*more, *self.findings))
        alone = self.alone and verdict_of(one for one in found if one.code != SINK_NOT_NAMED)
        return replace(self, findings=found, verdict=verdict_of(found), alone=alone)


def row_of(name: str, inspection: Inspection, unread: str = "") -> FleetRow:
    checkpoint, start = inspection.checkpoint, inspection.start
    found = inspection.findings
    return FleetRow(
        name=name,
        location=checkpoint.location,
        verdict=inspection.verdict,
        next_start=start.shortly,
        sentence=f"Spark {start.spark} {start.sentence}",
        sink=sink_in_a_word(inspection) if inspection.sinks else NOT_ASKED,
        alone=None if inspection.sinks else verdict_of(one for one in found if one.code != SINK_NOT_NAMED),
        batch=start.batch if start.batch is not None else checkpoint.next_batch,
        last_batch_at=last_batch_at(checkpoint),
        unread=unread,
        query_id=checkpoint.query_id,
        sources=tuple(
            (source.id, source.kind, source.end.describe() if source.end else "no position")
            for source in checkpoint.sources[:20]
        ),
        findings=found[:FINDINGS],
        more_findings=max(len(found) - FINDINGS, 0),
    )


def row_not_looked_at(name: str, location: str, problem: str, next: NextStep | None = None) -> FleetRow:
    """A place of which nothing is known: it may hold a checkpoint, and a bad one."""
    finding = Finding(
        "PLACE_NOT_LOOKED_AT",
        Severity.CANNOT_TELL,
        f"{location}: {problem}",
        "Whether a checkpoint is there, and in which state, is not known.",
        next or surestart("inspect", location, note="as somebody who may read it"),
        "count it as a healthy one.",
    )
    return FleetRow(name, location, Verdict.CANNOT_TELL, findings=(finding,))


def sink_in_a_word(inspection: Inspection) -> str:
    said = inspection.acceptance.value
    if inspection.acceptance is not Acceptance.ACCEPTS:
        return said.upper()
    lacking = next((sink.word for sink in inspection.sinks if sink.word != said.upper()), "")
    if lacking:
        return lacking
    return f"{said}, replay known" if any(sink.replay_recognised for sink in inspection.sinks) else said


def last_batch_at(checkpoint: Checkpoint) -> int | None:
    """When the newest batch was planned, as it says itself; else when its file was written."""
    entry = checkpoint.latest_offsets
    if isinstance(entry, OffsetLogEntry) and entry.timestamp_ms:
        return entry.timestamp_ms
    written = checkpoint.offsets_folder.last_modified
    return None if written is None or checkpoint.latest_planned is None else int(written * 1000)


@dataclass(frozen=True)
class Fleet:
    """title: what was looked at.
    rows: the worst first.
    kind: what a row is, such as "checkpoint".
    again: the command that asks about all of them once more."""

    title: str
    rows: tuple[FleetRow, ...]
    asked_at: int
    kind: str
    again: NextStep

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all; without a single row: cannot tell."""
        return self.rows[0].verdict if self.rows else Verdict.CANNOT_TELL

    @property
    def next(self) -> NextStep:
        for row in self.rows:
            if row.worst is not None:
                return row.worst.next
        return next((one.next for row in self.rows for one in row.findings if one.code == SINK_NOT_NAMED), self.again)

    @property
    def summary(self) -> str:
        """How many of each, in one sentence."""
        many = f"{len(self.rows):,} {self.kind}{'s' if len(self.rows) != 1 else ''}"
        if not self.rows:
            return f"no {self.kind} was found here"
        said = [
            f"{count:,} {verdict.value}"
            for verdict in (*RANK, Verdict.SAFE)
            if (count := sum(row.verdict is verdict for row in self.rows))
        ]
        alone = [row.alone for row in self.rows if row.alone is not None and row.sink == NOT_ASKED]
        whole = sum(verdict is Verdict.SAFE for verdict in alone)
        unasked = f"; the sinks of {len(alone):,} were not asked, {whole:,} of these look whole" if alone else ""
        return f"{many}: {', '.join(said)}{unasked}"
