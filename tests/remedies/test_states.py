"""The states of a remedy: one table, which the journal asks, and the models of the protocol, and the documents show."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.journal.journal import Journal, JournalEntry
from surestart.journal.protocol import DONE, FIRST, STATES, UNDONE, check_move

PAGE = (Path(__file__).parents[2] / "docs" / "remedies.md").read_text(encoding="utf-8")


def test_every_state_is_reached_and_has_a_way_to_an_end() -> None:
    assert {move for state in STATES.values() for move in state.moves} | set(FIRST) == STATES.keys()
    assert [name for name, state in STATES.items() if not state.moves] == ["withdrawn"]
    # Whoever finds a remedy half-way is told how to bring it to its end.
    assert [name for name, state in STATES.items() if state.alone and not state.verb] == []


def test_the_documents_show_the_table() -> None:
    for name, state in STATES.items():
        stages = "stand still" if state.stops_stages else "may start"
        verb = f"`surestart {state.verb}`" if state.verb else ""
        moves = ", ".join(f"`{move}`" for move in state.moves)
        assert f"| `{name}` | {state.means} | {stages} | {verb} | {moves} |" in PAGE


@pytest.mark.parametrize("state", STATES)
def test_the_journal_reads_it(state: str) -> None:
    journal = Journal(
        (JournalEntry("d" * 64, 0, state, remedy="reset"), JournalEntry("d" * 64, 1, DONE, step="clear:raw"))
    )

    assert (journal.state, journal.verb) == (state, STATES[state].verb)
    assert (journal.is_open, journal.is_unfinished) == (STATES[state].stops_stages, STATES[state].alone)


def test_no_entry_goes_where_the_table_has_no_way() -> None:
    for state, known in STATES.items():
        for other in (*STATES, DONE, UNDONE):
            if other in (*known.moves, DONE, UNDONE):
                check_move(state, other)
            else:
                with pytest.raises(ValueError, match=f"{state} cannot become {other}"):
                    check_move(state, other)
