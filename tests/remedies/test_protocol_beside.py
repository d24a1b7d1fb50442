"""A reset beside under arbitrary schedules; each planted bug is found within as many.

`PROTOCOL_SCHEDULES=100000` runs more.
"""

from __future__ import annotations

import os
from dataclasses import fields, replace

import pytest

from tests.remedies.protocol_beside import KNOWN, Rules, Violation, act_at_random

SCHEDULES = int(os.environ.get("PROTOCOL_SCHEDULES", "5000"))


def test_no_schedule_loses_doubles_or_leaves_anything() -> None:
    act_many_times(Rules())


@pytest.mark.parametrize("bug", [one.name for one in fields(Rules)])
def test_a_planted_bug_is_found(bug: str) -> None:
    rules = replace(Rules(), **{bug: False})
    with pytest.raises(Violation):
        act_many_times(rules)


def act_many_times(rules: Rules) -> None:
    for seed in (*KNOWN, *range(SCHEDULES)):
        act_at_random(rules, seed)
