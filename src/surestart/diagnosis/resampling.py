"""Evidence that may heal by itself, looked at more than once before it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from surestart.diagnosis.finding import Finding, Severity


def confirm_by_resampling(
    read: Callable[[], Sequence[Finding]], wait: Callable[[float], object], samples: int = 3, seconds: float = 2.0
) -> tuple[Finding, ...]:
    """Findings that every sample shows. One sample may be of a broker that has not caught up after a change of leader;
    what goes away by itself within seconds is no loss."""
    found = {finding.code: finding for finding in read()}
    taken = 1
    while taken < samples and any(finding.severity is Severity.UNSAFE for finding in found.values()):
        wait(seconds)
        again = {finding.code: finding for finding in read()}
        taken += 1
        found = {code: again[code] for code in found if code in again}
    if taken == 1:
        return tuple(found.values())
    return tuple(_with_samples(finding, taken) for finding in found.values())


def _with_samples(finding: Finding, samples: int) -> Finding:
    if finding.severity is not Severity.UNSAFE:
        return finding
    return replace(finding, evidence=f"{finding.evidence} (the same in {samples} samples)")
