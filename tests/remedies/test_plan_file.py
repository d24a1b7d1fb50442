"""What is given to `apply` as a plan may be any file."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.errors import UsageError
from surestart.remedies.basis.plan import MOST_TEXT, read_plan


def test_a_file_without_end_is_no_plan(tmp_path: Path) -> None:
    """Read whole, /dev/zero took the memory of the machine."""
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(MOST_TEXT + 1)
    with pytest.raises(UsageError, match="more than 16 MB"):
        read_plan(str(path))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "[" * 100_000, '{"schema_version":1}', "\0", "9" * 5_000])
def test_a_text_that_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_plan(str(path))
