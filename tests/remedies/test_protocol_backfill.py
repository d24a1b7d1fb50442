"""Every schedule of backfills, their undoing and a reset: no row is there twice, and nothing is left half-way."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.remedies.protocol_backfill import APPLY, RESET, UNDO, Driver, Rules, Violation, explore

# Each command given once or again; a driver that takes no further step has died.
SCENES = {
    "one, twice": (Driver(APPLY, "a"), Driver(APPLY, "a"), Driver(APPLY, "a")),
    "two": (Driver(APPLY, "a"), Driver(APPLY, "b"), Driver(APPLY, "a"), Driver(APPLY, "b")),
    "one and its undo": (Driver(APPLY, "a"), Driver(UNDO, "a"), Driver(APPLY, "a"), Driver(UNDO, "a")),
    "another after an undo": (Driver(APPLY, "a"), Driver(UNDO, "a"), Driver(UNDO, "a"), Driver(APPLY, "b")),
    "a reset": (Driver(APPLY, "a"), Driver(RESET, "r"), Driver(APPLY, "a")),
    "two and a reset": (Driver(APPLY, "a"), Driver(RESET, "r"), Driver(APPLY, "b"), Driver(UNDO, "a")),
}


@pytest.mark.parametrize("scene", SCENES)
def test_no_schedule_writes_a_row_twice(scene: str) -> None:
    assert explore(Rules(), SCENES[scene]) > 50


@pytest.mark.parametrize("bug", [one.name for one in fields(Rules)])
def test_a_planted_bug_is_found(bug: str) -> None:
    rules = replace(Rules(), **{bug: False})
    with pytest.raises(Violation):
        explore_all(rules)


def explore_all(rules: Rules) -> None:
    for drivers in SCENES.values():
        explore(rules, drivers)
