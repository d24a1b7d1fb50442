"""What a stream has read since its remedy, by the present checkpoint and the former one: no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from surestart.errors import CannotTell
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.storage.open_storage import LocalStorage
from surestart.remedies.apply.undo_source import files_since, has_read_on
from tests.checkpoint.checkpoint_maker import delta, files, kafka, make_checkpoint


def listed(root: Path, source: str, **entries: list[str]) -> None:
    """Entries of a file source's list by their number, "2.compact" holding all before it."""
    folder = root / "sources" / source
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, paths in entries.items():
        number = int(name.lstrip("e").partition("_")[0])
        lines = [json.dumps({"path": path, "timestamp": 1, "batchId": number}, separators=(",", ":")) for path in paths]
        (folder / name.lstrip("e").replace("_", ".")).write_text("\n".join(["v1", *lines]))


def since(now: Path, former: Path) -> list[str]:
    return list(files_since(LocalStorage(str(now)), LocalStorage(str(former))))


def test_files_that_only_the_present_list_has_are_those_read_since(tmp_path: Path) -> None:
    now, former = tmp_path / "now", tmp_path / "former"
    listed(former, "0", e0=["file:///a"], e1=["file:///b"], e2=["file:///c"])
    # The batches after a rewind may take the files in another order, and other files under the same numbers.
    listed(now, "0", e1_compact=["file:///a", "file:///new"], e2=["file:///c", "file:///b"])
    assert since(now, former) == ["file:///new"]
    assert since(former, now) == []
    listed(now, "1", e0=["file:///other-source"])
    assert since(now, former) == ["file:///new", "file:///other-source"]


def test_a_list_that_cannot_be_read_is_no_empty_list(tmp_path: Path) -> None:
    now, former = tmp_path / "now", tmp_path / "former"
    for root in (now, former):
        listed(root, "0", e0=["file:///a"])
    (now / "sources/0/1").write_text("v1\n{torn")
    with pytest.raises(CannotTell, match="cannot be read"):
        since(now, former)


@pytest.mark.parametrize("position", [kafka, delta])
def test_a_stream_has_read_on_where_the_former_had_not_come_by(tmp_path: Path, position: Callable[[int], str]) -> None:
    for name, batches in (("former", 5), ("behind", 3), ("same", 5), ("ahead", 7)):
        make_checkpoint(tmp_path / name, planned=range(batches), committed=range(batches), source=position)
    former = read_checkpoint(str(tmp_path / "former"))
    found = {name: has_read_on(read_checkpoint(str(tmp_path / name)), former) for name in ("behind", "same", "ahead")}
    assert found == {"behind": False, "same": False, "ahead": True}


def test_the_entry_of_a_list_of_files_says_nothing_of_which_they_are(tmp_path: Path) -> None:
    for name, batches in (("former", 3), ("ahead", 7)):
        make_checkpoint(tmp_path / name, planned=range(batches), committed=range(batches), source=files)
    assert not has_read_on(read_checkpoint(str(tmp_path / "ahead")), read_checkpoint(str(tmp_path / "former")))
