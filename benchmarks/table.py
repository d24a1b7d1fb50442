"""What a section measured, as lines of the one table.

measure                      system          value   ratio              bar       met
bulk of 2,000,000, cold      ours         48.1 s     1.93x naive        ≥ 1.7x    yes
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """met is None where there is no bar."""

    measure: str
    system: str
    value: str
    ratio: str = ""
    bar: str = ""
    met: bool | None = None


@dataclass(frozen=True)
class Plan:
    """How large the run is. Ratios are of medians over `repeats` rounds; in each the systems follow one another."""

    readings: int
    repeats: int
    tiny_rounds: int
    tiny_appends: int
    tiny_base: int
    tiny_warm_up: int
    tiny_batches: int
    growth_batches: int
    kills: int
    merge_base: int
    merge_factor: int


FULL = Plan(2_000_000, 3, 2, 40, 10_700, 12, 12, 1000, 5, 50_000, 20)
QUICK = Plan(100_000, 1, 1, 10, 5_000, 2, 3, 60, 1, 20_000, 5)


def at_least(measured: float, bar: float, unit: str = "x") -> tuple[str, bool]:
    return f"≥ {bar:g}{unit}", measured >= bar


def at_most(measured: float, bar: float, unit: str = "x") -> tuple[str, bool]:
    return f"≤ {bar:g}{unit}", measured <= bar


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float], unit: str = "s") -> str:
    """The median, and the extremes when there is more than one value."""
    if len(values) == 1:
        return f"{values[0]:.2f} {unit}"
    return f"{median(values):.2f} {unit} ({min(values):.2f}-{max(values):.2f})"


def format_table(lines: Sequence[Line]) -> str:
    heads = ("measure", "system", "value", "ratio", "bar", "met")
    rows = [
        (line.measure, line.system, line.value, line.ratio, line.bar, {None: "", True: "yes", False: "NO"}[line.met])
        for line in lines
    ]
    widths = [max(len(row[index]) for row in [heads, *rows]) for index in range(len(heads))]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(heads, widths, strict=True)).rstrip()]
    drawn.append("  ".join("-" * width for width in widths))
    before = ""
    for row in rows:
        shown = ("" if row[0] == before else row[0], *row[1:])
        before = row[0]
        drawn.append("  ".join(cell.ljust(width) for cell, width in zip(shown, widths, strict=True)).rstrip())
    return "\n".join(drawn) + "\n"
