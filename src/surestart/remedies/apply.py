"""Applies a plan: the world is looked at again, the queries are claimed, each step is journaled, and the proof counted.

    same digest finished ────────> nothing to do               world moved ──> refused, with what moved
    claim every touched query ──> look again ──> begun ──> steps … ──> released ──> run each stage ──> certificate

Killed anywhere, the same call goes on where it was. From `begun` to `released` no touched stage starts.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from surestart.diagnosis.commands import Commands
from surestart.environment import Environment
from surestart.errors import Refused, StoppedHalfway, SurestartError, UsageError
from surestart.failpoints import reach
from surestart.gate.describe_run import describe_run, options_of
from surestart.gate.find_owner import claim_by_file, refuse_live_owner
from surestart.registry.claim_file import claims_folder
from surestart.registry.read_runs import read_runs
from surestart.remedies.chain import Chain
from surestart.remedies.half_way import half_way
from surestart.remedies.journal import (
    BEGUN,
    DONE,
    FINISHED,
    RELEASED,
    UNDOING,
    WITHDRAWN,
    Entry,
    Journal,
    append_entry,
    now,
    read_journals,
)
from surestart.remedies.plan import Plan, Step, check_environment
from surestart.remedies.running import Running
from surestart.remedies.world import as_world, describe_moves, read_link

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Steps before this one need every touched stage to stand still; those after it are starts of the stages themselves.
RELEASE = "release"
ALREADY, APPLIED = "already applied", "applied"


@dataclass(frozen=True)
class Applied:
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
) -> Applied:
    """The plan's steps are done, the stages it starts have run, and the certificate is in the journal.

    confirm gives the target's name as somebody has typed it; it is asked only when nothing was done yet.
    """
    check_environment(plan, environment)
    if not plan.steps:
        raise UsageError(
            f"the plan {plan.digest[:12]}, a {plan.remedy} of {plan.target}, has no steps",
            meaning="There is nothing to apply. Nothing was changed.",
            next=f"surestart doctor {plan.stage} -e {environment.name} {options_of(environment)}".rstrip(),
            code="NothingToApply",
        )
    check_steps(plan)
    journal = look_up(spark, environment, plan)
    if journal is not None and journal.state == FINISHED:
        return Applied(ALREADY, journal, journal.facts("certify") or None)
    if journal is None:
        check_world(spark, chain, plan)
        _check_confirmed(plan, confirm(plan))
    reach("remedy.before_claim")
    run = Running(spark, environment, chain, plan, journal or Journal(()), say)
    if journal is None or journal.state == BEGUN:
        with claimed(run):
            reach("remedy.after_claim")
            # Everything again, now that no stage and no other remedy can move it.
            journal = look_up(spark, environment, plan)
            if journal is None:
                check_world(spark, chain, plan)
                run = begin(run)
                refuse_new_owners(run)
            elif journal.state != BEGUN:
                raise _another_applies(plan)
            else:
                run = replace(run, journal=journal)
            run = _do(run, [step for step in plan.steps if not _is_after_release(plan, step)])
            run = _enter(run, RELEASED, RELEASE)
        reach("remedy.released")
    run = _do(run, [step for step in plan.steps if _is_after_release(plan, step)])
    run = _enter(run, FINISHED, "")
    return Applied(APPLIED, run.journal, run.journal.facts("certify") or None)


def check_steps(plan: Plan) -> None:
    """Raises when this version cannot do one of the steps: found out only there, the plan would stand half-way."""
    unknown = [step.kind for step in plan.steps if not _is_known(step.kind)]
    if unknown:
        raise Refused(
            f"the plan {plan.digest[:12]} has steps that this version cannot do: {', '.join(dict.fromkeys(unknown))}",
            meaning="Another version made it, or it is for what no remedy can do yet. This call changed nothing.",
            next="surestart --version",
            do_not="do that step by hand.",
            code="StepUnknown",
        )


def _is_known(kind: str) -> bool:
    return kind.isidentifier() and importlib.util.find_spec(f"surestart.remedies.steps.{kind}") is not None


def look_up(spark: SparkSession, environment: Environment, plan: Plan) -> Journal | None:
    """The plan's own journal, if it was ever begun; raises when it was undone or another remedy stands half-way."""
    journals = read_journals(environment, spark)
    for other in journals:
        if other.is_unfinished and other.digest != plan.digest and set(other.first.queries) & set(plan.queries):
            raise half_way(other, plan.queries[0], environment, options_of(environment))
    journal = next((one for one in journals if one.digest == plan.digest), None)
    if journal is not None and journal.state in (UNDOING, WITHDRAWN):
        raise _withdrawn(plan, journal)
    return journal


def refuse_new_owners(run: Running) -> None:
    """Where claims are rows of a table, a stage may have claimed its query while the remedy began: both have written,
    and both look again. Raises with nothing changed but the journal, which an undo closes."""
    if claims_folder(run.environment) is not None or run.plan.remedy == "backfill":
        return
    for name in run.plan.touched:
        record = describe_run(run.spark, run.environment, run.chain.link(name).stage)
        commands = Commands(name, run.environment.name, options_of(run.environment))
        refuse_live_owner(record, read_runs(run.environment, run.spark), (), commands)


