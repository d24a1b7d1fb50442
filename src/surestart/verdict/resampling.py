"""Evidence that may heal by itself, looked at more than once before it counts, and before it counts no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from surestart.words.finding import Finding, Severity

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Sample(Generic[Answer]):
    """One look.

    answer: what the findings were made of, None when there was none.
    parts: what it speaks of."""

    findings: tuple[Finding, ...]
    answer: Answer | None = None
    parts: frozenset[object] = frozenset()

    @property
    def unsafe(self) -> bool:
        return any(one.severity is Severity.UNSAFE for one in self.findings)


def confirm_by_resampling(
    read: Callable[[], Sample[Answer]], wait: Callable[[float], object], samples: int = 3, seconds: float = 2.0
) -> Sample[Answer]:
    """What stands after two looks, and after `samples` of them while one shows harm. No answer is not asked again.

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


def _joined(before: Sample[Answer], after: Sample[Answer]) -> Sample[Answer]:
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
