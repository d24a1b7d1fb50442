"""One explained error: what happened, whether data is at risk, which remedy, the exact command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from surestart.typed import NextCommand
from surestart.words.codes.code import BACKFILL, DOCTOR, HISTORY, REPLAY, RESET, RESUME, RUN

__all__ = ["BACKFILL", "DOCTOR", "HISTORY", "REPLAY", "RESET", "RESUME", "RUN"]


class Risk(StrEnum):
    """Whether rows are lost or doubled, or will be at the next start."""

    NO = "no"
    POSSIBLE = "possibly"
    YES = "yes"


KEEP = "delete the checkpoint or files in it."


@dataclass(frozen=True)
class Explanation:
    """name: the error condition, with its sub-condition after a dot, or a short name for a text that has none.
    patterns: regular expressions for texts that come without their condition.
    wrapper: it only carries another error."""

    name: str
    risk: Risk
    happened: str
    data: str
    remedy: str
    command: NextCommand
    do_not: str = KEEP
    patterns: tuple[str, ...] = ()
    wrapper: bool = False
