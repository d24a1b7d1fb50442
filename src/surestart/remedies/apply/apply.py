"""Applies a plan: what it rests on is checked again, the queries are claimed, each step is journaled, the rows are
counted.

    same digest finished ────────> nothing to do               something changed ──> refused, with what changed
    claim every touched query ──> look again ──> begun ──> steps … ──> released ──> run each stage ──> certificate

Wherever it is killed, the same call goes on. From `begun` to `released` no touched stage starts. A plan that
names jobs is begun before the claims and stops them first (stop_stages); its last step sets them as they were.

A reset beside: filling its tables while the stages run, and the moment when these have to stand still.

filling ──> fill each stage, while the stages run ──> claim them ──> begun ──> check ──> swap …
   ^                                     (with jobs: begun ──> stop them ──> claim ──> check)
   ^                                                                             │ not exact, or it failed
   └──────────── the stages may run again, nothing of theirs was changed ────────┘"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.failpoints import fail_point
from surestart.history.describe_run import named, options_of
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FILLING,
    FINISHED,
    OF_ANOTHER,
    RELEASED,
    UNDOING,
    WITHDRAWN,
    Journal,
    read_journals,
)
from surestart.journal.protocol import AFTERWARDS, CHECK, FILL, kind_of
from surestart.journal.unfinished import unfinished_error
from surestart.library_types import SparkSession
from surestart.remedies.basis.beside import BESIDE, BesideNotExact
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.plan import (
    Plan,
    Step,
    check_environment,
    check_names,
    check_steps,
    check_touched,
    environment_of,
    plan_again,
)
from surestart.remedies.basis.preconditions import check_preconditions
from surestart.remedies.basis.step_context import (
    StepContext,
    StopOptions,
    again,
    begin,
    begin_alone,
    carried_on,
    claimed_queries,
    enter,
    enter_done,
    read_again,
    refuse_new_owners,
    refuse_rivals,
    stopped,
)
from surestart.remedies.jobs.plan_jobs import stops_jobs
from surestart.remedies.jobs.set_jobs_back import jobs_back_on_failure, set_jobs_back
from surestart.remedies.jobs.stop_stages import stop_stages_to_apply, stop_stages_to_swap
from surestart.remedies.loss.new_loss import refuse_new_loss
from surestart.remedies.steps import module_of
from surestart.typed import surestart

# Steps before this one need every touched stage to stand still; those after it are starts of the stages themselves.
RELEASE = "release"
ALREADY, APPLIED = "already applied", "applied"


@dataclass(frozen=True)
class Applied:
    """What was done.

    outcome: "applied", or "already applied" where the same plan had been applied before.
    journal: each step of the remedy, as it was written down.
    certificate: the counted proof of the last step; None where the plan counts nothing."""

    outcome: str
    journal: Journal
    certificate: Mapping[str, Any] | None = None


def apply_plan(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    plan: Plan,
    confirm: Callable[[Plan], str],
    say: Callable[[str], object] = lambda line: None,
    stopping: StopOptions | None = None,
) -> Applied:
    """The plan's steps are done, the stages it starts have run, and the certificate is in the journal.

    confirm gives the target's name as somebody has typed it; it is asked only when nothing was done yet.
    """
    check_environment(plan, environment)
    if not plan.steps:
        raise UsageError(
            f"the plan {plan.digest[:12]}, a {plan.remedy} of {plan.target}, has no steps",
            meaning="There is nothing to apply. Nothing was changed.",
            next=surestart("doctor", plan.stage, place=named(environment)),
            code="NothingToApply",
        )
    check_steps(plan)
    check_names(plan, chain, environment)
    journal = look_up(spark, environment, plan)
    run = StepContext(spark, environment, chain, plan, journal or Journal(()), say, stopping or StopOptions())
    if journal is not None and journal.state == FINISHED:
        # An undo that was given up may have died before it had started the jobs again.
        return Applied(ALREADY, set_jobs_back(run).journal, journal.facts("certify") or None)
    if journal is None:
        check_touched(plan, chain, environment)
        check_preconditions(spark, chain, plan)
        if any(kind_of(step.kind).removes_rows for step in plan.steps):
            refuse_new_loss(run, begun=False)
        _check_confirmed(plan, confirm(plan))
    fail_point("remedy.before_claim")
    if journal is None or journal.state in (FILLING, BEGUN):
        if plan.method == BESIDE:
            run = _do(begin_filling(run) if journal is None else run, plan.of_kind(FILL))
        with ExitStack() as claims:
            if plan.method == BESIDE:
                counting = plan.of_kind(CHECK)
                run = claim_and_begin_swap(run, claims, lambda now: _do(now, counting))
            elif stops_jobs(plan):
                run = stop_stages_to_apply(run, claims, begun=journal is not None)
            else:
                run = _claim_and_begin(run, claims)
            run = _do(run, [step for step in plan.steps if not _is_after_release(step)])
            run = enter_done(run, RELEASED, RELEASE)
        fail_point("remedy.released")
    with jobs_back_on_failure(run):
        run = _do(run, [step for step in plan.steps if _is_after_release(step)])
    run = enter_done(run, FINISHED, "")
    return Applied(APPLIED, run.journal, run.journal.facts("certify") or None)


def _claim_and_begin(run: StepContext, claims: ExitStack) -> StepContext:
    """Nobody else acts on the queries from here on, and the plan is begun, now or before."""
    claims.enter_context(claimed_queries(run))
    fail_point("remedy.after_claim")
    # All is checked again, now that no stage and no other remedy can change it.
    journal = look_up(run.spark, run.environment, run.plan)
    if journal is None:
        check_preconditions(run.spark, run.chain, run.plan)
        return begin_alone(run)
    if journal.state != BEGUN:
        raise carried_on(run, "apply")
    return replace(run, journal=journal)


def look_up(spark: SparkSession, environment: Environment, plan: Plan) -> Journal | None:
    """The plan's own journal, if it was ever begun; raises when it was undone or another remedy stands half-way."""
    journals = read_journals(environment, spark)
    for other in journals:
        if other.is_unfinished and other.digest != plan.digest and set(other.first.queries) & set(plan.queries):
            raise unfinished_error(other, plan.queries[0], environment, options_of(environment))
    journal = next((one for one in journals if one.digest == plan.digest), None)
    if journal is not None and journal.state in (UNDOING, WITHDRAWN):
        raise _withdrawn(plan, journal)
    return journal


