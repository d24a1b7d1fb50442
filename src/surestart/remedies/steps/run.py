"""Runs a stage to the end of the available data, through the start gate like any other start."""

from __future__ import annotations

from typing import Any

from surestart.remedies.plan import Step
from surestart.remedies.running import Running


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    from surestart.runner import run_stage

    def tell(progress: Any) -> None:
        run.say(f"  {progress.stage}: batch {progress.batch}, {progress.rows:,} rows")

    # What the plan says it leaves out was accepted with the plan.
    accept = step.arguments.get("accept", ())
    done = run_stage(run.spark, run.environment, run.chain.link(step.stage).stage, on_progress=tell, accept=accept)
    return {"query_id": done.query_id, "batches": done.batches, "rows": done.rows}
