"""Where a remedy stands, and where it may go from there: the protocol of apply and undo, in one table.

Whoever writes into the journal, and whoever reads it, asks this table; docs/remedies.md shows it. Between two states
the journal has an entry for each step that was done or undone (`surestart.journal.step_kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass

FILLING, BEGUN, RELEASED, FINISHED = "filling", "begun", "released", "finished"
UNDOING, WITHDRAWN = "undoing", "withdrawn"
# Entries of a step; the state stays as it is.
DONE, UNDONE = "done", "undone"


@dataclass(frozen=True)
class RemedyState:
    """means: for a reader.
    moves: the states that may follow.
    verb: the command that carries the remedy on from here; "" where nothing is left to do.
    stops_stages: no stage that the remedy touches may start. A backfill stops nobody.
    alone: no other remedy of these stages may begin."""

    means: str
    moves: tuple[str, ...]
    verb: str = ""
    stops_stages: bool = False
    alone: bool = False


FIRST = (FILLING, BEGUN)
STATES = {
    FILLING: RemedyState(
        "new tables are filled beside those of the stages", (BEGUN, UNDOING, WITHDRAWN), "apply", alone=True
    ),
    BEGUN: RemedyState(
        "tables and checkpoints are being changed",
        (RELEASED, FILLING, UNDOING, WITHDRAWN),
        "apply",
        stops_stages=True,
        alone=True,
    ),
    RELEASED: RemedyState(
        "the stages may start; they are run again, and the rows counted", (FINISHED, UNDOING), "apply"
    ),
    FINISHED: RemedyState("every step is done", (UNDOING,)),
    # Back to where it stood, when nothing can be taken back.
    UNDOING: RemedyState(
        "the steps are being taken back",
        (WITHDRAWN, FILLING, BEGUN, RELEASED, FINISHED),
        "undo",
        stops_stages=True,
        alone=True,
    ),
    WITHDRAWN: RemedyState("all is as it was before, or nothing was changed", ()),
}


def check_move(before: str, after: str) -> None:
    """Raises for an entry that the protocol does not have: a fault of surestart, found before it is written."""
    if after not in (DONE, UNDONE, *STATES[before].moves):
        raise ValueError(f"a remedy that is {before} cannot become {after}")
