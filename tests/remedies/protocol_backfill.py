"""Backfills in a small world: one row that is missing, and drivers that stop, die and wake up anywhere.

    apply      look -> begun -> look again -> read what is missing -> commit -> done -> released
    undo       look -> undoing -> the empty commit -> withdrawn, or done and released
    reset      look -> begun -> look again -> clear, new identity -> released -> the stage writes every row

A state is a value, so all of them are visited: `explore` goes through every schedule. No lock holds a backfill off, for
the stage may run under it; on a catalog none holds a reset off either. A driver that died is one that takes no step
any more, and its command given again is another driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from surestart.journal.journal import (
    BEGUN,
    DONE,
    RELEASED,
    UNDOING,
    WITHDRAWN,
    Journal,
    JournalEntry,
)

APPLY, UNDO, RESET = "apply", "undo", "reset"
OVER = "over"


@dataclass(frozen=True)
class Rules:
    """Each is something that the protocol does; False leaves it out."""

    looks_first: bool = True
    looks_again: bool = True
    world_in_step: bool = True
    goes_back: bool = True
    one_identity: bool = True
    leaves_out_what_is_there: bool = True
    undoing_first: bool = True
    empty_commit: bool = True
    numbers_are_once: bool = True


class Driver(NamedTuple):
    """missing: whether it has seen the row missing."""

    verb: str
    digest: str
    at: str = "look"
    missing: bool = False


class State(NamedTuple):
    """entries: of all remedies, in the order of their first; rows: how often the row is there; used: identities whose
    one commit is in the table, empty for those in `emptied`; identity: of the stage, new after a reset."""

    drivers: tuple[Driver, ...]
    journals: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rows: int = 0
    used: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()
    identity: int = 0
    # The stage has yet to bring every row that the reset has cleared.
    brings: bool = False


class Violation(AssertionError):
    pass


def explore(rules: Rules, drivers: tuple[Driver, ...]) -> int:
    """Every state that any schedule leads to; raises Violation with what is wrong in one of them."""
    first = State(drivers)
    seen, waiting = {first}, [first]
    while waiting:
        state = waiting.pop()
        for following in _steps(rules, state):
            _check(following)
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen)


def _steps(rules: Rules, state: State) -> Iterator[State]:
    for index, driver in enumerate(state.drivers):
        if driver.at != OVER:
            act = {APPLY: _apply, UNDO: _undo, RESET: _reset}[driver.verb]
            yield act(rules, state, index, driver)
    if state.brings:
        yield state._replace(rows=state.rows + 1, brings=False)


def _check(state: State) -> None:
    if state.rows > 1:
        raise Violation(f"the row is there {state.rows} times")
    for digest, states in state.journals:
        journal = _journal(digest, states)
        if journal.first.remedy == "backfill" and DONE in states and digest in state.emptied:
            raise Violation(f"{digest} is done, and its commit is the empty one")
    # Nobody has died, so nothing stands half-way; but for one whose step refuses what a reset has left.
    if all(one.at == OVER for one in state.drivers) and not state.identity:
        left = [one.digest for one in _journals(state) if one.is_unfinished]
        if left:
            raise Violation(f"{left} stand half-way, and whoever began them has gone")


def _journal(digest: str, states: tuple[str, ...]) -> Journal:
    remedy = "reset" if digest.startswith("r") else "backfill"
    return Journal(tuple(JournalEntry(digest, n, one, "write", remedy=remedy) for n, one in enumerate(states)))


def _journals(state: State) -> list[Journal]:
    return [_journal(digest, states) for digest, states in state.journals]


def _own(state: State, digest: str) -> Journal | None:
    return next((one for one in _journals(state) if one.digest == digest), None)


def _rival(state: State, digest: str) -> bool:
    """As `refuse_rivals`: the first come, and whoever undoes."""
    journals = _journals(state)
    ours = next(index for index, one in enumerate(journals) if one.digest == digest)
    return any(
        one.is_unfinished and (index < ours or one.state == UNDOING)
        for index, one in enumerate(journals)
        if index != ours
    )


def _enter(rules: Rules, state: State, digest: str, number: int, entry: str) -> State | None:
    """None: another process has written this number."""
    held = dict(state.journals)
    states = held.get(digest, ())
    if len(states) != number and rules.numbers_are_once:
        return None
    held[digest] = (*states, entry)
    return state._replace(journals=tuple(held.items()))


def _go(state: State, index: int, at: str, **more: bool) -> State:
    drivers = list(state.drivers)
    drivers[index] = drivers[index]._replace(at=at, **more)
    return state._replace(drivers=tuple(drivers))


def _entered(rules: Rules, state: State, index: int, digest: str, entry: str, at: str) -> State:
    """The entry behind those that this driver knows of: `at` holds their number."""
    number = int(state.drivers[index].at.partition(":")[2] or 0)
    written = _enter(rules, state, digest, number, entry)
    return (
        _go(state, index, OVER) if written is None else _go(written, index, f"{at}:{number + 1}" if at != OVER else at)
    )


def _apply(rules: Rules, state: State, index: int, driver: Driver) -> State:
    digest, (at, _, number) = driver.digest, driver.at.partition(":")
    own = _own(state, digest)
    if at == "look":
        others = [one for one in _journals(state) if one.is_unfinished and one.digest != digest]
        if (others and rules.looks_first) or (own is not None and own.state in (UNDOING, WITHDRAWN, RELEASED)):
            return _go(state, index, OVER)
        if own is not None:
            return _go(state, index, f"read:{len(own.entries)}")
        return _go(state, index, OVER if state.identity else "begin:0")
    if at == "begin":
        return _entered(rules, state, index, digest, BEGUN, "look again")
    if at == "look again":
        if (rules.looks_again and _rival(state, digest)) or state.identity:
            return (
                _entered(rules, state, index, digest, WITHDRAWN, OVER) if rules.goes_back else _go(state, index, OVER)
            )
        return _go(state, index, f"read:{number}")
    if at == "read":
        if state.identity and rules.world_in_step:
            return _go(state, index, OVER)
        missing = state.rows == 0 or not rules.leaves_out_what_is_there
        return _go(state, index, f"commit:{number}", missing=missing)
    if at == "commit":
        if digest in state.used and rules.one_identity:
            return _go(state, index, f"done:{number}")
        written = state._replace(rows=state.rows + driver.missing, used=state.used | {digest})
        return _go(written, index, f"done:{number}")
    if at == "done":
        return _entered(rules, state, index, digest, DONE, "release")
    return _entered(rules, state, index, digest, RELEASED, OVER)


def _undo(rules: Rules, state: State, index: int, driver: Driver) -> State:
    digest, (at, _, number) = driver.digest, driver.at.partition(":")
    own = _own(state, digest)
    if at == "look":
        if own is None or own.state not in (BEGUN, UNDOING):
            return _go(state, index, OVER)
        undoing = own.state == UNDOING or not rules.undoing_first
        return _go(state, index, f"{'empty' if undoing else 'undoing'}:{len(own.entries)}")
    if at == "undoing":
        return _entered(rules, state, index, digest, UNDOING, "empty")
    if at == "empty":
        if digest not in state.used and rules.empty_commit:
            state = state._replace(used=state.used | {digest}, emptied=state.emptied | {digest})
        written = digest in state.used and digest not in state.emptied
        return _go(state, index, f"{'done' if written else 'withdraw'}:{number}")
    if at == "withdraw":
        return _entered(rules, state, index, digest, WITHDRAWN, OVER)
    if at == "done":
        return _entered(rules, state, index, digest, DONE, "release")
    return _entered(rules, state, index, digest, RELEASED, OVER)


def _reset(rules: Rules, state: State, index: int, driver: Driver) -> State:
    digest, (at, _, _) = driver.digest, driver.at.partition(":")
    own = _own(state, digest)
    if at == "look":
        others = [one for one in _journals(state) if one.is_unfinished and one.digest != digest]
        if (others and rules.looks_first) or own is not None:
            return _go(state, index, OVER)
        return _go(state, index, "begin:0")
    if at == "begin":
        return _entered(rules, state, index, digest, BEGUN, "look again")
    if at == "look again":
        if rules.looks_again and _rival(state, digest):
            return (
                _entered(rules, state, index, digest, WITHDRAWN, OVER) if rules.goes_back else _go(state, index, OVER)
            )
        return _go(state, index, driver.at.replace("look again", "clear"))
    if at == "clear":
        cleared = state._replace(rows=0, identity=1, brings=False)
        return _go(cleared, index, driver.at.replace("clear", "release"))
    released = _entered(rules, state, index, digest, RELEASED, OVER)
    return released._replace(brings=True)
