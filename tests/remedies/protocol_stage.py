"""A driver that runs a stage, as the runner, Spark and the sinks do it; each `yield` is a place where it can die.

claim -> half-way? -> acceptance -> (new identity) -> plan batch -> write -> commit -> … -> claim given up
"""

from __future__ import annotations

from typing import Any, NamedTuple

from surestart.journal.journal import find_open
from surestart.journal.unfinished import unfinished_error
from tests.remedies.protocol_world import (
    ENVIRONMENT,
    GOLD,
    INPUT,
    OUTPUTS,
    RAW,
    TORN,
    Begin,
    Checkpoint,
    Row,
    Steps,
    TakenBack,
    Violation,
    World,
    is_good,
    newest_per_key,
    refusal,
)


class Place(NamedTuple):
    """Where a stream stands in a Delta table: before this file of this version."""

    version: int
    index: int = 0
    snapshot: bool = False


def run_stage(world: World, me: str, stage: str, limit: int, lossy: bool = False) -> Steps:
    """The stage has processed what there is. lossy: a fault of former days, the batch leaves out its first row."""
    if world.rules.driver_claims:
        world.claim(stage, me)
    yield
    query = ENVIRONMENT.query_name(stage)
    found = find_open(world.journals(), query) if world.rules.gate_reads_journal else None
    if found is not None:
        raise unfinished_error(found, query, ENVIRONMENT)
    begin = world.begin_of(stage)
    _judge(world, stage, begin)
    if world.checkpoints[stage] is None:
        world.checkpoints[stage] = Checkpoint(f"id-{world.tick()}")
    mine = world.checkpoints[stage].query_id
    passing = _passed_over(world, stage, begin)
    _ask_again(world, stage, begin, passing)
    begin = _without_kept_after_snapshot(world, stage, begin)
    yield
    while True:
        held = _checkpoint(world, stage, mine)
        if not held.in_flight:
            last = held.batches[-1][1] if held.batches else None
            end = _plan(world, stage, begin, last, limit, passing)
            if end is None:
                break
            if begin is not None:
                world.ran_under.add((stage, begin.digest))
            held = held._replace(batches=(*held.batches, (last, end, world.tick())))
            world.checkpoints[stage] = held
            yield
        number = held.commits
        start, end, time = held.batches[number]
        rows = _read(world, stage, begin, start, end, passing)
        if lossy and rows:
            world.lost.add(rows[0][:2])
            rows = rows[1:]
        yield from _write(world, stage, mine, number, [(part, offset, time) for part, offset, _ in rows])
        world.checkpoints[stage] = _checkpoint(world, stage, mine)._replace(commits=number + 1)
        yield
    world.release(me, (stage,))


def _judge(world: World, stage: str, begin: Begin | None) -> None:
    """What the gate's diagnosis says: a kept identity must not be behind its sink, a new one needs a cleared output."""
    held = world.checkpoints[stage]
    if held == TORN or any(stage in stages for stages in world.dirty.values()):
        raise Violation(f"{stage} starts while a remedy stands half-way over it")
    if held is None or not held.batches:
        remedied = begin is not None and (stage, begin.digest) not in world.ran_under
        if begin is None and not world.rules.undo_allows_no_anew:
            remedied = any(name == stage for name, _, _ in world.begins)
        if stage != GOLD and not remedied and world.positions(stage):
            raise refusal("CHECKPOINT_DELETED")
    if held is not None:
        for name in OUTPUTS[stage]:
            known = world.tables[name].txns.get(held.query_id, -1)
            if known > held.commits or (known == held.commits and not held.in_flight):
                raise refusal("SINK_AHEAD")
            if known < held.commits - 1:
                raise refusal("SINK_BEHIND")


def _checkpoint(world: World, stage: str, mine: str) -> Checkpoint:
    held = world.checkpoints[stage]
    if held is None or held == TORN or held.query_id != mine:
        raise refusal("CONCURRENT_STREAM_LOG_UPDATE")
    found: Checkpoint = held
    return found