def begin(run: Running) -> Running:
    """The plan is in the journal: from here on the start gate lets none of its stages through."""
    plan = run.plan
    entry = Entry(
        digest=plan.digest,
        number=0,
        state=BEGUN,
        next=plan.steps[0].id,
        remedy=plan.remedy,
        stage=plan.stage,
        queries=plan.queries,
        at=now(),
    )
    append_entry(run.spark, run.environment, entry, plan.as_json())
    reach("remedy.begun")
    return replace(run, journal=Journal((entry,)))


def check_world(spark: SparkSession, chain: Chain, plan: Plan) -> None:
    """Raises Refused when a checkpoint or a table is not as it was when the plan was made."""
    if not plan.world:
        return
    moves = describe_moves(plan.world, as_world([read_link(chain.link(name), spark) for name in plan.world]))
    if moves:
        shown = "; ".join(moves[:4]) + (f"; and {len(moves) - 4} more" if len(moves) > 4 else "")
        raise Refused(
            f"the plan is stale: {shown}",
            meaning="What it would remove, and where the stages would begin, was reckoned for another state. "
            "Nothing was changed.",
            next=f"surestart plan {plan.remedy} {plan.stage} -e {plan.environment['name']} -o plan.json",
            do_not="edit the plan to fit.",
            code="PlanStale",
        )


@contextmanager
def claimed(run: Running) -> Iterator[None]:
    """No stage that the plan touches runs inside the block; raises with who holds it when one does."""
    folder = claims_folder(run.environment)
    held: list[tuple[Any, Any]] = []
    try:
        for name in run.plan.touched if run.plan.remedy != "backfill" else ():
            record = describe_run(run.spark, run.environment, run.chain.link(name).stage)
            commands = Commands(name, run.environment.name, options_of(run.environment))
            if folder is None:
                refuse_live_owner(record, read_runs(run.environment, run.spark), (), commands)
                continue
            claim = claim_by_file(folder, record, (), commands)
            assert claim.held is not None
            claim.held.write(record, claim.died)
            held.append((claim.held, claim.died))
        yield
    finally:
        for lock, died in held:
            # What is known of runs that died is written by the next start.
            lock.write(None, died)
            lock.release(clear=not died)


def _do(run: Running, steps: list[Step]) -> Running:
    for step in steps:
        if step.id in run.journal.done:
            continue
        run.say(step.what)
        module = importlib.import_module(f"surestart.remedies.steps.{step.kind}")
        try:
            facts = module.apply_step(run, step)
        except SurestartError as problem:
            raise stopped(run, step.what, problem, "apply") from problem
        reach(f"remedy.done.{step.kind}")
        run = _enter(run, DONE, step.id, facts)
        reach(f"remedy.journaled.{step.kind}")
    return run


def _enter(run: Running, state: str, step: str, facts: Mapping[str, Any] | None = None) -> Running:
    waiting = [one.id for one in run.plan.steps if one.id not in run.journal.done and one.id != step]
    return enter(run, state, step, waiting[0] if waiting else "", facts)


def enter(run: Running, state: str, step: str, following: str, facts: Mapping[str, Any] | None = None) -> Running:
    """The entry is in the journal."""
    first = run.journal.first
    entry = replace(
        first, number=run.journal.last.number + 1, state=state, step=step, next=following, at=now(), facts=facts or {}
    )
    append_entry(run.spark, run.environment, entry)
    return replace(run, journal=Journal((*run.journal.entries, entry)))


def stopped(run: Running, what: str, problem: SurestartError, verb: str) -> SurestartError:
    return StoppedHalfway(
        f"{verb} of {run.digest[:12]} stopped at: {what}: {problem.what}",
        meaning=f"{problem.meaning} What was done stands in the journal; the same command goes on from here.",
        next=f"surestart {verb} {run.digest[:12]} -e {run.environment.name} {options_of(run.environment)}".rstrip()
        + ("" if verb == "undo" else f"  # or: surestart undo {run.digest[:12]}"),
        do_not=problem.do_not or "start one of its stages by hand.",
        code=problem.code,
    )


def _is_after_release(plan: Plan, step: Step) -> bool:
    return step.kind in ("run", "certify", "unpause")


def _check_confirmed(plan: Plan, typed: str) -> None:
    if typed.strip() != plan.target:
        raise UsageError(
            f"{typed!r} is not {plan.target!r}" if typed else f"{plan.target!r} was not confirmed",
            meaning="The name of what is changed has to be typed. Nothing was changed.",
            next=f"surestart apply plan.json --confirm {plan.target}",
            code="NotConfirmed",
        )


def _another_applies(plan: Plan) -> SurestartError:
    return Refused(
        f"the plan {plan.digest[:12]} was carried on by another process meanwhile",
        meaning="It has gone past the steps that this call would have done. Nothing was changed by this call.",
        next=f"surestart apply {plan.digest[:12]}",
        code="JournalOfAnother",
    )


def _withdrawn(plan: Plan, journal: Journal) -> SurestartError:
    half = journal.state == UNDOING
    return Refused(
        f"the plan {plan.digest[:12]} {'is being undone' if half else 'was applied and undone'}",
        meaning="A plan acts once; what it rested on is the past. Nothing was changed.",
        next=f"surestart undo {plan.digest[:12]}"
        if half
        else f"surestart plan {plan.remedy} {plan.stage} -o plan.json",
        code="PlanWithdrawn",
    )
