"""The command that an error or a plan names: complete, so that it speaks of the same place when it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.gate.describe_run import options_of
from surestart.typed import at, surestart, word

if TYPE_CHECKING:
    from surestart.remedies.plan import Plan

# What `options_of` says already.
_OF_THE_PLACE = ("root", "checkpoint_root", "catalog", "schema", "landing")


def named(environment: Environment) -> str:
    """-e local --root /data/sensor"""
    return at(environment.name, options_of(environment))


def plan_command(environment: Environment, remedy: str, stage: str, options: str = "") -> str:
    given = " ".join(part for part in (options, named(environment)) if part)
    return surestart("plan", remedy, stage, place=f"{given} -o plan.json")


def plan_again(plan: Plan) -> str:
    """The same remedy, planned for the world as it is now: with the options, settings and pipeline of this plan."""
    settings = [f"--set {word(f'{key}={value}')}" for key, value in plan.settings.items() if key not in _OF_THE_PLACE]
    pipeline = [f"--pipeline {word(plan.pipeline)}"] if plan.pipeline else []
    options = " ".join([plan.options, *settings, *pipeline]).strip()
    return plan_command(Environment(**plan.environment), plan.remedy, plan.stage, options)
