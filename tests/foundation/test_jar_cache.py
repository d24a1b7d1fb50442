"""A folder of jars is in its place whole, whoever fills it meanwhile, and is not taken away to be filled again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from surestart.spark.jar_lock import STAMP, fill_folder


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def filled_with(text: str, folder: Path | None = None, seen: list[dict[str, str]] | None = None) -> Any:
    """seen: gets what lies in the folder's place while it is filled."""

    def fill(draft: Path) -> str:
        draft.mkdir()
        (draft / "a.jar").write_text(text)
        if folder is not None and seen is not None:
            seen.append(content(folder))
        return text

    return fill


def test_what_is_not_complete_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "half.jar").write_text("half")

    fill_folder(folder, filled_with("new"))

    assert content(folder) == {"a.jar": "new", STAMP: "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["jars"]


def test_who_comes_second_takes_what_the_first_has_put_there(tmp_path: Path) -> None:
    folder = tmp_path / "jars"

    def fill_while_another_does(draft: Path) -> str:
        fill_folder(tmp_path / "other", filled_with("first"))
        (tmp_path / "other").rename(folder)
        return filled_with("second")(draft)

    fill_folder(folder, fill_while_another_does)

    assert content(folder) == {"a.jar": "first", STAMP: "first"}


def test_filled_again_the_former_jars_stay_until_the_new_ones_are_there(tmp_path: Path) -> None:
    folder, seen = tmp_path / "jars", list[dict[str, str]]()
    fill_folder(folder, filled_with("former"))

    fill_folder(folder, filled_with("new", folder, seen), again=True)

    assert seen == [{"a.jar": "former", STAMP: "former"}]
    assert content(folder) == {"a.jar": "new", STAMP: "new"}


def test_a_download_that_fails_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    fill_folder(folder, filled_with("former"))

    def fail(draft: Path) -> str:
        draft.mkdir()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        fill_folder(folder, fail, again=True)

    assert content(folder) == {"a.jar": "former", STAMP: "former"}
    assert [path.name for path in tmp_path.iterdir()] == ["jars"]
