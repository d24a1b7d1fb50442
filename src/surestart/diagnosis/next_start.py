"""What a start does with a checkpoint, as a value, and the Spark lines for which it is known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SPARK_LINES = ("3.5", "4.0", "4.1", "4.2")
DEFAULT_LINE = "4.0"


class Outcome(StrEnum):
    FIRST = "first start"
    STARTS = "starts"
    REPLAYS = "replays"
    FAILS = "fails"
    LOOPS = "loops"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class NextStart:
    """batch: the batch that runs first, None when none runs. why: the evidence. at: the file that decides, if any.
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
