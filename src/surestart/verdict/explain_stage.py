"""An error of a Delta source, held against the stage that met it: the commit it is about, and what comes next."""

from __future__ import annotations

from dataclasses import replace

from surestart.typed import NextStep
from surestart.verdict.diagnose import Diagnosis
from surestart.verdict.explain import Answer, Match
from surestart.verdict.explanations import delta_source_errors
from surestart.words.finding import Finding, Severity

_NAMES = frozenset(entry.name for entry in delta_source_errors.EXPLANATIONS)


def is_about_a_source(answer: Answer) -> bool:
    return any(match.explanation.name in _NAMES for match in answer.matches)


def at_stage(answer: Answer, diagnosis: Diagnosis, run: NextStep) -> Answer:
    """The same answer with what the stage's own source says now, and the command that follows from it. run: what starts
    the stage, for a source that nothing stops any more."""
    found = [
        finding
        for finding in diagnosis.findings
        if finding.code.startswith("SOURCE_") and finding.severity in (Severity.UNSAFE, Severity.CANNOT_TELL)
    ]
    return replace(answer, matches=tuple(_at_stage(match, found, run) for match in answer.matches))


def _at_stage(match: Match, found: list[Finding], run: NextStep) -> Match:
    if match.explanation.name not in _NAMES:
        return match
    if not found:
        return replace(match, stage_says="No unread commit of its source stops it now.", next=run)
    first = found[0]
    said = "; ".join(f"{finding.code}: {finding.evidence}" for finding in found[:3])
    return replace(match, stage_says=f"{said}. {first.meaning}", next=first.next, do_not=first.do_not)
