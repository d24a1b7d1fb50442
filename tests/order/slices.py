"""The chaos tests in slices of equal cost, one a day: all of them come by in four weeks.

Which slice a test is in depends on the chaos tests that there are and on what each costs, on nothing else.

    python -m tests.order.slices      the number of today's
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.order.costs import cost_of

# Four weeks; each takes so many minutes, in two processes.
SLICES = 28
MINUTES = 15
PROCESSES = 2


def slice_of_day(day_of_year: int) -> int:
    """1 to SLICES."""
    return day_of_year % SLICES + 1


def cut(tests: Iterable[str]) -> dict[str, int]:
    """The slice of each: the longest first, each into the one that has least so far."""
    filled, found = [0.0] * SLICES, dict[str, int]()
    for test in sorted(tests, key=lambda test: (-cost_of(test, chaos=True), test)):
        least = filled.index(min(filled))
        filled[least] += cost_of(test, chaos=True)
        found[test] = least + 1
    return found


def minutes_of(tests: Iterable[str]) -> dict[int, float]:
    """What each slice takes, in two processes side by side."""
    found = dict.fromkeys(range(1, SLICES + 1), 0.0)
    for test, number in cut(tests).items():
        found[number] += cost_of(test, chaos=True) / 60 / PROCESSES
    return found


if __name__ == "__main__":
    print(slice_of_day(time.gmtime().tm_yday))
