"""A finding: a stable code, how bad it is, the evidence, and the three sentences a person needs next. As it is
printed, in labelled paragraphs that fit 80 columns:

What happened   The query would begin at batch 0, and the checkpoint
                holds commits of an earlier one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from surestart.typed import NextStep, as_step


class Severity(StrEnum):
    """How bad a finding is. Ignorance stands above attention: what nobody knows may be unsafe."""

    INFO = "info"
    ATTENTION = "attention"
    CANNOT_TELL = "cannot tell"
    UNSAFE = "unsafe"


class Verdict(StrEnum):
    """What all findings of a stage come to: the worst of them."""

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
    """What was found, in the four parts in which errors speak too.

    code: a name that stays the same; docs/findings.md has a section for it.
    severity: how bad it can be.
    evidence: what was seen, with numbers.
    meaning: what follows from it for the data.
    next: one command that runs as printed, or a step by hand.
    do_not: what makes it worse; "" where nothing does."""

    code: str
    severity: Severity
    evidence: str
    meaning: str
    next: NextStep
    do_not: str = ""

    def __post_init__(self) -> None:
        # A source or a sink of somebody's own may say it as text.
        object.__setattr__(self, "next", as_step(self.next))


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without repetition, the worst severity first. When the verdict is against a start, none of them says
    to start: each says what the worst one says. Otherwise somebody would type a command that is refused."""
    ranked = sorted(dict.fromkeys(findings), key=lambda finding: _RANK[finding.severity])
    if not ranked or _RANK[ranked[0].severity] > _RANK[Severity.CANNOT_TELL]:
        return tuple(ranked)
    return tuple(replace(one, next=ranked[0].next) if one.next.starts_a_query else one for one in ranked)


_RANK = {Severity.UNSAFE: 0, Severity.CANNOT_TELL: 1, Severity.ATTENTION: 2, Severity.INFO: 3}


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


WIDTH = 80


def labelled(label: str, text: str, indent: int = 2, gap: int = 16, keep_lines: bool = False) -> list[str]:
    """The lines of one paragraph; nothing for an empty text. keep_lines: a command is never broken."""
    if not text:
        return []
    head = " " * indent + label.ljust(gap)
    if keep_lines:
        return [head + text]
    body = textwrap.wrap(text, WIDTH - len(head), break_long_words=True, break_on_hyphens=False)
    return [head + body[0], *(" " * len(head) + line for line in body[1:])]


# The two mistakes with a checkpoint that are made most often and cost most, in words that every screen shares.
KEEP = "delete the checkpoint: without its query id the sink cannot tell old rows from new ones."
NO_EDIT = "write into the checkpoint by hand or delete single files: the batch ids stay known to the sink."
