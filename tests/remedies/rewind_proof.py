"""Which streams are rewound for the proof: each pair of values comes by at least once.

kind of state   x   what keeps it   x   what is read   x   to which batch   x   how many batches Spark keeps
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields

from tests.checkpoint.rewind_lab import COUNTS, JOIN, PROVIDERS, TOTALS, TRANSFORM, WINDOWS, WITHIN, Kind

STATEFUL = {kind.name: kind for kind in (WITHIN, WINDOWS, TOTALS, JOIN, COUNTS, TRANSFORM)}
SOURCES = ("files", "kafka", "delta")
FIRST, MIDDLE, LAST_BUT_ONE, COMPACTED = "first", "middle", "last", "compacted"
# With so few, Spark has purged offsets, commits, entries of the source's list and versions of the state.
KEPT = ("all", "4")


@dataclass(frozen=True)
class Case:
    kind: str
    provider: str
    source: str
    to: str
    kept: str

    def __str__(self) -> str:
        return "-".join(getattr(self, field.name) for field in fields(self))

    @property
    def stream(self) -> Kind:
        return STATEFUL[self.kind]

    @property
    def possible(self) -> bool:
        """Spark offers it: transformWithState on RocksDB only; a compacted list is the file source's."""
        return (self.kind, self.provider) != ("transform", "hdfs") and (self.to != COMPACTED or self.source == "files")

    @property
    def on_3_5(self) -> bool:
        return self.kind != "transform" and self.provider != "v2"


def every_case() -> list[Case]:
    values = (STATEFUL, PROVIDERS, SOURCES, (FIRST, MIDDLE, LAST_BUT_ONE, COMPACTED), KEPT)
    return [case for given in itertools.product(*values) if (case := Case(*given)).possible]


def pairs_of(case: Case) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    yield from itertools.combinations([(field.name, getattr(case, field.name)) for field in fields(case)], 2)


def pairwise() -> list[Case]:
    """The fewest that a greedy choice finds; the same at every call."""
    possible = every_case()
    open_pairs = {pair for case in possible for pair in pairs_of(case)}
    chosen = []
    while open_pairs:
        best = max(possible, key=lambda case: len(open_pairs & set(pairs_of(case))))
        chosen.append(best)
        open_pairs -= set(pairs_of(best))
    return chosen
