"""Every checkpoint below a root is found, and every place that could not be looked into is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surestart.facts.checkpoint import find_checkpoints as module
from surestart.facts.checkpoint.find_checkpoints import find_checkpoints
from surestart.facts.storage import kernel_folders
from surestart.facts.storage.open_storage import open_unbounded
from tests.checkpoint.checkpoint_maker import make_checkpoint
from tests.deltalog.handmade import create, write_commit


def found(root: Path, **limits: int) -> dict[str, str]:
    """path -> "" for a checkpoint, else the problem."""
    return {place.path: place.problem for place in find_checkpoints(open_unbounded(str(root)), **limits)}


def make(folder: Path) -> Path:
    make_checkpoint(folder)
    return folder


def test_checkpoints_are_found_at_any_depth_and_in_tables_and_nothing_else_is_one(tmp_path: Path) -> None:
    for name in ("a", "team/b", "table/_checkpoints/c", "d/e/f/g"):
        make(tmp_path / name)
    write_commit(tmp_path / "table", 0, *create())
    (tmp_path / "table/day=1").mkdir()
    (tmp_path / "iceberg/metadata").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/metadata").write_text("no JSON")
    (tmp_path / "code/state/machine").mkdir(parents=True)
    (tmp_path / "code/commits/0af3").mkdir(parents=True)

    assert found(tmp_path) == dict.fromkeys(["a", "team/b", "table/_checkpoints/c", "d/e/f/g"], "")


def test_a_checkpoint_in_a_tables_folder_is_found_though_its_name_looks_like_a_partition(tmp_path: Path) -> None:
    write_commit(tmp_path / "t", 0, *create())
    for name in ("ck=orders", "ck=sales", "region=eu/day=1", "region=us/inner"):
        (tmp_path / "t" / name).mkdir(parents=True)
    for name in ("ck=orders", "ck=sales", "region=us/inner"):
        make(tmp_path / "t" / name)
    for day in range(9):
        make(tmp_path / f"t/day={day}")
    listed: list[None] = []

    places = find_checkpoints(open_unbounded(str(tmp_path)), heard=lambda: listed.append(None))

    # Nothing below what may be a partition, and of nine of one name nothing.
    assert [place.path for place in places] == ["t/ck=orders", "t/ck=sales"]
    assert len(listed) == 6


def test_the_root_itself_may_be_one_and_one_may_lie_inside_another(tmp_path: Path) -> None:
    make(tmp_path)
    make(tmp_path / "inner")

    places = list(find_checkpoints(open_unbounded(str(tmp_path))))

    assert [(place.path, place.inside) for place in places] == [("", None), ("inner", "")]


@pytest.mark.parametrize("left", ["offsets", "commits", "metadata", "sources"])
def test_what_a_hand_has_left_of_one_is_found(tmp_path: Path, left: str) -> None:
    make(tmp_path / "whole")
    target = tmp_path / "ruin"
    target.mkdir()
    (tmp_path / "whole" / left).rename(target / left)

    assert found(tmp_path) == {"ruin": "", "whole": ""}


def test_links_are_not_followed_and_one_that_leads_out_is_said(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(root / "real")
    make(tmp_path / "outside")
    (root / "again").symlink_to(root / "real")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "nowhere").symlink_to(tmp_path / "gone")
    os.mkfifo(root / "pipe")

    said = "a link that leads out of the root, or to nothing"
    assert found(root) == {"real": "", "out": said, "nowhere": said}


def test_of_many_links_that_lead_out_a_few_are_named_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINKS", 2)
    make(tmp_path / "root/a")
    for number in range(5):
        (tmp_path / f"root/a/out{number}").symlink_to(tmp_path / "gone")

    assert sorted(found(tmp_path / "root")) == ["a", "a/out0", "a/out1"]
    problems = [place.problem for place in find_checkpoints(open_unbounded(str(tmp_path / "root")))]
    assert "3 more links lead out of the root, or to nothing" in problems


def test_what_the_kernel_makes_up_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a")
    make(tmp_path / "made up/b")
    make(tmp_path / "kept/c")
    mounts = tmp_path / "mountinfo"
    made_up = str(tmp_path / "made up").replace(" ", "\\040")
    mounts.write_text(
        f"1 1 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {made_up} rw,relatime shared:5 - proc proc rw\n"
        f"3 1 0:3 / {tmp_path}/kept rw - tmpfs tmpfs rw\n"
    )
    monkeypatch.setattr(kernel_folders, "_MOUNTS", str(mounts))

    assert found(tmp_path) == {"a": "", "kept/c": ""}
    (only,) = found(tmp_path / "made up").items()
    assert only == ("", "the kernel makes up what is here (proc): nobody keeps a checkpoint in it")
    assert list(found(tmp_path / "made up/b")) == [""]


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="no Linux")
def test_proc_is_answered_at_once() -> None:
    heard: list[None] = []
    (only,) = find_checkpoints(open_unbounded("/proc"), heard=lambda: heard.append(None))
    assert "kernel" in only.problem
    assert heard == []


def test_a_folder_that_refuses_is_named_and_the_others_are_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a")
    make(tmp_path / "refused/b")
    make(tmp_path / "z")
    whole = module._list

    def refuse(storage: object, path: str) -> object:
        if path == "refused":
            raise PermissionError("not yours")
        return whole(storage, path)  # type: ignore[arg-type]

    # Who runs the tests may read everything.
    monkeypatch.setattr(module, "_list", refuse)

    assert found(tmp_path) == {"a": "", "refused": "PermissionError: not yours", "z": ""}


def test_where_the_listings_end_is_said(tmp_path: Path) -> None:
    for number in range(5):
        make(tmp_path / f"c{number}")

    places = found(tmp_path, listings=3)

    assert [place for place, problem in places.items() if not problem] == ["c0", "c1"]
    assert "3 folders were not looked into" in places["c2"]


def test_folders_too_deep_are_said(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["x"] * (module.DEPTH + 2))
    make(deep)

    (problem,) = found(tmp_path).values()

    assert f"more than {module.DEPTH} folders deep" in problem


def test_names_that_hide_are_names_like_others(tmp_path: Path) -> None:
    names = ["a\nb", "‮txt", "$(reboot)", "`id`", "-rf", "a b", os.fsdecode(b"\xff\xfe")]
    for name in names:
        make(tmp_path / name)

    assert found(tmp_path) == dict.fromkeys(names, "")


def test_a_root_that_is_not_there_is_no_empty_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        found(tmp_path / "missing")
