"""The folder of a fork, without Spark: opened for one plan, dropped whole, and nothing of anybody else's with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from surestart.errors import Refused
from surestart.history.claim_file import take_claim
from surestart.remedies.basis.fork_folder import drop_folder, open_folder
from tests.remedies.move import dies_at

DIGEST = "ab" * 32
NOTE: dict[str, Any] = {"digest": DIGEST, "stage": "orders", "query": "orders", "tables": ["t"]}


def made(folder: Path) -> Path:
    place = folder / "fork"
    open_folder(place, NOTE)
    for path in ("tables/t/_delta_log/0.json", "checkpoints/orders/metadata", "surestart.toml", ".surestart/streams/x"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text("made")
    return place


def test_a_fork_is_dropped_and_nothing_beside_it(tmp_path: Path) -> None:
    place, beside = made(tmp_path), tmp_path / "fork2"
    beside.write_text("somebody's")
    assert drop_folder(place, DIGEST)
    assert [path.name for path in tmp_path.iterdir()] == ["fork2"]
    assert not drop_folder(place, DIGEST)


def test_the_name_of_a_fork_may_be_as_long_as_any(tmp_path: Path) -> None:
    place = tmp_path / ("f" * 255)
    open_folder(place, NOTE)
    assert drop_folder(place, DIGEST)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("point", ["remedy.fork.before_drop", "remedy.fork.after_rename"])
def test_a_drop_that_died_is_done_again(tmp_path: Path, point: str) -> None:
    place = made(tmp_path)
    dies_at(point, lambda: drop_folder(place, DIGEST))
    assert drop_folder(place, DIGEST)
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_has_put_there_since_the_drop_stays(tmp_path: Path) -> None:
    place = made(tmp_path)
    dies_at("remedy.fork.after_rename", lambda: drop_folder(place, DIGEST))
    place.mkdir()
    (place / "mine").write_text("somebody's")
    drop_folder(place, DIGEST)
    assert (place / "mine").read_text() == "somebody's"
    assert [path.name for path in tmp_path.iterdir()] == ["fork"]


@pytest.mark.parametrize(
    "stray", ["notes.txt", "tables/other/x", "checkpoints/other/metadata", "checkpoints/_retired/x"]
)
def test_what_the_fork_did_not_make_keeps_it_from_being_dropped(tmp_path: Path, stray: str) -> None:
    place = made(tmp_path)
    (place / stray).parent.mkdir(parents=True, exist_ok=True)
    (place / stray).write_text("somebody's")
    with pytest.raises(Refused) as said:
        drop_folder(place, DIGEST)
    assert said.value.code == "ForkHoldsOthers"
    assert (place / stray).read_text() == "somebody's"
    assert (place / "surestart.toml").exists()


def test_a_fork_that_runs_is_not_dropped(tmp_path: Path) -> None:
    place = made(tmp_path)
    held = take_claim(place / "claims" / "orders.lock")
    assert held is not None
    with pytest.raises(Refused) as said:
        drop_folder(place, DIGEST)
    assert said.value.code == "OWNER_RUNNING"
    held.release(clear=True)
    assert drop_folder(place, DIGEST)


def test_a_folder_of_somebody_else_is_not_opened(tmp_path: Path) -> None:
    place = tmp_path / "fork"
    place.mkdir()
    open_folder(place, NOTE)
    open_folder(place, NOTE)
    for note in ({**NOTE, "digest": "cd" * 32}, {"else": 1}):
        (place / "fork.json").write_text(json.dumps(note))
        with pytest.raises(Refused) as said:
            open_folder(place, NOTE)
        assert said.value.code == "PlaceNotFree"
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused):
        open_folder(tmp_path / "link", NOTE)
