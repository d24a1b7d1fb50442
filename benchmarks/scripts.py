"""The sections that are scripts with a table of their own: runs one, and turns what it prints into lines of ours.

start gate      median 46 ms, worst 61 ms of 7      ─┐
held: exactly-once upsert / …: 1.71x, wanted 1.6x    ├─>  measure = the section, the first cell, the others, met
MISSED: …                                            │
100 batches, one source   0.11 s   0.31 s   yes     ─┘
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.table import Line

_JUDGED = {"held": True, "MISSED": False}
_MET = {"yes": True, "NO": False}


def run_script(name: str, arguments: Sequence[str]) -> list[Line]:
    """What the script printed, and as the last line whether all of its bars were met, which its exit code says."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    lines = [_line(name, row) for row in done.stdout.splitlines() if row.strip()]
    return [*lines, Line(name, "its own bars", f"exit code {done.returncode}", met=done.returncode == 0)]


def _line(name: str, row: str) -> Line:
    judgement, _, text = row.partition(": ")
    if judgement in _JUDGED:
        return Line(name, "", text, met=_JUDGED[judgement])
    first, *cells = re.split(r"\s{2,}", row.strip())
    met = _MET.get(cells[-1]) if cells else None
    return Line(name, first, "  ".join(cells[:-1] if met is not None else cells), met=met)
