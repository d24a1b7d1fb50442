"""Counts every row from the source to the last table; the count stays in the journal."""

from __future__ import annotations

from typing import Any

from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    from surestart.remedies.count.certificate import certify

    return certify(run.spark, run.environment, run.chain).as_dict()
