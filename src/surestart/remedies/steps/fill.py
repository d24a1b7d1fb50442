"""Fills a stage's tables beside the real ones, to the end of the available data, under an identity of their own."""

from __future__ import annotations

from typing import Any

from surestart.errors import SurestartError
from surestart.failpoints import fail_point
from surestart.journal.journal import UNDOING, WITHDRAWN
from surestart.remedies.basis.beside import beside_of, drop_beside
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext, carried_on, read_again
from surestart.words.amounts import rows_or_unknown


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The tables beside hold all that the stage could read when this began."""
    _, chain = beside_of(run)
    rows = fill(run, chain.link(step.stage))
    fail_point("remedy.fill.after_run")
    return {"rows": rows}


def fill(run: StepContext, link: Link) -> int | None:
    from surestart.runs.runner import run_stage

    own, _ = beside_of(run)

    def tell(progress: Any) -> None:
        run.say(f"  {progress.stage}, beside: batch {progress.batch}, {rows_or_unknown(progress.rows)} rows")

    _refuse_ended(run)
    # Through the gate like any other start: its claim keeps a second apply out, its checks see a damaged checkpoint.
    rows = run_stage(run.spark, own, link.stage, on_progress=tell).rows
    fail_point("remedy.fill.ran")
    try:
        _refuse_ended(run)
    except SurestartError:
        # It was filled after the drop, so nobody else would drop it.
        drop_beside(run)
        raise
    return rows


def _refuse_ended(run: StepContext) -> None:
    """Another process of this plan may have come to its end, or taken it back, and dropped what is beside."""
    now = read_again(run).journal
    if now.state in (UNDOING, WITHDRAWN) or "drop" in now.done:
        raise carried_on(run, "undo" if now.state == UNDOING else "apply")


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """Nothing is left beside, of this stage and of the others."""
    drop_beside(run)
    return {}
