"""Undoes a remedy: its steps backwards, journaled like the steps themselves, and safe to die in.

    claim every touched query ──> undoing ──> tables restored, checkpoints back ──> how each stage goes on ──> withdrawn

Tables come first: a RESTORE is what can turn out to be impossible, and before the first one nothing has changed yet.
Rows that the stages wrote since are taken back with the tables. What arrived since is not lost: the restored
checkpoints read it again.

Takes back a backfill that was begun and has not written all its rows, so that other remedies may begin.

    undoing ──> an empty commit under its identity in every output (in a database's ledger: a row) ──> withdrawn
           └──> every output has its own commit already ──> done, released    the rows were missing and are right

Delta lets one commit of an identity through. After the empty one, a process of this backfill that is still alive, or
wakes up later, adds nothing to that table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from surestart.environment import Environment, Table
from surestart.errors import Refused, SurestartError, UsageError
from surestart.facts.delta.commit_notes import note_of
from surestart.failpoints import fail_point
from surestart.history.describe_run import named, options_of
from surestart.journal.commit_once import find_commit
from surestart.journal.journal import (
    BEGUN,
    DONE,
    OF_ANOTHER,
    RELEASED,
    UNDOING,
    UNDONE,
    WITHDRAWN,
    Journal,
    read_journals,
    read_plan_text,
)
from surestart.journal.protocol import (
    BACKFILL,
    CHECK,
    CHECKPOINT,
    DATABASE,
    FILL,
    OWN_SINK,
    PLACE,
    TABLE,
    changes_content,
    kind_of,
)
from surestart.journal.unfinished import unfinished_error
from surestart.library_types import SparkSession
from surestart.remedies.apply.undo_loss import refuse_undo_loss
from surestart.remedies.apply.undo_source import refuse_not_given_again
from surestart.remedies.apply.undo_starts import check_open_undo, end_failed_undo, refuse_unstartable
from surestart.remedies.basis.beside import BESIDE
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.plan import (
    FORK,
    Plan,
    Step,
    check_environment,
    check_names,
    check_steps,
    parse_plan,
    steps_of_kind,
)
from surestart.remedies.basis.step_context import (
    StepContext,
    StopOptions,
    again,
    carried_on,
    claimed_queries,
    enter,
    enter_done,
    read_again,
    refuse_new_owners,
)
from surestart.remedies.jobs.plan_jobs import stops_jobs
from surestart.remedies.jobs.set_jobs_back import set_jobs_back
from surestart.remedies.jobs.stop_stages import stop_stages_to_undo
from surestart.remedies.steps import module_of
from surestart.remedies.steps.backfill import identity_of
from surestart.remedies.steps.clear import check_version
from surestart.remedies.steps.database import check_kept, removal_of
from surestart.remedies.steps.fork import check_fork
from surestart.remedies.steps.move import check_moved
from surestart.remedies.steps.retire import check_retired
from surestart.remedies.steps.sink import check_removed
from surestart.sinks.delta.transaction import append_pair
from surestart.sinks.postgres.remedy import withdraw_filling
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.typed import surestart


def find_applied(spark: SparkSession, environment: Environment, digest: str) -> Plan:
    """The plan in the journal whose digest begins so."""
    found = [one for one in read_journals(environment, spark) if one.digest.startswith(digest.lower())]
    if len(digest) < 8 or len(found) != 1:
        known = ", ".join(one.digest[:12] for one in read_journals(environment, spark)[-5:])
        raise UsageError(
            f"{digest!r} names {len(found)} remedies of this environment"
            + (f"; the newest are {known}" if known else "; none was ever applied here"),
            meaning="Nothing was changed.",
            next=surestart("history", place=named(environment)),
            code="RemedyNotFound",
        )
    return parse_plan(read_plan_text(spark, environment, found[0].digest), f"the journal's plan {digest}")


def undo_remedy(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    plan: Plan,
    confirm: Callable[[Plan], str],
    say: Callable[[str], object] = lambda line: None,
    accept_loss: int | None = None,
    stopping: StopOptions | None = None,
) -> Journal:
    """Checkpoints and tables are what they were before the remedy, and every touched stage may start."""
    check_environment(plan, environment)
    check_steps(plan)
    check_names(plan, chain, environment, "undo")
    journals = read_journals(environment, spark)
    journal = next((one for one in journals if one.digest == plan.digest), None)
    if journal is None:
        raise _never_applied(plan, environment)
    run = StepContext(spark, environment, chain, plan, journal, say, stopping or StopOptions())
    if journal.state == WITHDRAWN:
        # It may have died before it had started the jobs again.
        return set_jobs_back(run).journal
    _refuse_overtaken(journals, journal, environment)
    begun_backfill = is_begun_backfill(plan, journal)
    if not plan.undo and not begun_backfill:
        raise _no_undo(plan, environment)
    if journal.state != UNDOING:
        _check_confirmed(plan, confirm(plan), environment)
    if begun_backfill:
        return withdraw_backfill(run)

    def check(now: StepContext) -> None:
        journals = read_journals(environment, spark)
        _refuse_overtaken(journals, next(one for one in journals if one.digest == plan.digest), environment)
        check_undo(now, accept_loss)

    with ExitStack() as claims:
        run = _begin_undo(run, claims, check)
        if run.journal.state == WITHDRAWN:
            return run.journal
        order = undo_order(plan, run.journal)
        if journal.state == UNDOING:
            check_open_undo(run, order, check)
        run = enter(_take_back(run, order, accept_loss), WITHDRAWN, "", "")
        fail_point("remedy.withdrawn")
    return set_jobs_back(run).journal


def _begin_undo(run: StepContext, claims: ExitStack, check: Callable[[StepContext], None]) -> StepContext:
    """The undo is begun, or another process has ended it. Stages of which anything was changed stand still."""
    plan, taken_over = run.plan, has_taken_over(run.plan, run.journal)
    if taken_over and stops_jobs(plan):
        return stop_stages_to_undo(run, claims, _first_of(undo_order(plan, run.journal)), check)
    if taken_over:
        claims.enter_context(claimed_queries(run))
    # Read now, when nobody else can go on with it. A fill stops at its next entry in the journal.
    run = read_again(run)
    if has_taken_over(plan, run.journal) != taken_over:
        raise carried_on(run, "undo")
    if run.journal.state == WITHDRAWN:
        return run
    if run.journal.state == UNDOING:
        _refuse_overtaken(read_journals(run.environment, run.spark), run.journal, run.environment)
        return run
    check(run)
    return _begin_undo_alone(run, _first_of(undo_order(plan, run.journal)))


def _first_of(order: list[Step]) -> str:
    return order[0].id if order else ""


def _take_back(run: StepContext, order: list[Step], accept_loss: int | None) -> StepContext:
    """Each step that was not taken back before is taken back."""
    for index, step in enumerate(order):
        if step.id in run.journal.undone:
            continue
        run.say(f"take back: {step.what}")
        module = module_of(step.kind)
        try:
            if changes_content(step.kind) and step.stage == run.plan.stage:
                # Again: an undo that lay half-way may have outlasted the source's retention.
                check_version(run, step)
                refuse_undo_loss(run, accept_loss)
            facts = module.undo_step(run, step)
        except Exception as problem:
            if isinstance(problem, Refused) and problem.code == OF_ANOTHER:
                raise  # Another process goes on with the undo, or has come to its end.
            raise end_failed_undo(run, step, problem) from problem
        fail_point(f"remedy.undone.{step.kind}")
        run = enter(run, UNDONE, step.id, _first_of(order[index + 1 :]), facts)
    return run


def _check_confirmed(plan: Plan, typed: str, environment: Environment) -> None:
    if typed.strip() != plan.target:
        raise UsageError(
            f"{plan.target!r} was not confirmed",
            meaning="The name of what is changed must be typed. Nothing was changed.",
            next=surestart("undo", plan.digest[:12], "--confirm", plan.target, place=named(environment)),
            code="NotConfirmed",
        )


def _never_applied(plan: Plan, environment: Environment) -> UsageError:
    return UsageError(
        f"the plan {plan.digest[:12]} was never applied here",
        meaning="There is nothing to undo.",
        next=surestart("apply", "plan.json", "--confirm", plan.target, place=named(environment)),
    )


def _no_undo(plan: Plan, environment: Environment) -> Refused:
    return Refused(
        f"a {plan.remedy} has nothing that could be undone",
        meaning="The rows that it has added were missing and are right: they stay. Nothing was changed."
        if plan.kind.adds_only
        else "Read what the plan said about it. Nothing was changed.",
        next=surestart("status", place=named(environment)),
        code="NoUndo",
    )


def _begin_undo_alone(run: StepContext, following: str) -> StepContext:
    """The undo is begun, and nobody else began meanwhile. Raises with the journal as it was."""
    former = run.journal.state
    run = enter(run, UNDOING, "", following)
    fail_point("remedy.undoing")
    try:
        _refuse_overtaken(read_journals(run.environment, run.spark), read_again(run).journal, run.environment)
        if has_taken_over(run.plan, run.journal):
            refuse_new_owners(run)
    except SurestartError:
        enter(run, former, "", "")
        raise
    return run


# For what a step has changed: who looks whether it can come back.
_LOOKS: dict[str, Callable[[StepContext, Step], None]] = {
    TABLE: check_version,
    CHECKPOINT: check_retired,
    PLACE: check_moved,
    DATABASE: check_kept,
    OWN_SINK: check_removed,
}


def check_undo(run: StepContext, accept_loss: int | None = None) -> None:
    """Raises, with nothing changed, when a table's former version or a retired checkpoint is not there any more."""
    if run.plan.method == FORK:
        check_fork(run)
        return
    for step in run.plan.steps:
        look = _LOOKS.get(kind_of(step.kind).changes)
        # A table may have been changed by a process that died before the journal knew.
        if look is not None and (changes_content(step.kind) or step.id in run.journal.done):
            look(run, step)
    if run.plan.kind.keeps_tables:
        return  # Tables stay as they are, and the checkpoint keeps what it has by now.
    refuse_unstartable(run)
    # It reads those versions.
    refuse_undo_loss(run, accept_loss)
    refuse_not_given_again(run)


