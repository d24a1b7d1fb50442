"""The command that plans a remedy anew, for the world as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.journal.next_command import plan_command
from surestart.remedies.plan.plan import environment_of
from surestart.typed import word

if TYPE_CHECKING:
    from surestart.remedies.plan.plan import Plan


# What `options_of` says already.
_OF_THE_PLACE = ("root", "checkpoint_root", "catalog", "schema", "landing")


def plan_again(plan: Plan) -> str:
    """The same remedy, planned for the world as it is now: with the options, settings and pipeline of this plan."""
    settings = [f"--set {word(f'{key}={value}')}" for key, value in plan.settings.items() if key not in _OF_THE_PLACE]
    pipeline = [f"--pipeline {word(plan.pipeline)}"] if plan.pipeline else []
    options = " ".join([plan.options, *settings, *pipeline]).strip()
    return plan_command(environment_of(plan.environment), plan.remedy, plan.stage, options)
