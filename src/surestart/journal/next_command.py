"""The command that an error or a plan names: complete, so that it speaks of the same place when it is typed."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.history.describe_run import named as named
from surestart.typed import surestart


def plan_command(environment: Environment, remedy: str, stage: str, options: str = "") -> str:
    given = " ".join(part for part in (options, named(environment)) if part)
    return surestart("plan", remedy, stage, place=f"{given} -o plan.json")
