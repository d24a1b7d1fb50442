"""The plan of a rewind, from checkpoints and logs that were written by hand: rows and losses are counted by Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.delta.commit import CommitMark
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan, Step
from surestart.remedies.loss.loss import Loss
from surestart.remedies.planning import plan_rewind as planning
from surestart.remedies.planning import rewind_back
from surestart.remedies.planning.plan_rewind import plan_rewind
from surestart.remedies.planning.rewind_choice import RewindTo
from surestart.remedies.planning.wanted import Request
from tests.deltalog.handmade import add, create, info, txn, write_commit
from tests.remedies.test_rewind_step import NOW, OLD, fill

READER = "33333333-3333-4333-8333-333333333333"
QUARANTINE, GOOD = "sensor_quarantine", "sensor_readings_deserialized"


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only Spark can count: every row has a position, and comes again."""
    monkeypatch.setattr(planning, "find_rewind_loss", lambda *given: Loss())
    for module in (planning, rewind_back):
        monkeypatch.setattr(module, "counts_by_position", lambda *given: True)


@pytest.fixture
def stood(environment: Environment) -> Environment:
    """Four batches of raw-ingest, and three of deserialize: of its batches 0 to 2, 3 alone, and 4."""
    fill(environment)
    raw = Path(environment.table("sensor_raw").path)
    for batch in range(4):
        (raw / f"{batch}.parquet").write_bytes(b"x" * 100)
        (Path(environment.landing) / str(batch)).write_text("{}")
    place = Path(environment.checkpoint("deserialize"))
    for folder in ("offsets", "commits"):
        (place / folder).mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": READER}))
    for batch, end in enumerate((3, 4, 5)):
        position = {"sourceVersion": 1, "reservoirId": "T", "reservoirVersion": end, "index": -1}
        position["isStartingVersion"] = False
        times = {"batchWatermarkMs": 0, "batchTimestampMs": NOW + batch, "conf": {}}
        (place / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(times)}\n{json.dumps(position)}")
        (place / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for name in (QUARANTINE, GOOD):
        table = Path(environment.table(name).path)
        write_commit(table, 0, *create())
        for batch in range(3):
            note = CommitMark("sensor-deserialize", READER, batch, "deserialize").as_json()
            said = info("WRITE", userMetadata=note, timestamp=NOW + batch)
            write_commit(table, batch + 1, said, txn(READER, batch, NOW), add(f"{batch}.parquet", 4))
            (table / f"{batch}.parquet").write_bytes(b"x" * 100)
    return environment


def planned(environment: Environment, batch: int | None = None, *, time: int | None = None, stage: str = "") -> Plan:
    chain = read_chain(environment, build_stages({}))
    request = Request(settings={}, run=False)
    spark: Any = None
    return plan_rewind(spark, environment, chain, stage or "raw-ingest", RewindTo(batch, time), request)


def step(plan: Plan, name: str) -> Step:
    return next(one for one in plan.steps if one.id == name)


def test_tables_go_back_from_the_last_to_the_first_then_the_checkpoints(stood: Environment) -> None:
    plan = planned(stood, 2)
    assert [one.id for one in plan.steps] == [
        f"restore:{QUARANTINE}",
        f"restore:{GOOD}",
        "restore:sensor_raw",
        "rewind:deserialize",
        "rewind:raw-ingest",
        "start",
    ]
    assert plan.touched == ("raw-ingest", "deserialize", "merge-gold")
    raw, good = step(plan, "restore:sensor_raw").arguments, step(plan, f"restore:{GOOD}").arguments
    assert (raw["version"], raw["to"], raw["batch"]) == (4, 3, 2)
    # It has read versions 1 to 3 by its batch 1, and version 4 by its batch 2.
    assert (good["version"], good["to"], good["batch"]) == (3, 2, 1)
    rewound = step(plan, "rewind:raw-ingest").arguments
    assert (rewound["former"], rewound["query_id"]) == (OLD, raw["query_id"])
    assert raw["query_id"] not in (good["query_id"], OLD)
    assert step(plan, "start").arguments["starts"] == {
        "raw-ingest": {"as_before": True},
        "deserialize": {"as_before": True},
    }


def test_a_stage_below_that_has_read_it_all_by_its_first_batch_begins_anew(stood: Environment) -> None:
    plan = planned(stood, 0)
    assert step(plan, "restore:sensor_raw").arguments["to"] == 1
    assert (step(plan, f"restore:{GOOD}").arguments["to"], step(plan, f"restore:{GOOD}").arguments["batch"]) == (0, -1)
    assert [one.id for one in plan.steps if one.stage == "deserialize"][-1] == "retire:deserialize"


def test_a_plan_says_what_is_taken_back_and_how_far_one_could_go(stood: Environment) -> None:
    said = " ".join(planned(stood, 2).statements)
    assert "raw-ingest goes back to batch 2; batch 3 is taken back: 10 rows of sensor_raw (version 3 of 4)." in said
    assert "deserialize goes back to batch 1; batch 2 is taken back: 4 rows of" in said
    assert "sensor-merge-gold has no batch yet: it stays as it is." in said
    assert "How far back raw-ingest can go: from the first batch on" in said
    assert "Every row that is taken back comes again." in said


def test_nothing_is_written_by_planning(stood: Environment) -> None:
    def all_bytes() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in Path(stood.root).rglob("*") if path.is_file()}

    before = all_bytes()
    planned(stood, 1)
    assert all_bytes() == before


