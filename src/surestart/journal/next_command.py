"""The command that an error or a plan names: complete, so that it speaks of the same place when it is typed."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.history.describe_run import named as named
from surestart.typed import PLAN_FILE, NextCommand, surestart


def plan_command(environment: Environment, remedy: str, stage: str, *options: object, note: str = "") -> NextCommand:
    return surestart("plan", remedy, stage, *options, place=named(environment), more=PLAN_FILE, note=note)
