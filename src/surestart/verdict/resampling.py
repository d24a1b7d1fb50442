"""Evidence that may change by itself within seconds: it is looked at more than once before it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from surestart.words.finding import Finding, Severity

T = TypeVar("T")


@dataclass(frozen=True)
class Sample(Generic[T]):
    """One look.

    answer: what the findings were made of, None when there was none.
    parts: what it speaks of."""

    findings: tuple[Finding, ...]
    answer: T | None = None
    parts: frozenset[object] = frozenset()

    @property
    def unsafe(self) -> bool:
        return any(one.severity is Severity.UNSAFE for one in self.findings)


def confirm_by_resampling(
    read: Callable[[], Sample[T]], wait: Callable[[float], object], samples: int = 3, seconds: float = 2.0
) -> Sample[T]:
    """The findings after two looks, or after `samples` looks while one of them shows harm. A look without an answer is
    not repeated.

    One look may be at a broker that has not caught up after a change of leader; what goes away by itself within seconds
    is no loss. But only a look that was answered, about everything that the earlier ones spoke of, takes a finding
    back: one that failed or was told less adds what it found and takes back nothing.
    """
    stands = read()
    looks = [stands]
    while len(looks) < samples and stands.answer is not None and (len(looks) < 2 or stands.unsafe):
        if stands.unsafe:
            wait(seconds)
        looks.append(read())
        stands = _joined(stands, looks[-1])
    seen = Counter(code for look in looks for code in {finding.code for finding in look.findings})
    findings = tuple(_with_samples(finding, seen[finding.code], len(looks)) for finding in stands.findings)
    return replace(stands, findings=findings)


def _joined(before: Sample[T], after: Sample[T]) -> Sample[T]:
    if after.answer is not None and before.parts <= after.parts:
        return after
    findings = {finding.code: finding for finding in (*before.findings, *after.findings)}
    answer = before.answer if after.answer is None else after.answer
    return Sample(tuple(findings.values()), answer, before.parts | after.parts)


def _with_samples(finding: Finding, seen: int, samples: int) -> Finding:
    if finding.severity is not Severity.UNSAFE:
        return finding
    how = f"the same in {samples} samples" if seen == samples else f"in {seen} of {samples} samples"
    return replace(finding, evidence=f"{finding.evidence} ({how})")
