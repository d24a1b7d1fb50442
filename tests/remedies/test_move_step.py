"""The step that moves a checkpoint to another place, and back, without Spark: killed anywhere, at no moment empty."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import Manifest, read_manifest
from surestart.journal.journal import BEGUN, DONE, UNDOING, Journal, JournalEntry
from surestart.remedies.basis import change_place
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.durable import Signpost, put_up, read_signpost
from surestart.remedies.basis.plan import Plan, Step, environment_facts
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps import move
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.diagnosis.stage_values import QUERY_ID, write_checkpoint
from tests.remedies.move import dies_at, write_entries

APPLY = (
    "remedy.place.announced",
    "remedy.place.after_file:1",
    "remedy.place.after_file:3",
    "remedy.place.copied",
    "remedy.before_change",
    "remedy.place.before_exchange",
    "remedy.place.put_aside",
    "remedy.place.before_place",
    "remedy.place.placed",
    "remedy.place.after_place",
)
UNDO = APPLY[:-1]
# The steps before the old place is put aside.
EARLY = APPLY[:6]


class World:
    """A stream's checkpoint at `old`, which goes to `new`."""

    def __init__(self, folder: Path, name: str = "orders") -> None:
        self.old, self.new = folder / "old" / name, folder / "new" / name
        self.new.parent.mkdir(parents=True)
        write_checkpoint(self.old, planned=2, committed=1)
        (self.old / "state" / "0" / "empty").mkdir(parents=True)
        (self.old / "offsets" / "2").chmod(0o640)
        if os.geteuid() == 0:
            os.chown(self.old / "offsets" / "1", 12345, 12345)
        os.utime(self.old / "offsets" / "2", (1_700_000_000, 1_700_000_000))
        os.utime(self.old, (1_700_000_001, 1_700_000_001))
        self.before = tree(self.old)
        said = f"[stream.orders]\ncheckpoint = '{self.old}'\nsink = {{ kafka = 'x' }}\n"
        self.environment = environment_of_streams(parse_project_text(folder / "surestart.toml", said))
        streams = parse_project_text(folder / "surestart.toml", said).streams
        self.chain = read_chain(self.environment, pipeline_of_streams(streams).build_stages({}))
        arguments = {
            "from": str(self.old),
            "to": str(self.new),
            "manifest": read_manifest(self.old).digest,
            "query_id": QUERY_ID,
            "former": None,
        }
        self.step = Step("move:orders", "move", "move it", "orders", arguments)
        # Journaled by whoever runs the step, before the process that dies is forked.
        for state in (BEGUN, DONE, UNDOING):
            self.running(state)

    def running(self, state: str) -> StepContext:
        facts = environment_facts(self.environment)
        plan = Plan("move", "orders", "in-place", facts, 1, ("orders",), {"orders": {"query": "orders"}}, ())
        states = (BEGUN, DONE, UNDOING)
        entries = [
            JournalEntry(plan.digest, number, one, step=self.step.id if one == DONE else "", queries=("orders",))
            for number, one in enumerate(states[: states.index(state) + 1])
        ]
        write_entries(self.environment, entries)
        return StepContext(None, self.environment, self.chain, plan, Journal(tuple(entries)), print)  # type: ignore[arg-type]

    def apply(self) -> dict[str, Any]:
        return move.apply_step(self.running(BEGUN), self.step)

    def undo(self) -> dict[str, Any]:
        return move.undo_step(self.running(UNDOING), self.step)

    @property
    def way(self) -> change_place.PlaceChange:
        return move.way_of(self.running(BEGUN), self.step)

    def assert_moved(self) -> None:
        assert tree(self.new) == self.before
        assert read_signpost(self.old) == Signpost(str(self.new), QUERY_ID, self.way.digest)
        assert tree(self.way.aside) == self.before
        assert not (self.new.parent / move.SCRATCH).exists()

    def assert_never_empty(self) -> None:
        """What a start with plain Spark finds at either place."""
        for place in (self.old, self.new):
            assert place.is_file() or (place / "metadata").is_file(), place


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def tree(folder: Path) -> dict[str, Any]:
    """Everything in it that can be seen: bytes, empty folders, modes and times."""
    found = {"": (folder.stat().st_mode, folder.stat().st_uid, folder.stat().st_mtime_ns, None)}
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else None
        seen = path.stat()
        found[str(path.relative_to(folder))] = (seen.st_mode, seen.st_uid, seen.st_mtime_ns, content)
    return found


@pytest.mark.parametrize("point", APPLY)
def test_a_move_that_died_goes_on(world: World, point: str) -> None:
    dies_at(point, world.apply)
    world.assert_never_empty()
    world.apply()
    world.assert_moved()
    world.apply()
    world.assert_moved()