def _passed_over(world: World, stage: str, begin: Begin | None) -> frozenset[int] | None:
    """The files of what undos have taken back and the stage has still before it; None: nothing is passed over. Refused
    where it would pass over more than that."""
    if stage == RAW:
        return None
    first = _first_version(world, stage, begin)
    table = world.tables[INPUT[stage]]
    ahead = tuple(one for one in world.taken_back(INPUT[stage]) if first is not None and one.version >= first)
    if not ahead or first is None:
        return None
    _refuse_read(world, stage, first, ahead)
    for version in range(first, table.version + 1):
        inside = any(one.before < version <= one.version for one in ahead)
        if table.commits[version].is_change and not inside and world.rules.every_undo_counts:
            raise refusal("InputChanged")
    between = [commit for one in ahead for commit in table.commits[one.before + 1 : one.version]]
    appends = [commit for commit in between if not commit.is_change or not world.rules.only_appends_left_out]
    return frozenset(file.number for commit in appends for file in commit.adds)


def _refuse_read(world: World, stage: str, first: int, ahead: tuple[TakenBack, ...]) -> None:
    """Who stands before it is noted as one that passes over it; who stands among it without a note is refused."""
    held = world.checkpoints[stage]
    reached = first
    if held.batches:
        end = held.batches[-1][1]
        reached = end.version + (end.snapshot or end.index > 0)
    for one in ahead:
        if reached <= one.before + 1:
            world.noted.add((held.query_id, INPUT[stage], one.version))
        among = any(one.before + 1 < place <= one.version for place in (first, reached))
        noted = world.rules.passing_is_noted and (held.query_id, INPUT[stage], one.version) in world.noted
        if among and not noted:
            raise refusal("ReadWhatWasUndone")


def _first_version(world: World, stage: str, begin: Begin | None) -> int | None:
    """The first commit of the input that Spark looks at; None: the stage begins with what the table holds."""
    held = world.checkpoints[stage]
    begins_at = begin.version if begin is not None else None
    if not held.batches:
        return begins_at
    start, end, _ = held.batches[-1]
    again = world.rules.window_from_batch_start if held.in_flight else world.rules.last_batch_asked_again
    if not again:
        start = end
    elif start is None and begins_at is not None:
        return begins_at
    place = end if start is None else start
    return int(place.version) + 1 if place.snapshot else int(place.version)


def _ask_again(world: World, stage: str, begin: Begin | None, passing: frozenset[int] | None) -> None:
    """Spark asks a source for the newest batch at each start, also when that is committed."""
    held = world.checkpoints[stage]
    if stage != RAW and held.batches and not held.in_flight:
        start, end, _ = held.batches[-1]
        _read(world, stage, begin, start, end, passing)


def _without_kept_after_snapshot(world: World, stage: str, begin: Begin | None) -> Begin | None:
    """What is added below the marks later, by a backfill of the input, is new to the output."""
    held = world.checkpoints[stage]
    if begin is None or stage == RAW or not held.commits:
        return begin
    return begin if held.batches[held.commits - 1][1].snapshot else begin._replace(kept=())


def _plan(world: World, stage: str, begin: Begin | None, last: Any, limit: int, passing: frozenset[int] | None) -> Any:
    """Where the next batch ends; None when there is nothing new."""
    if stage == RAW:
        return _plan_source(world, begin, last, limit)
    table = world.tables[INPUT[stage]]
    start = last or _first_place(world, stage, begin)
    end = start
    # Delta counts the files that it leaves out, and a batch may end behind one of them. Versions without a file to read
    # are read on the way: it ends before the first file that it has no room for.
    for files, (place, _) in enumerate(_files(table, start, passing, leaves_out=False)):
        if files == limit:
            end = end if end.version == place.version else Place(place.version)
            break
        count = len(table.content[place.version]) if place.snapshot else len(table.commits[place.version].adds)
        is_last = place.index + 1 == count
        end = Place(place.version + 1) if is_last else Place(place.version, place.index + 1, place.snapshot)
    else:
        end = max(end, Place(table.version + 1))
    return end if end != start else None