def has_taken_over(plan: Plan, journal: Journal) -> bool:
    """Whether a table or a checkpoint of the stages was changed, or may have been. Not while tables are filled
    beside."""
    return plan.method != BESIDE or CHECK in journal.done


def undo_order(plan: Plan, journal: Journal | None = None) -> list[Step]:
    """Backwards, but for the ranks of `STEP_KINDS`."""
    if journal is not None and not has_taken_over(plan, journal):
        return list(plan.of_kind(FILL)[:1])
    ranks = {step.id: kind_of(step.kind).undo_rank for step in plan.steps}
    back = [step for step in reversed(plan.steps) if ranks[step.id] is not None]
    # What was filled beside is dropped with the first of them.
    filled = steps_of_kind(back, FILL)
    back = [step for step in back if step not in filled[:-1]]
    return sorted(back, key=lambda step: ranks[step.id] or 0)


def _refuse_overtaken(journals: tuple[Journal, ...], journal: Journal, environment: Environment) -> None:
    position = journals.index(journal)
    later = [
        one
        for one in journals[position + 1 :]
        if one.state != WITHDRAWN and set(one.first.queries) & set(journal.first.queries)
    ]
    # A backfill only adds rows, and an undo takes them back like those of the stage itself. Not while it writes.
    later = [one for one in later if not one.first.kind.adds_only or one.is_unfinished]
    for one in later:
        if one.is_open or one.first.kind.adds_only:
            raise unfinished_error(one, one.first.queries[0], environment, options_of(environment))
    if later:
        newest = later[-1]
        raise Refused(
            f"a {newest.first.remedy} of {newest.first.stage} ({newest.digest[:12]}) was applied after this one",
            meaning="It builds on what this one left; if this one were undone first, neither would be whole.",
            next=surestart("undo", newest.digest[:12], place=named(environment)),
            code="RemedyOvertaken",
        )


