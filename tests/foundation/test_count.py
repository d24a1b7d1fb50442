"""The independent count: what is missing is counted once, and what nobody has read yet is not missing."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path
from typing import cast

import pytest

from sensor_pipeline.count import Account, count_rows, judge, read_landed
from sensor_pipeline.simulate import Simulation, iter_records
from sensor_pipeline.tally import DESERIALIZED, QUARANTINED, RowPosition, Tally
from surestart.environment import Environment
from surestart.report.text.run_table import run_table
from surestart.runs.running_query import StageRun
from tests.foundation.world_by_hand import Record, World


@pytest.fixture
def world(environment: Environment) -> World:
    return World(environment)


def count(world: World, last: str = "merge-gold") -> Account:
    return count_rows(world.environment, read_landed(world.environment.landing), last=last)


def good(records: list[Record]) -> list[Record]:
    """Plain readings, which no other record corrects or repeats."""
    readings = [judge(payload) for _, payload in records]
    keys = [reading and reading[:2] for reading in readings]
    return [record for record, key in zip(records, keys, strict=True) if key is not None and keys.count(key) == 1]


def without(records: list[Record], *left_out: Record) -> list[Record]:
    return [record for record in records if record not in left_out]


def test_a_whole_run_is_exact(world: World) -> None:
    records = world.land(400)
    world.run_all(records)

    found = count(world)

    assert (found.faults, found.pending, found.gone) == ({}, {}, 0)
    assert (found.produced, found.raw, found.deserialized + found.quarantined) == (400, 400, 400)  # type: ignore[operator]
    assert found.is_exact


def test_a_record_that_raw_lacks_is_lost_once(world: World) -> None:
    records = world.land(100)
    missing = good(records)[3]
    world.run_all(without(records, missing))

    found = count(world)

    assert (found.lost, found.faults) == (1, {"raw: lost": 1})


def test_a_hundred_readings_that_were_read_and_are_nowhere_are_a_hundred_lost(world: World) -> None:
    world.land(100)
    world.run_all([])

    assert count(world).lost == 100


@pytest.mark.parametrize("hop", ["deserialize", "merge-gold"])
def test_a_record_is_lost_at_the_first_hop_that_lacks_it(world: World, hop: str) -> None:
    records = world.land(100)
    short = without(records, good(records)[3])
    world.ingest(records)
    world.deserialize(short if hop == "deserialize" else records)
    world.merge(short)

    found = count(world)

    name = "gold" if hop == "merge-gold" else hop
    assert (found.lost, found.faults) == (1, {f"{name}: lost": 1})


def test_files_that_land_after_the_stage_has_read_are_not_lost(world: World) -> None:
    world.run_all(world.land(100))
    world.land(40)

    found = count(world)

    assert (found.produced, found.lost, found.faults, found.pending) == (140, 0, {}, {"raw-ingest": 40})
    assert "landed meanwhile, not read yet: 40" in run_table(world.environment, [], found)


def test_a_file_that_was_read_and_has_no_row_is_lost(world: World) -> None:
    records = world.land(100)
    of_first_file = records[:20]
    world.run_all(without(records, *of_first_file))

    assert count(world).faults == {"raw: lost": 20}


def test_a_row_that_came_into_a_file_after_it_was_read_is_lost(world: World) -> None:
    """A file must appear complete: Spark never reads it again."""
    world.run_all(world.land(20))
    (path,) = world.landing.iterdir()
    path.write_bytes(path.read_bytes() + b"late\n")

    assert count(world).faults == {"raw: lost": 1}


def test_rows_that_the_next_stage_has_not_read_are_not_lost(world: World) -> None:
    first = world.land(100)
    world.run_all(first)
    second = world.land(40)
    world.ingest(second)

    found = count(world)
    assert (found.faults, found.pending) == ({}, {"deserialize": 40})

    world.deserialize(second)
    found = count(world)
    assert (found.faults, set(found.pending)) == ({}, {"merge-gold"})


@pytest.mark.parametrize("hop", ["raw", "deserialize", "gold"])
def test_nothing_is_excused_by_a_checkpoint_that_is_not_there(world: World, hop: str) -> None:
    """Tables with rows and no checkpoint: nobody can say that the rest has not been read."""
    records = world.land(100)
    short = without(records, good(records)[3])
    world.ingest(short if hop == "raw" else records)
    world.deserialize(records if hop == "gold" else short)
    world.merge(short)
    shutil.rmtree(world.environment.checkpoint_root)

    assert count(world).faults == {f"{hop}: lost": 1}


def test_a_file_that_raw_has_in_part_is_not_waited_for(world: World) -> None:
    world.run_all(world.land(100))
    second = world.land(20)
    world.run_all([])
    listed = Path(world.environment.checkpoint("raw-ingest")) / "sources" / "0" / "0"
    listed.write_text(listed.read_text().rpartition("\n")[0])
    assert count(world).pending == {"raw-ingest": 20}

    world.append("sensor_raw", second[:19])

    found = count(world, last="raw-ingest")
    assert (found.pending, found.faults) == ({}, {"raw: lost": 1})


def test_after_one_stage_only_its_hops_are_counted(world: World) -> None:
    records = world.land(100)
    world.ingest(records)
    run = StageRun("raw-ingest", "id", "ck", 1, 100, 1.0, 0, 0, None)

    found = count(world, last="raw-ingest")

    assert (found.raw, found.deserialized, found.gold, found.faults, found.pending) == (100, None, None, {}, {})
    screen = run_table(world.environment, [run], found)
    assert "Not counted, because the run ended with raw-ingest: deserialized, quarantined, gold." in screen
    assert "FAULT" not in screen


@pytest.mark.parametrize("how", ["cleared", "emptied"])
def test_rows_of_files_that_are_gone_are_no_fault_but_a_line_that_a_file_lacks_is(world: World, how: str) -> None:
    records = world.land(100)
    world.run_all(records)
    first, *_ = sorted(world.landing.iterdir())
    first.unlink() if how == "cleared" else first.write_bytes(b"")

    found = count(world)

    if how == "cleared":
        assert (found.produced, found.faults, found.gone, found.is_exact) == (80, {}, 20, True)
        assert "no longer in the source: 20" in run_table(world.environment, [], found)
    else:
        assert found.faults["raw: from nowhere"] == 20


def test_rows_of_a_file_that_is_gone_are_compared_with_what_raw_kept(world: World) -> None:
    records = world.land(100)
    world.ingest(records)
    short = without(records, good(records[:20])[0])
    world.deserialize(short)
    world.merge(short)
    sorted(world.landing.iterdir())[0].unlink()

    assert count(world).faults == {"deserialize: lost": 1}


def test_what_a_topic_has_forgotten_is_gone_and_what_it_never_gave_is_from_nowhere(world: World) -> None:
    """Offsets 0 to 9 are past their retention, 10 was an aborted record: no reader should have it."""
    (reading,) = good(world.land(1))
    rows = [(("sensor", 0, offset), reading[1]) for offset in range(20)]
    world.ingest(rows)
    records = [record for record in rows if record[0][2] > 10]

    found = count_rows(world.environment, records, last="raw-ingest", begins=lambda: {("sensor", 0): 10})

    assert (found.gone, found.faults) == (10, {"raw: from nowhere": 1})


@pytest.mark.parametrize("time", [None, -(10**17), 10**18])
def test_rows_that_no_stage_writes_are_faults_and_not_an_error(time: int | None) -> None:
    """Nulls, and times that Python has no value for: gold's reader gives them as numbers."""
    position = cast("RowPosition", ("file:/x", 0, None))
    tally = Tally(judge)
    tally.raw(position, None, unread=False)
    tally.decoded(position, QUARANTINED, unread=False)
    assert tally.gone(lambda position: True) == 0
    tally.gold(position, cast("str", None), time, None, [None, 1.0, 2.0])

    assert tally.faults == {"raw: from nowhere": 1, "deserialize: from nowhere": 1, "gold: from nowhere": 1}