def _first_place(world: World, stage: str, begin: Begin | None) -> Place:
    table = world.tables[INPUT[stage]]
    if begin is None or begin.version is None:
        return Place(table.version, 0, True)
    if begin.version > table.version:
        raise refusal("VersionNotFound")
    return Place(begin.version)


def _files(
    table: Any, start: Place, passing: frozenset[int] | None, last: int | None = None, leaves_out: bool = True
) -> Any:
    """Each file that comes from `start` on, with its place; raises at a change unless changes are passed
    over, which then all are. leaves_out: not the files that are passed over."""
    version = start.version
    if start.snapshot:
        for index, file in enumerate(table.content[version]):
            if index >= start.index:
                yield Place(version, index, True), file
        version, start = version + 1, Place(version + 1)
    for number in range(version, (table.version if last is None else min(last, table.version)) + 1):
        commit = table.commits[number]
        if commit.is_change:
            if passing is None:
                raise refusal("DELTA_SOURCE_TABLE_IGNORE_CHANGES")
            continue
        for index, file in enumerate(commit.adds):
            if number == start.version and index < start.index:
                continue
            if not leaves_out or file.number not in (passing or ()):
                yield Place(number, index), file


def _plan_source(world: World, begin: Begin | None, last: Any, limit: int) -> Any:
    """partition -> next offset; whole files, or so many records of each partition."""
    seen = dict(last or ())
    first = dict(begin.below or ()) if begin is not None and not world.whole_files else {}
    ends, new = dict(seen), 0
    for part, (low, high) in world.source.items():
        begins = seen.get(part, first.get(part, low))
        if world.whole_files:
            if part in seen or new == limit:
                continue
            ends[part], new = high, new + 1
        else:
            ends[part] = max(begins, min(high, begins + limit))
            new += ends[part] - begins
    return tuple(sorted(ends.items())) if new else None


def _read(
    world: World, stage: str, begin: Begin | None, start: Any, end: Any, passing: frozenset[int] | None
) -> list[Row]:
    if stage == RAW:
        first = dict(begin.below or ()) if begin is not None and not world.whole_files else {}
        seen = dict(start or ())
        rows: list[Row] = []
        for part, stop in end:
            low, _ = world.source[part]
            rows += [(part, offset, 0) for offset in range(max(low, seen.get(part, first.get(part, low))), stop)]
    else:
        table = world.tables[INPUT[stage]]
        here = start if start is not None else _snapshot_of(world, stage, begin, end)
        rows = []
        for place, file in _files(table, here, passing, end.version if end.index else end.version - 1):
            if (place.version, not place.snapshot, place.index) >= (end.version, not end.snapshot, end.index):
                break
            rows += file.rows
    if begin is None or not begin.kept:
        return rows
    below = dict(begin.kept)
    return [row for row in rows if row[1] >= below.get(row[0], 0)]


def _snapshot_of(world: World, stage: str, begin: Begin | None, end: Place) -> Place:
    """Batch 0, possibly replayed: its first version is in its end, or that of the option."""
    if begin is not None and begin.version is not None:
        return Place(begin.version)
    return Place(end.version if end.snapshot else end.version - 1, 0, True)


def _write(world: World, stage: str, query_id: str, number: int, rows: list[Row]) -> Steps:
    if stage == RAW:
        world.append("raw", rows, query_id, number, query_id)
        yield
    elif stage == GOLD:
        if any(row[0] is None for row in rows):
            raise Violation("the marker row of an undo was read by merge-gold")
        merged = newest_per_key([*world.tables["gold"].rows(), *rows])
        world.overwrite("gold", merged.values(), query_id, number, query_id)
        yield
    else:
        # A marker row that nobody left out would be quarantined.
        world.append("quarantine", [row for row in rows if row[0] is None or not is_good(row)], query_id, number)
        yield
        world.append("good", [row for row in rows if row[0] is not None and is_good(row)], query_id, number, query_id)
        yield
