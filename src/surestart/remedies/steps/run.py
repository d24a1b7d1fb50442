"""Runs a stage to the end of the available data, through the start gate like any other start.

A stage that runs already needs no start: it reads its input itself. It may be a live stream below a backfill, or a
schedule that came first.
"""

from __future__ import annotations

from typing import Any

from surestart.errors import Refused
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext
from surestart.runs.find_owner import OWNER_RUNNING
from surestart.words.amounts import rows_or_unknown


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    from surestart.runs.runner import run_stage

    def tell(progress: Any) -> None:
        run.say(f"  {progress.stage}: batch {progress.batch}, {rows_or_unknown(progress.rows)} rows")

    # A sink that the plan leaves out was accepted with the plan.
    accept = step.arguments.get("accept", ())
    stage = run.chain.link(step.stage).stage
    try:
        done = run_stage(run.spark, run.environment, stage, on_progress=tell, accept=accept)
    except Refused as problem:
        if problem.code != OWNER_RUNNING:
            raise
        run.say(f"  {step.stage} runs already and reads its input itself; what it has not read is counted as pending")
        return {"left_to": problem.what}
    return {"query_id": done.query_id, "batches": done.batches, "rows": done.rows}
