"""The command that plans a remedy anew, from what is there now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.history.describe_run import settings_of
from surestart.journal.next_command import plan_command
from surestart.remedies.basis.plan import environment_of
from surestart.typed import NextCommand

if TYPE_CHECKING:
    from surestart.remedies.basis.plan import Plan


# What `options_of` says already.
_OF_THE_PLACE = ("root", "checkpoint_root", "catalog", "schema", "landing")


def plan_again(plan: Plan) -> NextCommand:
    """The command that plans the same remedy from what is there now, with the options, settings and pipeline of this
    plan."""
    settings = settings_of({key: value for key, value in plan.settings.items() if key not in _OF_THE_PLACE})
    pipeline = ("--pipeline", plan.pipeline) if plan.pipeline else ()
    there = environment_of(plan.environment)
    return plan_command(there, plan.remedy, plan.stage, *plan.options, *settings, *pipeline)