def _do(run: StepContext, steps: Iterable[Step]) -> StepContext:
    looked = False
    for step in steps:
        if step.id in run.journal.done:
            continue
        run.say(step.what)
        module = module_of(step.kind)
        try:
            if kind_of(step.kind).removes_rows and not looked:
                # Before the first step of this process: the plan may have stood half-way for days.
                refuse_new_loss(run, begun=True)
                looked = True
            facts = module.apply_step(run, step)
        except Exception as problem:
            if isinstance(problem, Refused) and problem.code == OF_ANOTHER:
                raise  # Another process goes on with the plan, or has come to its end.
            decides = kind_of(step.kind).decides
            if decides and stops_jobs(run.plan):
                raise  # claim_and_begin_swap lets the stages go on, and their jobs with them.
            if decides:
                let_stages_run(run)
            if isinstance(problem, BesideNotExact):
                raise
            raise stopped(run, step.what, problem, "apply") from problem
        fail_point(f"remedy.done.{step.kind}")
        run = enter_done(run, DONE, step.id, facts)
        fail_point(f"remedy.journaled.{step.kind}")
    return run


def _is_after_release(step: Step) -> bool:
    return kind_of(step.kind).phase == AFTERWARDS


def _check_confirmed(plan: Plan, typed: str) -> None:
    if typed.strip() != plan.target:
        raise UsageError(
            f"{typed!r} is not {plan.target!r}" if typed else f"{plan.target!r} was not confirmed",
            meaning="The name of what is changed must be typed. Nothing was changed.",
            next=surestart(
                "apply", "plan.json", "--confirm", plan.target, place=named(environment_of(plan.environment))
            ),
            code="NotConfirmed",
        )


def _withdrawn(plan: Plan, journal: Journal) -> SurestartError:
    half = journal.state == UNDOING
    return Refused(
        f"the plan {plan.digest[:12]} {'is being undone' if half else 'was applied and undone'}",
        meaning="A plan acts once; what it was made from is no longer so. Nothing was changed.",
        next=surestart("undo", plan.digest[:12], place=named(environment_of(plan.environment)))
        if half
        else plan_again(plan),
        code="PlanWithdrawn",
    )


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
