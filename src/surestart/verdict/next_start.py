"""What a start of a query does first, as a value: which batch runs, or why none does. `restart` predicts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from surestart.spark.spark_lines import find_lines


class Outcome(StrEnum):
    FIRST = "first start"
    STARTS = "starts"
    REPLAYS = "replays"
    FAILS = "fails"
    LOOPS = "loops"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class NextStart:
    """batch: the batch that runs first, None when none runs.
    why: the evidence.
    at: the file that decides, if any.
    otherwise: what Spark's default file manager does on a local disk, where that is something else."""

    spark: str
    outcome: Outcome
    batch: int | None
    why: str
    error: str = ""
    at: str = ""
    cause: str = ""
    new_identity: bool = False
    otherwise: NextStart | None = None

    @property
    def sentence(self) -> str:
        other = f"; with Spark's default file manager: {self.otherwise.sentence}" if self.otherwise else ""
        return self._first_sentence + other

    @property
    def shortly(self) -> str:
        """For a column of a table."""
        identity = ", new id" if self.new_identity and self.outcome is not Outcome.FIRST else ""
        match self.outcome:
            case Outcome.STARTS:
                return f"starts batch {self.batch}{identity}"
            case Outcome.REPLAYS:
                return f"replays batch {self.batch}{identity}"
            case Outcome.LOOPS:
                return f"fails after batch {self.batch}"
            case _:
                return self.outcome.value

    @property
    def _first_sentence(self) -> str:
        identity = ", under a new query id" if self.new_identity else ""
        match self.outcome:
            case Outcome.FIRST:
                return f"begins at batch 0{identity}"
            case Outcome.STARTS:
                return f"starts batch {self.batch}{identity}"
            case Outcome.REPLAYS:
                return f"replays batch {self.batch}{identity}"
            case Outcome.FAILS:
                return f"fails: {self.error}"
            case Outcome.LOOPS:
                return f"runs batch {self.batch}, then fails, at every start: {self.error}"
            case _:
                return "cannot tell"


def start_on(starts: Sequence[NextStart], spark: str) -> NextStart:
    """What a start on that version of Spark does, given what it does on each known line. On a version that may be
    several lines, or is not known: what these, or all, do alike, else that nobody can tell."""
    names = [line.name for line in find_lines(spark)]
    possible = [start for start in starts if start.spark in names or not names]
    if len({_anywhere(start) for start in possible}) == 1:
        return possible[0] if names else replace(possible[-1], spark=spark)
    known = f"may be {', '.join(names)}, and these" if names else "is not known, and the known lines"
    return NextStart(spark, Outcome.CANNOT_TELL, None, f"Spark {spark or '(no version)'} {known} do not do the same")


def _anywhere(start: NextStart) -> NextStart:
    return replace(start, spark="", otherwise=_anywhere(start.otherwise) if start.otherwise else None)
