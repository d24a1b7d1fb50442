"""What a count of one stage's rows found, as values.

StageCount  raw-ingest: positions of the source against rows of sensor_raw
├── counts  totals
├── places  the same per (source, partition): a file or a Kafka partition; those with something to say first
└── gaps    runs of positions that are missing in the output, newest first: what a backfill would fill. Of a keyed table
            and of a database: the positions of the newest row of each key that is lost or wrong
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

POSITIONS, KEYS, DATABASE = "positions", "keys", "database"
KEPT_PLACES = KEPT_GAPS = 1000


@dataclass(frozen=True)
class Counts:
    """input        distinct positions (or keys) that the stage may read now
    rows          rows of its output
    distinct      distinct positions (or keys) among them
    lost          the stage has passed them, and they are not in the output
    duplicated    rows beyond the first of their position or key
    in_both       positions that are good and quarantined
    wrong         keys whose row is not their newest
    from_nowhere  in the output, and the input never had them
    gone          in the output, and the source has dropped them since; no fault
    pending       the stage has not come to them yet; no fault
    undecided     missing, and nobody can tell whether the stage has passed them
    """

    input: int = 0
    rows: int = 0
    distinct: int = 0
    lost: int = 0
    duplicated: int = 0
    in_both: int = 0
    wrong: int = 0
    from_nowhere: int = 0
    gone: int = 0
    pending: int = 0
    undecided: int = 0

    @property
    def faults(self) -> Mapping[str, int]:
        found = {name: getattr(self, name) for name in FAULTS}
        return {name: number for name, number in found.items() if number}


FAULTS = ("lost", "duplicated", "in_both", "wrong", "from_nowhere")
NAMES = tuple(field.name for field in fields(Counts))


@dataclass(frozen=True)
class CountedPlace:
    """first, last: the range that the input has now; None when it has nothing of this file or partition."""

    source: str
    partition: int | None
    first: int | None
    last: int | None
    counts: Counts


@dataclass(frozen=True)
class Gap:
    """rows are missing in the stage's output between two positions, both included, and nothing of it is there. Of keys
    that are too many: the stretch of a file or partition in which they are missing, among others that are there."""

    stage: str
    source: str
    partition: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class StageCount:
    """outputs: table or database -> the version that was counted.
    compared: False where the input was not asked, or could not be, and only the output was counted.
    problem: why something could not be told.
    left_out: columns whose values were not compared, because their type has no common form on both sides."""

    stage: str
    kind: str
    input: str
    outputs: Mapping[str, int | None]
    counts: Counts
    compared: bool = True
    places: tuple[CountedPlace, ...] = ()
    place_count: int = 0
    gaps: tuple[Gap, ...] = ()
    gaps_complete: bool = True
    examples: tuple[str, ...] = ()
    problem: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def cannot_tell(self) -> bool:
        return bool(self.problem or self.counts.undecided)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