def test_what_was_altered_doubled_or_taken_for_good_is_seen(world: World) -> None:
    records = world.land(200)
    altered, doubled, wrong = good(records)[:3]
    world.ingest([*without(records, altered), (altered[0], altered[1] + b" "), doubled])
    world.deserialize([*without(records, wrong), doubled, (wrong[0], b"bad")])
    other = altered[1].replace(b'"temperature":', b'"temperature":0.125,"was":')
    world.merge([*without(records, wrong, altered), (altered[0], other)])

    found = count(world)

    assert found.faults == {
        "raw: bytes altered": 1,
        "raw: duplicated": 1,
        "deserialize: duplicated": 1,
        "deserialize: good row in quarantine": 1,
        "gold: not the newest reading": 1,
    }


def test_a_record_costs_the_count_a_few_hundred_bytes() -> None:
    """2,000,000 readings are counted in 775 MB; with their payloads and positions as Python objects it were 3.2 GB."""
    number = 20_000
    tracemalloc.start()
    try:
        tally = Tally(judge)
        for one in iter_records(Simulation(), 0, number):
            position = (f"file:/landing/{one.number // 5000}", 0, one.number % 5000)
            tally.decoded(position, DESERIALIZED, unread=False)
            tally.raw(position, one.payload, unread=False)
            tally.record(position, one.payload, lambda position: True)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert tally.faults.keys() <= {"deserialize: bad row accepted"}
    assert held / number < 400
