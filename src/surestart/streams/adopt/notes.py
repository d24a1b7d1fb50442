"""What a person should know beyond the declarations, as notes of several kinds."""

from __future__ import annotations

from dataclasses import dataclass

from surestart.typed import NOTHING, NextStep

NO_TABLE = "checkpoint without a table"
NO_CHECKPOINT = "table without a checkpoint"
TWO_CHECKPOINTS = "two checkpoints write to one table"
ONE_AFTER_THE_OTHER = "queries that followed one another"
ANOTHER_ID = "folder used by two query ids"
COPIED_CHECKPOINT = "copied checkpoint"
COPIED_TABLE = "copied table"
NOT_CARRIED = "name that TOML cannot carry"
NOT_READ = "not read"
NOT_DECLARED = "known stream, undeclared"
KINDS = (
    NO_TABLE,
    NO_CHECKPOINT,
    TWO_CHECKPOINTS,
    ONE_AFTER_THE_OTHER,
    ANOTHER_ID,
    COPIED_CHECKPOINT,
    COPIED_TABLE,
    NOT_CARRIED,
    NOT_READ,
    NOT_DECLARED,
)


@dataclass(frozen=True)
class AdoptionNote:
    """kind: one of KINDS.
    places: folders that it is about, the one to look at first.
    next: what helps, where a command does."""

    kind: str
    places: tuple[str, ...]
    says: str
    next: NextStep = NOTHING
