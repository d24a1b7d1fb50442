"""A finding: a stable code, how bad it is, the evidence, and the three sentences a person needs next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    INFO = "info"
    ATTENTION = "attention"
    CANNOT_TELL = "cannot tell"
    UNSAFE = "unsafe"


class Verdict(StrEnum):
    SAFE = "safe"
    ATTENTION = "attention"
    CANNOT_TELL = "cannot tell"
    UNSAFE = "unsafe"


class Acceptance(StrEnum):
    """What the sink does with the next batch."""

    ACCEPTS = "accepts"
    SKIPS = "skips"
    DUPLICATES = "duplicates"
    CANNOT_TELL = "cannot tell"


EXIT_CODES = {Verdict.SAFE: 0, Verdict.ATTENTION: 1, Verdict.UNSAFE: 3, Verdict.CANNOT_TELL: 4}


@dataclass(frozen=True)
class Finding:
    code: str
    severity: Severity
    evidence: str
    meaning: str
    next: str
    do_not: str = ""


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The worst severity decides; cannot tell outranks attention, and only unsafe outranks cannot tell."""
    severities = {finding.severity for finding in findings}
    for severity, verdict in (
        (Severity.UNSAFE, Verdict.UNSAFE),
        (Severity.CANNOT_TELL, Verdict.CANNOT_TELL),
        (Severity.ATTENTION, Verdict.ATTENTION),
    ):
        if severity in severities:
            return verdict
    return Verdict.SAFE