@pytest.mark.parametrize("point", APPLY)
def test_a_move_that_died_can_be_undone_instead(world: World, point: str) -> None:
    dies_at(point, world.apply)
    move.undo_step(world.running(UNDOING), world.step)
    assert tree(world.old) == world.before
    assert not world.new.is_dir()
    assert not world.way.aside.exists()
    assert [path.name for path in world.old.parent.iterdir()] == ["orders"]
    world.undo()
    assert tree(world.old) == world.before


@pytest.mark.parametrize("point", UNDO)
def test_an_undo_that_died_goes_on_and_takes_along_what_was_written_since(world: World, point: str) -> None:
    world.apply()
    (world.new / "commits" / "2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    since = tree(world.new)
    dies_at(point, world.undo)
    world.assert_never_empty()
    move.check_moved(world.running(UNDOING), world.step)
    world.undo()
    assert tree(world.old) == since
    assert read_signpost(world.new) == Signpost(str(world.old), QUERY_ID, world.way.digest)
    assert [path.name for path in world.old.parent.iterdir()] == ["orders"]
    assert [path.name for path in world.new.parent.iterdir()] == ["orders"]


@pytest.mark.parametrize("point", ["remedy.place.put_aside", "remedy.place.placed"])
def test_where_two_names_cannot_be_exchanged_they_are_removed_and_renamed(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(change_place, "exchange", lambda one, other: False)
    dies_at(point, world.apply)
    world.apply()
    world.assert_moved()
    dies_at(point, world.undo)
    world.undo()
    assert tree(world.old) == world.before


def test_the_doctor_calls_the_moved_one_what_it_called_it_before(world: World) -> None:
    def said(place: Path) -> list[tuple[str, str]]:
        return [(one.code, one.severity.value) for one in inspect_checkpoint(str(place), sinks=("none",)).findings]

    before = said(world.old)
    world.apply()
    assert said(world.new) == before
    left = inspect_checkpoint(str(world.old), sinks=("none",))
    assert left.verdict is Verdict.UNSAFE
    assert any(f"was moved to {world.new}" in one.evidence for one in left.findings)


def test_a_batch_that_is_written_while_it_is_copied_stays_where_it_is(world: World) -> None:
    """A query that nobody has stopped: its checkpoint is at its place again, with what it wrote."""
    run = world.running(BEGUN)

    def writes() -> None:
        (world.old / "offsets" / "3").write_text("a batch")

    with pytest.raises(Refused) as said:
        change_place.change_place(world.way, str(world.step.arguments["manifest"]), writes, run.say)
    assert said.value.code == "CheckpointDiffers"
    assert (world.old / "offsets" / "3").read_text() == "a batch"
    world.undo()
    assert [path.name for path in world.old.parent.iterdir()] == ["orders"]
    assert not world.new.exists()


def test_what_was_written_since_the_plan_is_refused(world: World) -> None:
    (world.old / "offsets" / "3").write_text("a batch")
    with pytest.raises(Refused) as said:
        world.apply()
    assert said.value.code == "CheckpointDiffers"
    world.undo()
    assert (world.old / "offsets" / "3").exists()
    assert not world.new.exists()


def test_nothing_is_written_over(world: World) -> None:
    world.new.mkdir()
    with pytest.raises(Refused) as said:
        world.apply()
    assert said.value.code == "PlaceNotFree"
    assert tree(world.old) == world.before
    assert list(world.new.iterdir()) == []


def test_a_moved_one_that_is_gone_is_not_replaced_by_the_older_one(world: World) -> None:
    world.apply()
    world.new.rename(world.new.with_name("taken"))
    with pytest.raises(Refused) as said:
        move.check_moved(world.running(UNDOING), world.step)
    assert said.value.code == "UndoTooLate"


def test_back_and_forth_each_signpost_gives_way_to_its_own_checkpoint(world: World) -> None:
    world.apply()
    world.undo()
    world.apply()
    world.assert_moved()


def test_a_signpost_of_another_stream_does_not_give_way(world: World) -> None:
    put_up(world.new, Signpost("/elsewhere", "another", "digest"))
    with pytest.raises(Refused):
        world.apply()
    assert read_signpost(world.new) == Signpost("/elsewhere", "another", "digest")


def test_a_copy_is_compared_with_what_was_planned_and_with_what_is_put_aside(world: World) -> None:
    manifest: Manifest = read_manifest(world.old)
    world.apply()
    assert read_manifest(world.new) == manifest
    assert json.loads((world.new / "metadata").read_text())["id"] == QUERY_ID


def test_names_may_be_as_long_as_any(tmp_path: Path) -> None:
    world = World(tmp_path, "o" * 255)
    world.apply()
    world.assert_moved()
    world.undo()
    assert tree(world.old) == world.before


def test_a_link_in_the_place_of_the_folder_for_what_is_put_aside_stays(world: World, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (world.old.parent / "_retired").symlink_to(tmp_path / "elsewhere")
    world.apply()
    world.undo()
    assert tree(world.old) == world.before
    assert (world.old.parent / "_retired").is_symlink()
