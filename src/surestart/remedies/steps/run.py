"""Runs a stage to the end of the available data, through the start gate like any other start.

One that runs already reads its input itself: a live stream below a backfill, or a schedule that came first.
"""

from __future__ import annotations

from typing import Any

from surestart.errors import Refused
from surestart.gate.find_owner import OWNER_RUNNING
from surestart.remedies.plan import Step
from surestart.remedies.running import Running


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    from surestart.runner import run_stage

    def tell(progress: Any) -> None:
        run.say(f"  {progress.stage}: batch {progress.batch}, {progress.rows:,} rows")

    try:
        done = run_stage(run.spark, run.environment, run.chain.link(step.stage).stage, on_progress=tell)
    except Refused as problem:
        if problem.code != OWNER_RUNNING:
            raise
        run.say(f"  {step.stage} runs already and reads its input itself; what it has not read is counted as pending")
        return {"left_to": problem.what}
    return {"query_id": done.query_id, "batches": done.batches, "rows": done.rows}
