"""The step that puts another checkpoint in the place of the one in use, without Spark.

Killed anywhere, it goes on or is undone; and nothing is put in place that the doctor does not call safe."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import Manifest, read_manifest
from surestart.facts.delta.commit import CommitMark
from surestart.facts.delta.commit_notes import MARKER, REWIND, note_of
from surestart.journal.commit_once import PassOverNote
from surestart.journal.journal import BEGUN, DONE, Journal, JournalEntry
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.cut_checkpoint import SCRATCH
from surestart.remedies.basis.move_aside import retired_folder
from surestart.remedies.basis.plan import Plan, Step, environment_facts
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps import rewind
from tests.deltalog.handmade import add, create, info, remove, txn, write_commit
from tests.remedies.move import dies_at, write_entries

STAGE, QUERY = "raw-ingest", "sensor-raw-ingest"
OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
LAST, BATCH = 3, 1
NOW = int(time.time() * 1000) - 60_000


def fill(environment: Environment) -> Manifest:
    """A checkpoint of four batches, and the table that they have written."""
    place = Path(environment.checkpoint(STAGE))
    Path(environment.landing).mkdir(parents=True)
    for folder in ("offsets", "commits", "sources/0"):
        (place / folder).mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": OLD}))
    for batch in range(LAST + 1):
        times = {"batchWatermarkMs": 0, "batchTimestampMs": NOW + batch, "conf": {}}
        (place / "offsets" / str(batch)).write_text(f'v1\n{json.dumps(times)}\n{{"logOffset":{batch}}}')
        (place / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        listed = {"path": f"file://{environment.landing}/{batch}", "timestamp": batch, "batchId": batch}
        (place / "sources/0" / str(batch)).write_text(f"v1\n{json.dumps(listed)}")
    table = Path(environment.table("sensor_raw").path)
    write_commit(table, 0, *create())
    for batch in range(LAST + 1):
        write_commit(table, batch + 1, written(OLD, batch), txn(OLD, batch, NOW), add(f"{batch}.parquet"))
    return read_manifest(place)


def written(query_id: str, batch: int, more: str = "{}") -> dict[str, Any]:
    note = json.loads(CommitMark(QUERY, query_id, batch, STAGE).as_json()) | json.loads(more)
    return info("WRITE", userMetadata=json.dumps(note), timestamp=NOW + batch)


def restore(environment: Environment, digest: str) -> None:
    """What the step before it has done: the table is at batch 1, and knows the new id."""
    table, name = Path(environment.table("sensor_raw").path), "restore:sensor_raw"
    mark = note_of(digest, f"{MARKER}{REWIND}{name}", BATCH + 1)
    write_commit(table, 5, info("WRITE", userMetadata=mark, timestamp=NOW), add("nulls.parquet", 1))
    parameters = {"version": str(BATCH + 1)}
    gone = [remove(f"{one}.parquet") for one in ("nulls", *range(BATCH + 1, LAST + 1))]
    write_commit(table, 6, info("RESTORE", operationParameters=parameters, timestamp=NOW), *gone)
    write_commit(table, 7, written(NEW, BATCH, note_of(digest, f"pair:{name}")), txn(NEW, BATCH, NOW))


def step(before: Manifest) -> Step:
    arguments = {"manifest": before.digest, "batch": BATCH, "query_id": NEW, "former": OLD, "findings": []}
    return Step(f"rewind:{STAGE}", "rewind", "put another in its place", STAGE, arguments)


def running(environment: Environment, *, journaled: bool = False) -> StepContext:
    plan = Plan("rewind", STAGE, "in-place", environment_facts(environment), 1, (STAGE,), {}, ())
    first = JournalEntry(plan.digest, 0, BEGUN, remedy="rewind", stage=STAGE, queries=(QUERY,))
    entries = [first] + [JournalEntry(plan.digest, 1, DONE, step=f"rewind:{STAGE}")] * journaled
    write_entries(environment, entries)
    chain = read_chain(environment, build_stages({}))
    return StepContext(None, environment, chain, plan, Journal(tuple(entries)), print)  # type: ignore[arg-type]


def there(environment: Environment) -> tuple[Path, Path]:
    """The checkpoint's place, and where the former one is put."""
    run = running(environment)
    return Path(environment.checkpoint(STAGE)), retired_folder(environment, QUERY, run.digest)


@pytest.fixture
def stood(environment: Environment) -> tuple[Environment, Manifest]:
    before = fill(environment)
    restore(environment, running(environment).digest)
    return environment, before


def assert_rewound(environment: Environment, before: Manifest) -> None:
    here, aside = there(environment)
    assert read_manifest(aside) == before
    assert json.loads((here / "metadata").read_text()) == {"id": NEW}
    found = read_manifest(here)
    assert sorted(name for name in found.files if name.startswith("offsets")) == ["offsets/0", "offsets/1"]
    assert all(found.files[name] == before.files[name] for name in found.files if name != "metadata")
    assert not (here.parent / SCRATCH).exists()


