"""What somebody has named with -o or --html: whole or not there, never half, and never in the place of a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surestart.errors import UsageError
from surestart.report.named_file import write_named_file

MEANING = "Nothing was changed."


def test_it_is_written_whole_and_replaces_an_older_one(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for text in ("one", "two"):
        write_named_file(str(file), text, "the plan", MEANING)
        assert file.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_link_stays_one_and_a_name_may_be_as_long_as_any(tmp_path: Path) -> None:
    kept, link = tmp_path / ("k" * 255), tmp_path / "plan.json"
    link.symlink_to(kept.name)

    write_named_file(str(link), "text", "the plan", MEANING)

    assert link.is_symlink()
    assert kept.read_text() == "text"


def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_named_file(str(pipe), "text", "the plan", MEANING)
    assert os.read(reader, 10) == b"text"
    assert pipe.is_fifo()
    os.close(reader)


@pytest.mark.parametrize("place", ["/dev/full", "/proc/self/plan.json", "folder"])
def test_where_nothing_can_be_written_it_is_said_and_nothing_is_left(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as said:
        write_named_file(str(tmp_path / place), "text", "the plan", MEANING)

    assert "the plan cannot be written to" in said.value.what
    assert str(said.value.next).startswith("df -h ")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
