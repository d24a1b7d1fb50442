"""What a test costs in seconds, by the file beside this one: each that was measured, and for the other parameters of a
chaos test what one of them is believed to cost, behind a ~.

python -m tests.order.costs LOG ...      takes up what runs with --durations=0 have printed
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("costs.txt")
# What nobody has measured: a new test of `make test`, and a new one of `make chaos`.
NEW, NEW_CHAOS = 0.02, 60.0
# What costs less is not in the table.
LEAST = 1.0
_PHASE = re.compile(r"([\d.]+)s (?:call|setup|teardown) +(\S+::.+)$")


def function_of(test: str) -> str:
    """tests/room/test_file.py::test_name, without what it is called with."""
    return test.split("[", 1)[0]


@cache
def read_costs() -> Mapping[str, float]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {name: float(seconds) for seconds, name in (line.split(" ", 1) for line in lines)}


def cost_of(test: str, chaos: bool = False) -> float:
    measured = read_costs().get(test)
    if measured is None and chaos:
        return read_costs().get(f"~{function_of(test)}", NEW_CHAOS)
    return NEW if measured is None else measured


def read_durations(lines: Iterable[str]) -> dict[str, float]:
    """Seconds of each test, all its phases together."""
    found = defaultdict[str, float](float)
    for line in lines:
        phase = _PHASE.match(line)
        if phase:
            found[phase[2].strip()] += float(phase[1])
    return dict(found)


def as_text(costs: Mapping[str, float]) -> str:
    return "".join(f"{seconds:.1f} {name}\n" for name, seconds in sorted(costs.items()) if seconds >= LEAST)


def main(logs: list[str]) -> None:
    found = dict(read_costs())
    for log in logs:
        found |= read_durations(Path(log).read_text(encoding="utf-8", errors="replace").splitlines())
    TABLE.write_text(as_text(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