def is_begun_backfill(plan: Plan, journal: Journal) -> bool:
    return plan.kind.adds_only and journal.state in (BEGUN, UNDOING)


def withdraw_backfill(run: StepContext) -> Journal:
    """No process writes under its identity any more. Raises where all its rows are written: they are not taken back."""
    run = read_again(run)
    if run.journal.state == WITHDRAWN:
        return run.journal
    if run.journal.state not in (BEGUN, UNDOING):
        raise carried_on(run, "undo")
    step = run.plan.of_kind(BACKFILL)[0]
    if run.journal.state != UNDOING:
        # Before all else: an `apply` after the empty commit would think that the hole is filled.
        run = enter(run, UNDOING, "", step.id)
        fail_point("remedy.undoing")
    link = run.chain.link(step.stage)
    # In every output, even if the first one has decided already: a process that wakes up later would write to the
    # others.
    used_up = [] if step.id in run.journal.done else [_used_up(run, step, output.table) for output in link.outputs]
    if step.id not in run.journal.done:
        used_up += [withdraw_filling(removal_of(run, link, sink)) for sink in link.databases]
    if not any(used_up):
        if step.id not in run.journal.done:
            run = enter_done(run, DONE, step.id)
        run = enter_done(run, RELEASED, "release")
        raise Refused(
            f"the backfill {run.digest[:12]} has written its rows",
            meaning="They were missing and are right, so they stay. Other remedies may begin.",
            next=again(run, "apply").noting("runs the stages below, and counts"),
            code="NoUndo",
        )
    return enter(run, WITHDRAWN, "", "").journal


def _used_up(run: StepContext, step: Step, table: Table) -> bool:
    """Whether the identity's one commit in the table is the empty one."""
    mark = f"withdrawn:{step.id}"
    if find_commit(run.spark, table, run.digest, mark) is None:
        with applied(run.spark, pairs(EVERYWHERE)):
            append_pair(run.spark, table, identity_of(run), 0, note_of(run.digest, mark))
        fail_point("remedy.backfill.used_up")
    return find_commit(run.spark, table, run.digest, mark) is not None
