"""Sets the jobs as they were before the remedy paused them; what somebody else had paused stays paused."""

from __future__ import annotations

from typing import Any

from surestart.remedies.jobs_back import start_jobs
from surestart.remedies.journal import UNDOING
from surestart.remedies.journaling import carried_on, read_again
from surestart.remedies.plan import Step
from surestart.remedies.running import Running


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    # As it is now: an undo may have paused them again, or another remedy of these stages, which then sets them back.
    now = read_again(run).journal
    if now.state == UNDOING:
        raise carried_on(run, "undo")
    before = now.paused_jobs
    if before is None:
        return {}
    return start_jobs(run, before).as_dict()
