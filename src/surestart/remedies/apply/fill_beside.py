"""A reset beside: filling its tables while the stages run, and the moment when these have to stand still.

filling ──> fill each stage, while the stages run ──> claim them ──> begun ──> check ──> swap …
   ^                                     (with jobs: begun ──> stop them ──> claim ──> check)
   ^                                                                             │ not exact, or it failed
   └──────────── the stages may run again, nothing of theirs was changed ────────┘
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from surestart.errors import Refused, SurestartError
from surestart.failpoints import fail_point
from surestart.journal.journal import BEGUN, FILLING, WITHDRAWN, Journal, read_journals
from surestart.remedies.basis.preconditions import check_preconditions
from surestart.remedies.basis.step_context import (
    StepContext,
    again,
    begin,
    carried_on,
    claimed_queries,
    enter,
    enter_done,
    read_again,
    refuse_new_owners,
    refuse_rivals,
)
from surestart.remedies.jobs.plan_jobs import stops_jobs
from surestart.remedies.jobs.stop_stages import stop_stages_to_swap


def begin_filling(run: StepContext) -> StepContext:
    """The plan is in the journal, and no other remedy of its stages begins; the stages themselves go on."""
    run = begin(run, FILLING)
    fail_point("remedy.filling")
    try:
        refuse_rivals(run)
    except SurestartError:
        enter(run, WITHDRAWN, "", "")
        raise
    return run


def claim_and_begin_swap(
    run: StepContext, claims: ExitStack, check: Callable[[StepContext], StepContext]
) -> StepContext:
    """The stages stand still, and the start gate lets none of them through. Where the stages have jobs, the count was
    exact too: if it was not, the jobs go on."""
    if stops_jobs(run.plan):
        return stop_stages_to_swap(run, claims, _look, check)
    try:
        claims.enter_context(claimed_queries(run))
    except Refused as problem:
        raise Refused(
            f"the new tables are filled, and the stages have to stand still for the swap: {problem.what}",
            meaning="Nothing was swapped. What was filled stays; what arrives meanwhile is read before the swap.",
            next=again(run, "apply").noting("once it is stopped"),
            do_not=problem.do_not,
            code=problem.code,
        ) from problem
    fail_point("remedy.after_claim")
    run = read_again(run)
    if run.journal.state == BEGUN:
        return run
    if run.journal.state != FILLING:
        raise carried_on(run, "apply")
    _look(run)
    run = enter_done(run, BEGUN, "")
    fail_point("remedy.begun")
    try:
        refuse_new_owners(run)
    except SurestartError:
        enter_done(run, FILLING, "")
        raise
    return run


def let_stages_run(run: StepContext) -> None:
    """After a check that did not hold: nothing of theirs was changed."""
    enter_done(run, FILLING, "")


def _look(run: StepContext) -> None:
    check_preconditions(run.spark, run.chain, run.plan)
    _refuse_overtaken(run)


def _refuse_overtaken(run: StepContext) -> None:
    """Another remedy that began at the same moment may have cleared what these tables were filled to replace."""
    journals = read_journals(run.environment, run.spark)
    later: list[Journal] = []
    for other in reversed(journals):
        if other.digest == run.digest:
            break
        if other.state != WITHDRAWN and set(other.first.queries) & set(run.plan.queries):
            later.append(other)
    if later:
        first = later[-1].first
        raise Refused(
            f"a {first.remedy} of {first.stage} ({first.digest[:12]}) began while the new tables were filled",
            meaning="The tables that they were to replace have changed. Nothing was swapped.",
            next=again(run, "undo").noting("then plan again"),
            code="RemedyOvertaken",
        )