PLACES = [
    "remedy.rewind.after_file:1",
    "remedy.rewind.after_file:5",
    "remedy.rewind.written",
    "remedy.move.after_file:3",
    "remedy.move.before_removal",
    "remedy.before_change",
    "remedy.remove.after_rename",
    "remedy.rewind.moved_aside",
    "remedy.rewind.placing",
    "remedy.rewind.placed",
    "remedy.rewind.after_place",
]


@pytest.mark.parametrize("point", PLACES)
def test_a_rewind_that_died_is_done_again(stood: tuple[Environment, Manifest], point: str) -> None:
    environment, before = stood
    dies_at(point, lambda: rewind.apply_step(running(environment), step(before)))
    facts = rewind.apply_step(running(environment), step(before))
    assert (facts["query_id"], facts["former"], facts["batch"]) == (NEW, OLD, BATCH)
    assert_rewound(environment, before)
    assert rewind.apply_step(running(environment), step(before)) == facts
    assert_rewound(environment, before)


@pytest.mark.parametrize("point", PLACES)
def test_a_rewind_that_died_can_be_undone_instead(stood: tuple[Environment, Manifest], point: str) -> None:
    environment, before = stood
    here, aside = there(environment)
    dies_at(point, lambda: rewind.apply_step(running(environment), step(before)))
    rewind.undo_step(running(environment), step(before))
    assert read_manifest(here) == before
    assert not aside.exists()
    assert not (here.parent / SCRATCH).exists()


@pytest.mark.parametrize("point", ["remedy.move.after_file:2", "remedy.before_change", "remedy.restore.after_file:2"])
def test_an_undo_that_died_is_done_again(stood: tuple[Environment, Manifest], point: str) -> None:
    environment, before = stood
    here, _ = there(environment)
    rewind.apply_step(running(environment), step(before))
    (here / "offsets" / "2").write_text("written since")
    dies_at(point, lambda: rewind.undo_step(running(environment, journaled=True), step(before)))
    rewind.undo_step(running(environment, journaled=True), step(before))
    assert read_manifest(here) == before


def test_where_nothing_can_be_renamed_it_is_copied(
    stood: tuple[Environment, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, before = stood

    def refuse(self: Path, target: object) -> None:
        raise OSError("not offered here")

    monkeypatch.setattr(Path, "rename", refuse)
    point = "remedy.rewind.after_placed_file:2"
    dies_at(point, lambda: rewind.apply_step(running(environment), step(before)))
    rewind.apply_step(running(environment), step(before))
    assert_rewound(environment, before)


def test_a_cut_that_the_doctor_does_not_call_safe_is_not_put_in_place(environment: Environment) -> None:
    """The table was not restored: under the new id its batches would be written again."""
    before = fill(environment)
    here, aside = there(environment)
    with pytest.raises(Refused) as said:
        rewind.apply_step(running(environment), step(before))
    assert said.value.code == "CutNotSafe"
    assert read_manifest(here) == before
    assert not aside.exists()


def test_what_was_written_since_the_plan_is_refused(stood: tuple[Environment, Manifest]) -> None:
    environment, before = stood
    here, aside = there(environment)
    (here / "offsets" / "4").write_text("a batch")
    with pytest.raises(Refused) as said:
        rewind.apply_step(running(environment), step(before))
    assert said.value.code == "CheckpointDiffers"
    assert (here / "offsets" / "4").exists()
    assert not aside.exists()


def test_what_a_stream_passes_over_it_passes_over_under_its_new_id() -> None:
    one = PassOverNote("d", "clear:sensor_raw", OLD)
    journal = Journal((JournalEntry("d", 0, BEGUN),), (one, PassOverNote("d", "clear:sensor_raw", "another")))
    assert list(rewind.inherited([journal], OLD, NEW)) == [PassOverNote("d", "clear:sensor_raw", NEW)]


def test_the_streams_own_user_may_write_as_before(environment: Environment) -> None:
    """Whoever applies a plan is often another one: a copy of theirs alone would end the stream."""
    fill(environment)
    here, _ = there(environment)
    for path in (here, *here.rglob("*")):
        path.chmod(0o770 if path.is_dir() else 0o660)
        if os.geteuid() == 0:
            os.chown(path, 12345, 12346)
    before = read_manifest(here)
    restore(environment, running(environment).digest)
    rewind.apply_step(running(environment), step(before))
    assert json.loads((here / "metadata").read_text()) == {"id": NEW}
    rewound = rights(here)
    rewind.undo_step(running(environment, journaled=True), step(before))
    assert read_manifest(here) == before
    users = {(12345, 12346) if os.geteuid() == 0 else (os.geteuid(), os.getegid())}
    assert rewound == rights(here) == {(kind, *user) for kind in (0o40770, 0o100660) for user in users}


def rights(folder: Path) -> set[tuple[int, int, int]]:
    found = [path.stat() for path in (folder, *folder.rglob("*"))]
    return {(one.st_mode, one.st_uid, one.st_gid) for one in found}
