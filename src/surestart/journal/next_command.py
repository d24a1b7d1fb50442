"""The command that an error or a plan names: complete, so that it speaks of the same place when it is typed."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.history.describe_run import options_of
from surestart.typed import at, surestart


def named(environment: Environment) -> str:
    """-e local --root /data/sensor"""
    return at(environment.name, options_of(environment))


def plan_command(environment: Environment, remedy: str, stage: str, options: str = "") -> str:
    given = " ".join(part for part in (options, named(environment)) if part)
    return surestart("plan", remedy, stage, place=f"{given} -o plan.json")
