"""A reset beside under arbitrary schedules: live stages that run and die, two operators, gold in Delta and PostgreSQL.

    source ──> raw [every row] ──> gold [newest per key] ──> postgres      a row is its offset, its key offset % 3

    fill, fill ──> claim ──> begun ──> check ──> mark ──> postgres, gold, raw swapped ──> retire ──> start ──> released

Only what the swap rests on: how a reset in place holds is in protocol_remedy. Each `yield` is a place to die.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from surestart.errors import Refused
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FILLING,
    FINISHED,
    RELEASED,
    UNDOING,
    UNDONE,
    WITHDRAWN,
    Journal,
    JournalEntry,
    find_open,
)
from surestart.journal.protocol import check_move

Steps = Iterator[None]
Rows = tuple[int, ...]
RAW, GOLD = STAGES = ("raw", "gold")
TO_THE_END = 1_000
# Schedules that chance meets once in some thousand.
KNOWN = (47, 1338, 1540, 6938)
STOPS = [TO_THE_END] * 6 + list(range(1, 20))


@dataclass(frozen=True)
class Rules:
    """The protocol. Each rule that is switched off is a bug that has to be found."""

    counted_before_swap: bool = True
    caught_up_before_count: bool = True
    stages_claimed: bool = True
    gate_reads_journal: bool = True
    journal_read_after_claim: bool = True
    other_tables_filled: bool = True
    swapped_at_checked_version: bool = True
    swapped_once: bool = True
    begins_at_mark: bool = True
    begins_behind_swap: bool = True
    checkpoints_retired: bool = True
    stages_below_caught_up: bool = True
    postgres_once: bool = True
    postgres_with_ledger: bool = True
    postgres_kept: bool = True
    postgres_swapped: bool = True
    postgres_not_filled: bool = True
    dropped_after_swap: bool = True
    dropped_by_undo: bool = True
    ended_is_not_filled: bool = True
    live_noted_at_check: bool = True
    undo_passes_over: bool = True
    former_begin_kept: bool = True


class Violation(AssertionError):
    """What must never happen has happened."""


class Checkpoint(NamedTuple):
    """at: the next offset of the source, or version of raw. in_flight: planned up to there, and not committed."""

    name: str
    at: int
    in_flight: int | None = None


class Version(NamedTuple):
    rows: Rows
    added: Rows = ()
    is_change: bool = False
    note: str = ""


@dataclass
class World:
    rules: Rules
    high: int = 0
    now: int = 0
    tables: dict[str, list[Version]] = field(default_factory=lambda: {name: [Version(())] for name in STAGES})
    beside: dict[str, dict[str, list[Version]]] = field(default_factory=dict)
    postgres: Rows = ()
    kept: dict[str, Rows] = field(default_factory=dict)
    ledger: set[str] = field(default_factory=set)
    checkpoints: dict[str, Checkpoint | None] = field(default_factory=lambda: dict.fromkeys(STAGES))
    own: dict[tuple[str, str], Checkpoint] = field(default_factory=dict)
    retired: dict[tuple[str, str], Checkpoint | None] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    former: dict[str, dict[str, int]] = field(default_factory=dict)
    passed: list[tuple[int, int]] = field(default_factory=list)
    claims: dict[str, str] = field(default_factory=dict)
    entries: dict[str, list[JournalEntry]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    before: dict[str, tuple[Rows, Rows, Rows]] = field(default_factory=dict)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def journals(self) -> tuple[Journal, ...]:
        return tuple(Journal(tuple(entries)) for entries in self.entries.values())

    def journal(self, digest: str) -> Journal:
        return Journal(tuple(self.entries[digest]))

    def enter(self, journal: Journal, state: str, step: str = "", facts: object = None) -> Journal:
        check_move(journal.state, state)
        known = self.entries[journal.digest]
        if known[-1].number != journal.last.number:
            raise refusal("JournalOfAnother")
        known.append(replace(journal.first, number=known[-1].number + 1, state=state, step=step, facts=facts or {}))
        return Journal(tuple(known))

    def release(self, me: str) -> None:
        self.claims = {stage: who for stage, who in self.claims.items() if who != me}


def refusal(code: str) -> Refused:
    return Refused(code, meaning="model", next="model", code=code)


def newest(rows: Rows) -> Rows:
    return tuple(sorted({row % 3: row for row in sorted(rows)}.values()))


# --- a stage, live or beside


def run_stage(world: World, me: str, stage: str, fault: bool = False) -> Steps:
    """It has processed what there is. fault: a batch of raw loses its first row, which is what a reset is for."""
    if world.rules.stages_claimed:
        if world.claims.get(stage, me) != me:
            raise refusal("OWNER_RUNNING")
        world.claims[stage] = me
    yield
    if world.rules.gate_reads_journal and find_open(world.journals(), stage) is not None:
        raise refusal("REMEDY_UNFINISHED")
    held = world.checkpoints[stage] or Checkpoint(f"id-{world.tick()}", world.begins.get(stage, 0))
    world.checkpoints[stage] = held
    yield
    end = held.in_flight if held.in_flight is not None else _end(world, stage)
    if end > held.at:
        planned = held._replace(in_flight=end)
        _moved(world, stage, held, planned)
        yield
        yield from _write(world, stage, planned, end, fault)
        _moved(world, stage, planned, Checkpoint(held.name, end))
    world.release(me)


def _moved(world: World, stage: str, known: Checkpoint, now: Checkpoint) -> None:
    if world.checkpoints[stage] != known:
        raise refusal("CONCURRENT_STREAM_LOG_UPDATE")
    world.checkpoints[stage] = now


def _end(world: World, stage: str) -> int:
    return world.high if stage == RAW else len(world.tables[RAW])


def _write(world: World, stage: str, held: Checkpoint, end: int, fault: bool) -> Steps:
    batch = f"{stage} {held.name} {held.at}"
    if stage == RAW:
        rows = tuple(range(held.at + fault, end))
        if batch not in world.written:
            _commit(world.tables[RAW], (*world.tables[RAW][-1].rows, *rows), rows)
        world.written.add(batch)
        yield
        return
    rows = _read(world, held.at, end)
    if batch not in world.written:
        _commit(world.tables[GOLD], newest((*world.tables[GOLD][-1].rows, *rows)), rows)
    world.written.add(batch)
    yield
    world.postgres = newest((*world.postgres, *rows))
    yield


def _read(world: World, start: int, end: int) -> Rows:
    """Versions of raw, without those that an undo has taken back; from the beginning, the table as it is."""
    if start == 0:
        return world.tables[RAW][end - 1].rows
    rows: Rows = ()
    for number in range(start, end):
        if any(first <= number <= last for first, last in world.passed):
            continue
        if world.tables[RAW][number].is_change:
            raise Violation("gold stops at a change of raw")
        rows += world.tables[RAW][number].added
    return rows


def _commit(table: list[Version], rows: Rows, added: Rows = (), is_change: bool = False, note: str = "") -> None:
    table.append(Version(rows, added, is_change, note))


def _fill(world: World, digest: str, stage: str) -> Steps:
    """Into tables of its own, with a checkpoint of its own."""
    if world.rules.ended_is_not_filled and _has_ended(world, digest):
        raise refusal("JournalOfAnother")
    tables = world.beside.setdefault(digest, {name: [Version(())] for name in STAGES})
    if not world.rules.other_tables_filled:
        tables = world.tables
    at = world.own.get((digest, stage), Checkpoint("own", 0)).at
    if stage == RAW:
        rows, end = tuple(range(at, world.high)), world.high
        _commit(tables[RAW], (*tables[RAW][-1].rows, *rows), rows)
    else:
        end = len(tables[RAW])
        rows = tables[RAW][-1].rows
        _commit(tables[GOLD], newest((*tables[GOLD][-1].rows, *rows)), rows)
        if not world.rules.postgres_not_filled:
            world.postgres = newest((*world.postgres, *rows, 10_000))
    world.own[digest, stage] = Checkpoint("own", end)
    yield
    if world.rules.ended_is_not_filled and _has_ended(world, digest):
        _drop(world, digest)
        raise refusal("JournalOfAnother")


def _has_ended(world: World, digest: str) -> bool:
    now = world.journal(digest)
    return now.state in (UNDOING, WITHDRAWN) or "drop" in now.done


def _drop(world: World, digest: str) -> None:
    world.beside.pop(digest, None)
    for stage in STAGES:
        world.own.pop((digest, stage), None)


# --- apply


def apply_plan(world: World, me: str, digest: str) -> Steps:
    journal = _look_up(world, digest)
    if journal.state == FINISHED:
        return
    yield
    if journal.state == FILLING:
        for stage in STAGES:
            if f"fill:{stage}" not in journal.done:
                yield from _fill(world, digest, stage)
                journal = world.enter(journal, DONE, f"fill:{stage}")
                yield
    if journal.state in (FILLING, BEGUN):
        _claim(world, me)
        yield
        if world.rules.journal_read_after_claim:
            journal = _look_up(world, digest)
        if journal.state == FILLING:
            journal = world.enter(journal, BEGUN)
            yield
        if journal.state != BEGUN:
            raise refusal("JournalOfAnother")
        for step in ("check", "mark", "postgres", "swap:gold", "swap:raw", "retire", "start"):
            if step not in journal.done:
                try:
                    yield from _STEPS[step](world, journal, step)
                except Refused as problem:
                    if step == "check" and problem.code == "BesideNotExact":
                        world.enter(journal, FILLING)
                    raise
                journal = world.enter(journal, DONE, step, _facts.pop((digest, step), {}))
                yield
        journal = world.enter(journal, RELEASED)
        world.release(me)
        yield
    if "drop" not in journal.done:
        _drop(world, digest)
        journal = world.enter(journal, DONE, "drop")
        yield
    world.enter(journal, FINISHED)


_facts: dict[tuple[str, str], dict[str, int]] = {}


def _look_up(world: World, digest: str) -> Journal:
    for other in world.journals():
        if other.is_unfinished and other.digest != digest:
            raise refusal("REMEDY_UNFINISHED")
    if digest not in world.entries:
        world.entries[digest] = [JournalEntry(digest, 0, FILLING, remedy="reset", queries=STAGES, at=world.tick())]
    journal = world.journal(digest)
    if journal.state in (UNDOING, WITHDRAWN):
        raise refusal("PlanWithdrawn")
    return journal


def _claim(world: World, me: str) -> None:
    for stage in STAGES if world.rules.stages_claimed else ():
        if world.claims.get(stage, me) != me:
            world.release(me)
            raise refusal("OWNER_RUNNING")
        world.claims[stage] = me


def _check(world: World, journal: Journal, step: str) -> Steps:
    digest, rules = journal.digest, world.rules
    if rules.caught_up_before_count:
        for stage in STAGES if rules.stages_below_caught_up else STAGES[:1]:
            yield from _fill(world, digest, stage)
    tables = world.beside.get(digest, world.tables)
    raw, gold = tables[RAW][-1].rows, tables[GOLD][-1].rows
    exact = Counter(raw) == Counter(range(len(raw))) and gold == newest(raw)
    if rules.counted_before_swap and rules.stages_below_caught_up and not exact:
        raise refusal("BesideNotExact")
    found = {f"beside:{name}": len(tables[name]) - 1 for name in STAGES}
    found |= {f"live:{name}": len(world.tables[name]) - 1 for name in STAGES}
    _facts[digest, step] = found
    world.before[digest] = world.tables[RAW][-1].rows, world.tables[GOLD][-1].rows, world.postgres
    yield


def _mark(world: World, journal: Journal, step: str) -> Steps:
    rows = _filled(world, journal, RAW)
    _facts[journal.digest, step] = {"below": max(rows, default=-1) + 1}
    yield


def _filled(world: World, journal: Journal, name: str) -> Rows:
    """What was counted. The table may have more by now: another process of the plan fills it."""
    tables, version = world.beside.get(journal.digest), journal.facts("check")[f"beside:{name}"]
    if tables is None or version >= len(tables[name]):
        raise Violation("what was filled is gone before it was swapped in")
    return tables[name][version if world.rules.swapped_at_checked_version else -1].rows


def _swap_postgres(world: World, journal: Journal, step: str) -> Steps:
    """One transaction: ledger row, what goes is kept, the new rows."""
    digest, rules = journal.digest, world.rules
    done = f"{digest}:0" in world.ledger
    if not rules.postgres_swapped or (done and rules.postgres_once):
        return
    if rules.postgres_with_ledger:
        world.ledger.add(f"{digest}:0")
    if rules.postgres_kept:
        world.kept[digest] = world.postgres
    world.postgres = _filled(world, journal, GOLD)
    yield


def _swap(world: World, journal: Journal, step: str) -> Steps:
    digest, name = journal.digest, step.partition(":")[2]
    table, note = world.tables[name], f"{digest}:{step}"
    rows = _filled(world, journal, name)
    if not world.rules.swapped_once:
        rows = (*rows, *table[-1].rows) if any(one.note == note for one in table) else rows
    if name == RAW and not set(table[-1].rows) <= set(rows):
        raise Violation(f"a reader sees rows vanish: {set(table[-1].rows) - set(rows)}")
    if not world.rules.swapped_once or not any(one.note == note for one in table):
        _commit(table, rows, rows, True, note)
    yield
    if not world.rules.dropped_after_swap:
        world.beside.pop(digest)


def _retire(world: World, journal: Journal, step: str) -> Steps:
    for stage in STAGES:
        if (stage, journal.digest) not in world.retired:
            world.retired[stage, journal.digest] = world.checkpoints[stage]
            yield
        if world.rules.checkpoints_retired:
            world.checkpoints[stage] = None
        yield


def _start(world: World, journal: Journal, step: str) -> Steps:
    below = journal.facts("mark")["below"]
    world.former.setdefault(journal.digest, dict(world.begins))
    world.begins[RAW] = below if world.rules.begins_at_mark else 0
    if world.rules.begins_behind_swap:
        if not any(one.note == f"{journal.digest}:begin" for one in world.tables[RAW]):
            _commit(world.tables[RAW], world.tables[RAW][-1].rows, note=f"{journal.digest}:begin")
        yield
        notes = [one.note for one in world.tables[RAW]]
        world.begins[GOLD] = notes.index(f"{journal.digest}:begin")
    else:
        world.begins[GOLD] = journal.facts("check")["live:raw"] + 1
    yield


_STEPS = {
    "check": _check,
    "mark": _mark,
    "postgres": _swap_postgres,
    "swap:gold": _swap,
    "swap:raw": _swap,
    "retire": _retire,
    "start": _start,
}


# --- undo


def undo_remedy(world: World, me: str, digest: str) -> Steps:
    if digest not in world.entries:
        raise refusal("NeverApplied")
    journal = world.journal(digest)
    _refuse_overtaken(world, journal)
    if journal.state == WITHDRAWN:
        return
    yield
    taken_over = "check" in journal.done
    if taken_over:
        _claim(world, me)
        yield
    journal = world.journal(digest)
    _refuse_overtaken(world, journal)
    if ("check" in journal.done) != taken_over or journal.state == WITHDRAWN:
        raise refusal("JournalOfAnother")
    if journal.state != UNDOING:
        journal = world.enter(journal, UNDOING)
        yield
    for step in ("retire", "swap:raw", "swap:gold", "postgres", "start") if taken_over else ():
        if step not in journal.undone:
            yield from _undo(world, journal, step)
            journal = world.enter(journal, UNDONE, step)
            yield
    if world.rules.dropped_by_undo:
        _drop(world, digest)
    if taken_over:
        found = world.tables[RAW][-1].rows, world.tables[GOLD][-1].rows, world.postgres
        if found != world.before[digest]:
            raise Violation(f"undone, and not as before: {found} for {world.before[digest]}")
    world.enter(journal, WITHDRAWN)
    world.release(me)


def _refuse_overtaken(world: World, journal: Journal) -> None:
    for other in world.journals():
        if other.first.at > journal.first.at and other.state != WITHDRAWN:
            raise refusal("RemedyOvertaken")


def _undo(world: World, journal: Journal, step: str) -> Steps:
    digest, checked = journal.digest, journal.facts("check")
    if step == "retire":
        for stage in STAGES:
            if (stage, digest) in world.retired:
                world.checkpoints[stage] = world.retired[stage, digest]
            yield
    elif step.startswith("swap:"):
        name, note = step.partition(":")[2], f"{digest}:undo:{step}"
        table = world.tables[name]
        swapped = any(one.note == f"{digest}:{step}" for one in table)
        if swapped and not any(one.note == note for one in table):
            version = checked[f"live:{name}"] if world.rules.live_noted_at_check else 0
            _commit(table, table[version].rows, is_change=True, note=note)
        yield
    elif step == "postgres":
        if f"{digest}:0" in world.ledger and f"{digest}:1" not in world.ledger:
            world.ledger.add(f"{digest}:1")
            world.postgres = world.kept.pop(digest, ())
        yield
    else:
        notes = [one.note for one in world.tables[RAW]]
        restored = f"{digest}:undo:swap:raw"
        if restored in notes and world.rules.undo_passes_over:
            world.passed.append((checked["live:raw"] + 1, notes.index(restored)))
        world.begins = dict(world.former.get(digest, world.begins)) if world.rules.former_begin_kept else {}
        yield


# --- who acts


class Actors:
    def __init__(self, rules: Rules, chance: random.Random) -> None:
        self.world, self.chance = World(rules), chance
        self.running: dict[str, Steps] = {}
        self.plans: list[str] = []
        self.world.high = 4
        for stage in STAGES:
            self.begin("driver", run_stage(self.world, "driver", stage, stage == RAW and chance.random() < 0.5))

    def act(self) -> None:
        world, chance = self.world, self.chance
        what = chance.choice(("arrive", "run", "run", "lose", "new", "apply", "undo", "go", "go"))
        who = f"operator {chance.choice((1, 2))}"
        if what == "arrive":
            world.high += chance.choice((1, 2))
        elif what == "run":
            driver, stage = f"driver {chance.choice((1, 2))}", chance.choice(STAGES)
            self.begin(driver, run_stage(world, driver, stage))
        elif what == "lose" and world.beside:
            # Somebody deletes a row of what is filled: that must not be swapped in, whenever it was.
            tables = world.beside[chance.choice(list(world.beside))]
            if tables[RAW][-1].rows:
                _commit(tables[RAW], tables[RAW][-1].rows[1:], is_change=True)
        elif what == "new":
            self.plans.append(f"{world.tick():064d}")
            self.begin(who, apply_plan(world, who, self.plans[-1]))
        elif what in ("apply", "undo") and self.plans:
            act = apply_plan if what == "apply" else undo_remedy
            self.begin(who, act(world, who, self.plans[-1]))
        elif what == "go" and self.running:
            self.advance(chance.choice(list(self.running)))

    def begin(self, who: str, steps: Steps) -> None:
        if who not in self.running:
            self.running[who] = steps
            self.advance(who)

    def advance(self, who: str, to_the_end: bool = False) -> Refused | None:
        stop = TO_THE_END if to_the_end else self.chance.choice(STOPS)
        try:
            for _ in range(stop):
                next(self.running[who])
        except StopIteration:
            self.ended(who)
        except Refused as problem:
            self.ended(who)
            return problem
        else:
            if self.chance.random() < 0.5:
                self.running[who].close()  # type: ignore[attr-defined]
                self.ended(who)
        return None

    def ended(self, who: str) -> None:
        del self.running[who]
        self.world.release(who)

    def check(self) -> None:
        """A reader never sees a row twice; of gold no key twice, in neither place."""
        world = self.world
        if any(count > 1 for count in Counter(world.tables[RAW][-1].rows).values()):
            raise Violation(f"raw has rows twice: {world.tables[RAW][-1].rows}")
        for rows in (world.tables[GOLD][-1].rows, world.postgres):
            if len({row % 3 for row in rows}) < len(rows):
                raise Violation(f"a key is there twice: {rows}")

    def end(self) -> None:
        """Everybody goes on to the end; what is open is applied or undone; a reset beside makes all right."""
        world = self.world
        for who in list(self.running):
            self.advance(who, to_the_end=True)
        for who in list(self.running):
            self.ended(who)
        for journal in reversed(world.journals()):
            if journal.state in (FINISHED, WITHDRAWN):
                continue
            undoes = journal.state == UNDOING or self.chance.random() < 0.5
            problem = self.surely(undo_remedy if undoes else apply_plan, journal.digest)
            if problem in ("BesideNotExact", "RemedyOvertaken"):
                other = apply_plan if undoes else undo_remedy
                problem = self.surely(other, journal.digest)
            if problem:
                raise Violation(f"stuck: {problem}")
        self.run_all()
        if world.beside:
            raise Violation("what was filled beside is left over")
        done = any(journal.state == FINISHED for journal in world.journals())
        problem = "" if done else self.surely(apply_plan, f"{world.tick():064d}")
        if problem:
            raise Violation(f"stuck: {problem}")
        self.run_all()
        self.exact()
        last = next(journal for journal in reversed(world.journals()) if journal.state != WITHDRAWN)
        world.high += 1
        self.run_all()
        self.exact()
        if self.chance.random() < 0.5:
            if problem := self.surely(undo_remedy, last.digest):
                raise Violation(f"stuck: {problem}")
            self.run_all()

    def exact(self) -> None:
        world = self.world
        raw = world.tables[RAW][-1].rows
        if Counter(raw) != Counter(range(world.high)):
            raise Violation(f"raw is {raw} of {world.high}")
        for name, rows in (("gold", world.tables[GOLD][-1].rows), ("postgres", world.postgres)):
            if rows != newest(raw):
                raise Violation(f"{name} is {rows}, the newest are {newest(raw)}")

    def surely(self, verb: object, digest: str) -> str:
        self.running["operator 9"] = verb(self.world, "operator 9", digest)  # type: ignore[operator]
        problem = self.advance("operator 9", to_the_end=True)
        self.check()
        return problem.code if problem else ""

    def run_all(self) -> None:
        for stage in STAGES * 2:
            self.running["last"] = run_stage(self.world, "last", stage)
            if problem := self.advance("last", to_the_end=True):
                raise Violation(f"stuck: {problem.code}")
        self.check()


def act_at_random(rules: Rules, seed: int, acts: int = 12) -> None:
    """One schedule; raises Violation."""
    _facts.clear()
    actors = Actors(rules, random.Random(seed))
    for _ in range(acts):
        actors.act()
        actors.check()
    actors.end()