def refused(environment: Environment, batch: int | None, **given: Any) -> SurestartError:
    with pytest.raises((Refused, CannotTell, SurestartError)) as said:
        planned(environment, batch, **given)
    return said.value


@pytest.mark.parametrize(
    ("batch", "why"),
    [(3, "is at batch 3 already"), (9, "has no batch 9 yet"), (-2, "cannot go back to batch -2")],
)
def test_another_batch_is_refused_with_those_that_are_possible(stood: Environment, batch: int, why: str) -> None:
    error = refused(stood, batch)
    assert error.code == "BatchNotPossible"
    assert why in error.what
    assert "batches 0 to 2 are possible" in error.what
    assert "plan rewind raw-ingest --to-batch 2" in str(error.next)


def test_what_is_not_kept_is_named_as_the_bound(stood: Environment) -> None:
    for log in ("offsets", "commits"):
        (Path(stood.checkpoint("raw-ingest")) / log / "0").unlink()
    error = refused(stood, 1)
    assert "batches 2 to 2 are possible (bounded by its offsets" in error.what


def test_a_batch_in_flight_may_be_taken_back_alone(stood: Environment) -> None:
    (Path(stood.checkpoint("raw-ingest")) / "commits" / "3").unlink()
    plan = planned(stood, 2)
    assert "batch 3 is taken back" in plan.statements[0]
    assert planned(stood, 2).steps


def test_the_time_is_that_at_which_the_table_held_a_batch(stood: Environment) -> None:
    assert step(planned(stood, time=NOW + 1), "restore:sensor_raw").arguments["batch"] == 1
    before, after = refused(stood, None, time=NOW - 1), refused(stood, None, time=NOW + 999)
    assert before.code == after.code == "BatchNotPossible"
    assert datetime.fromtimestamp((NOW - 1) / 1000, UTC).strftime("%H:%M:%S") in before.what


def test_other_writers_deleted_files_and_files_that_do_not_come_again_are_refused(stood: Environment) -> None:
    raw = Path(stood.table("sensor_raw").path)
    (Path(stood.landing) / "3").unlink()
    assert refused(stood, 2).code == "SourceLostRows"
    (raw / "1.parquet").unlink()
    assert refused(stood, 2).code == "VersionGone"
    write_commit(raw, 5, info("WRITE", timestamp=NOW), add("theirs.parquet"))
    error = refused(stood, 2)
    assert error.code == "OthersHaveWritten"
    assert "plan replay raw-ingest --from-batch 3" in str(error.next)


def test_without_a_batch_nothing_is_guessed(stood: Environment) -> None:
    error = refused(stood, None)
    assert "is not told to which batch to go back; batches 0 to 2 are possible" in error.what


@pytest.mark.parametrize("ours", [False, True])
def test_rows_that_nobody_would_take_away_are_refused(
    stood: Environment, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """merge-gold has no checkpoint any more, and its table has rows: its own, or of somebody who loaded them before."""
    monkeypatch.setattr(rewind_back, "_rows_that_go", lambda *given: 3)
    gold = Path(stood.table("sensor_gold").path)
    write_commit(gold, 0, *create())
    note = CommitMark("sensor-merge-gold", OLD, 0, "merge-gold").as_json() if ours else ""
    write_commit(gold, 1, info("MERGE", userMetadata=note, timestamp=NOW), add("0.parquet", 4))
    if not ours:
        assert planned(stood, 2).steps
        return
    error = refused(stood, 2)
    assert error.code == "ReaderCannotGoBack"
    assert "would keep 3 rows of sensor_gold that belong to what is taken back" in error.what
    assert "plan replay raw-ingest --from-batch 3" in str(error.next)


@pytest.mark.parametrize(("size", "said"), [(10, "The cheaper way is `surestart plan"), (10**9, "is the cheaper")])
def test_where_a_replay_is_possible_too_the_cheaper_way_is_named_and_why(
    stood: Environment, size: int, said: str
) -> None:
    table = Path(stood.table("sensor_raw").path)
    write_commit(table, 5, info("OPTIMIZE"), add("large.parquet", 0, size=size, dataChange=False))
    (line,) = (one for one in planned(stood, 2).statements if "plan replay" in one)
    assert said in line
    assert "raw-ingest --from-batch 3" in line
    assert "reads no table" in line
