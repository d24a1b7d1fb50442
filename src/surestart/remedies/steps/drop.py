"""Drops what was filled beside: the tables hold it now. It stays when the last count was not exact."""

from __future__ import annotations

from typing import Any

from surestart.failpoints import fail_point
from surestart.remedies.basis.beside import beside_of, drop_beside
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    if run.facts("certify").get("exact") is False:
        own, _ = beside_of(run)
        run.say(f"  the count is not exact: what was filled stays as …__beside_{own.tag}")
        return {"kept": own.tag}
    drop_beside(run)
    fail_point("remedy.drop.after_tables")
    return {}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    return {}
