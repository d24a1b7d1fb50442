"""Which file declares a stream: a file that says nothing of it never hides one that does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from surestart.errors import UsageError
from surestart.guarding.declared import find_declared


def declare(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "surestart.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the script that is running; one works in another."""
    (tmp_path / "work").mkdir()
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "code" / "job.py"), raising=False)
    return tmp_path / "code"


def test_the_scripts_file_is_found_behind_one_that_names_a_pipeline_only(tmp_path: Path, script: Path) -> None:
    declare(tmp_path / "work", 'pipeline = "a.b:C"')
    path = declare(script, '[stream.orders]\ncheckpoint = "/c/orders"')
    found = find_declared("orders")
    assert (found.stream.checkpoint, found.in_file) == ("/c/orders", True)
    assert found.environment.typed == ("--streams", str(path))


def test_two_files_that_do_not_agree_are_not_chosen_from(tmp_path: Path, script: Path) -> None:
    declare(tmp_path / "work", '[stream.orders]\ncheckpoint = "/c/one"')
    declare(script, '[stream.orders]\ncheckpoint = "/c/two"')
    with pytest.raises(UsageError, match="declared differently"):
        find_declared("orders")


def test_an_unknown_name_says_what_each_file_declares(tmp_path: Path, script: Path) -> None:
    declare(tmp_path / "work", '[stream.a]\ncheckpoint = "/c/a"')
    declare(script, '[stream.b]\ncheckpoint = "/c/b"')
    with pytest.raises(UsageError, match=r"declares a; .* declares b"):
        find_declared("orders")
