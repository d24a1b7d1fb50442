"""How much of a checkpoint goes onto its page: as much as fits, less when it is hostile or huge, never over the budget.

A page is sent by mail and opened on a phone. What is left out is said on the page, with the command that shows it all.
"""

from __future__ import annotations

from dataclasses import dataclass

BUDGET = 290_000


@dataclass(frozen=True)
class Limits:
    """columns: batches in a chart.
    rows: rows of a table.
    text: characters of one value.
    json: of the raw object."""

    findings: int
    columns: int
    rows: int
    sources: int
    text: int
    json: int


TIERS = (
    Limits(findings=40, columns=40, rows=128, sources=12, text=600, json=60_000),
    Limits(findings=20, columns=40, rows=40, sources=6, text=200, json=12_000),
    Limits(findings=10, columns=20, rows=12, sources=3, text=120, json=0),
    Limits(findings=5, columns=10, rows=5, sources=2, text=80, json=0),
)
