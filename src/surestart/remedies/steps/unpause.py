"""Sets the jobs as they were before the remedy paused them; what somebody else had paused stays paused."""

from __future__ import annotations

from typing import Any

from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext, read_again
from surestart.remedies.jobs.set_jobs_back import start_jobs


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    # As it is now: another remedy of these stages may have paused them again, and then sets them back.
    before = read_again(run).journal.paused_jobs
    if before is None:
        return {}
    return start_jobs(run, before).as_dict()
