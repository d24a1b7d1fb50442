"""The typist types what is printed, answers what is asked, and knows a circle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nights.typist import NightTooLong, mend, type_in

ASKS = "read -p 'Type local/sensor to go on: ' word; echo \"got $word\"; echo 'Next: echo done'"


def script(place: Path, name: str, *lines: str) -> None:
    path = place / name
    path.write_text("\n".join(("#!/bin/bash", *lines)) + "\n")
    path.chmod(0o755)


def test_a_question_is_answered_with_the_word_that_it_names(tmp_path: Path) -> None:
    typed = type_in(tmp_path, ASKS)
    assert "got local/sensor" in typed.screen
    assert typed.next == "echo done"


def test_commands_are_typed_as_printed_until_the_count_is_exact(tmp_path: Path) -> None:
    script(tmp_path, "one", "echo 'Next: ./two \"a b\"  # or another'", "exit 3")
    script(tmp_path, "two", '[ "$1" = "a b" ] || exit 9', "echo 'EXACT        lost 0, duplicated 0 in 3 counts.'")
    typed = mend(tmp_path, [], "./one")
    assert [one.command for one in typed] == ["./one", './two "a b"  # or another']


def test_an_exact_count_of_a_command_that_failed_ends_no_night(tmp_path: Path) -> None:
    script(tmp_path, "one", "echo 'EXACT        lost 0, duplicated 0 in 3 counts.'", "exit 1")
    with pytest.raises(NightTooLong, match="no next command"):
        mend(tmp_path, [], "./one")


def test_a_circle_and_too_many_commands_are_told(tmp_path: Path) -> None:
    script(tmp_path, "round", "echo 'Next: ./round'")
    with pytest.raises(NightTooLong, match="a circle"):
        mend(tmp_path, [], "./round")
    script(tmp_path, "more", 'echo "Next: ./more $1x"')
    with pytest.raises(NightTooLong, match="more than 5 commands"):
        mend(tmp_path, [], "./more")
