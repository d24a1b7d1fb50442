"""What every step of a remedy is given: the plan, its journal, and where it acts.

The queries that a remedy touches are its own while it acts: no stage runs, and no other remedy acts on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError
from surestart.facts.delta.pinned import first_line
from surestart.failpoints import fail_point
from surestart.history.claim_file import claims_folder
from surestart.history.describe_run import describe_run, named, options_of, plan_command
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_deciding_runs
from surestart.journal.journal import (
    BEGUN,
    OF_ANOTHER,
    RELEASED,
    UNDOING,
    WITHDRAWN,
    Journal,
    JournalEntry,
    append_entry,
    now,
    read_journals,
)
from surestart.journal.protocol import check_move
from surestart.journal.unfinished import unfinished_error
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.plan import Plan, Step, plan_again
from surestart.remedies.basis.preconditions import check_preconditions
from surestart.runs.find_owner import claim_by_file, refuse_live_owner
from surestart.typed import NextCommand, surestart
from surestart.words.next_commands import Commands


@dataclass(frozen=True)
class StopOptions:
    """How the stages are stopped.

    client: a WorkspaceClient; None: the one that is configured.
    accept: OWNER_UNKNOWN where somebody knows that the silent driver has ended."""

    client: Any = None
    poll_seconds: float = 5.0
    limit_seconds: float = 900.0
    accept: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepContext:
    """What every step of a remedy is given.

    journal: as it was read after the newest entry.
    say: one line for the person who waits."""

    spark: SparkSession
    environment: Environment
    chain: Chain
    plan: Plan
    journal: Journal
    say: Callable[[str], object]
    stopping: StopOptions = StopOptions()

    @property
    def digest(self) -> str:
        return self.plan.digest

    def facts(self, step: str) -> Mapping[str, Any]:
        return self.journal.facts(step)


def begin(run: StepContext, state: str = BEGUN) -> StepContext:
    """The plan is in the journal: from here on the start gate lets none of its stages through. In the state FILLING it
    still does."""
    plan = run.plan
    entry = JournalEntry(
        digest=plan.digest,
        number=0,
        state=state,
        next=plan.steps[0].id,
        remedy=plan.remedy,
        stage=plan.stage,
        queries=plan.queries,
        at=now(),
    )
    append_entry(run.spark, run.environment, entry, plan.as_json())
    return replace(run, journal=Journal((entry,)))


def enter(
    run: StepContext, state: str, step: str, following: str, facts: Mapping[str, Any] | None = None
) -> StepContext:
    """The entry is in the journal."""
    check_move(run.journal.state, state)
    first = run.journal.first
    entry = replace(
        first, number=run.journal.last.number + 1, state=state, step=step, next=following, at=now(), facts=facts or {}
    )
    append_entry(run.spark, run.environment, entry)
    return replace(run, journal=Journal((*run.journal.entries, entry)))


def enter_done(run: StepContext, state: str, step: str, facts: Mapping[str, Any] | None = None) -> StepContext:
    """The same, with the plan's next open step as what follows."""
    waiting = [one.id for one in run.plan.steps if one.id not in run.journal.done and one.id != step]
    return enter(run, state, step, waiting[0] if waiting else "", facts)


def read_again(run: StepContext) -> StepContext:
    """As the journal is now."""
    journals = read_journals(run.environment, run.spark)
    return replace(run, journal=next(one for one in journals if one.digest == run.digest))


def in_four_parts(problem: Exception) -> SurestartError:
    """A failure of Spark, Delta or the file system in the four parts of our own."""
    if isinstance(problem, SurestartError):
        return problem
    return CannotTell(
        f"{type(problem).__name__}: {first_line(problem)}",
        meaning="Spark, Delta or the file system failed at this step.",
        next=surestart("explain", "-", note="with the traceback on stdin"),
    )


def stopped(run: StepContext, what: str, failure: Exception, verb: str) -> SurestartError:
    problem = in_four_parts(failure)
    held = run.journal.paused_jobs is not None and run.journal.state != RELEASED
    jobs = " The jobs that it has paused stay paused until then." if held else ""
    on = again(run, verb)
    undoable = run.plan.undo or run.journal.is_unfinished
    return StoppedHalfway(
        f"{verb} of {run.digest[:12]} stopped at: {what}: {problem.what}",
        meaning=f"{problem.meaning} What was done is in the journal; the same command goes on from here.{jobs}",
        next=on if verb == "undo" or not undoable else on.noting("or", again(run, "undo")),
        do_not=problem.do_not or ("start one of its stages by hand." if run.journal.is_open else ""),
        code=problem.code if problem is failure else "StepFailed",
    )


def carried_on(run: StepContext, verb: str) -> Refused:
    """The error for a call that finds the journal past the steps that it would have done."""
    return Refused(
        f"the plan {run.digest[:12]} was carried on by another process meanwhile",
        meaning="It has gone past the steps that this call would have done. Nothing was changed by this call.",
        next=again(run, verb),
        code=OF_ANOTHER,
    )


def refuse_carried_on(run: StepContext, verb: str) -> None:
    """Called right before a RESTORE, an overwrite or the move of a folder. Raises when another process has written into
    the remedy's journal since: it may be done, and its stages may run again. On a catalog nothing else keeps two
    processes of one remedy apart."""
    fail_point("remedy.before_change")
    if read_again(run).journal.last.number != run.journal.last.number:
        raise carried_on(run, verb)


def too_late(run: StepContext, step: Step, what: str, meaning: str = "Its former rows cannot come back.") -> Refused:
    """The error for an undo whose step finds no more of what it would bring back."""
    return Refused(
        what,
        meaning=f"{meaning} Nothing was changed.",
        next=plan_command(run.environment, "reset", step.stage, note="rebuilds it from its source"),
        code="UndoTooLate",
    )


def set_up_differently(run: StepContext, step: Step, what: str) -> Refused:
    """The error for a step that is about something to which its stage does not write any more."""
    return Refused(
        f"the plan clears {what}, and {run.chain.link(step.stage).query} does not write there",
        meaning="The stage is set up differently from when this was planned. Nothing was changed.",
        next=plan_again(run.plan),
        code="PlanStale",
    )


def again(run: StepContext, verb: str) -> NextCommand:
    """The command that goes on with this remedy, or takes it back."""
    return surestart(verb, run.digest[:12], place=named(run.environment))


@contextmanager
def claimed_queries(run: StepContext) -> Iterator[None]:
    """No stage that the plan touches runs inside the block; raises with who holds it when one does."""
    folder = claims_folder(run.environment)
    held: list[tuple[Any, Any]] = []
    try:
        for name in run.plan.touched if not run.plan.kind.adds_only else ():
            record = describe_run(run.spark, run.environment, run.chain.link(name).stage)
            commands = Commands(name, run.environment.name, options_of(run.environment), of_a_remedy=True)
            if folder is None:
                refuse_live_owner(record, _read_deciding(run, record), run.stopping.accept, commands)
                continue
            claim = claim_by_file(folder, record, run.stopping.accept, commands)
            assert claim.held is not None
            claim.held.write(record, claim.died)
            held.append((claim.held, claim.died))
        yield
    finally:
        for lock, died in held:
            # What is known of runs that died is written by the next start.
            lock.write(None, died)
            lock.release(clear=not died)


def begin_alone(run: StepContext) -> StepContext:
    """The plan is begun, and nobody else began meanwhile. Raises with the plan withdrawn, and nothing else changed."""
    run = begin(run)
    fail_point("remedy.begun")
    try:
        refuse_rivals(run)
        refuse_new_owners(run)
        if claims_folder(run.environment) is None or run.plan.kind.adds_only:
            # No claim was held: another remedy may have begun and ended since the preconditions were checked.
            check_preconditions(run.spark, run.chain, run.plan)
    except SurestartError:
        enter(run, WITHDRAWN, "", "")
        raise
    return run


def refuse_new_owners(run: StepContext) -> None:
    """Where claims are rows of a table, a stage may have claimed its query while the remedy began: both have written,
    and both look again. Raises with nothing changed but the journal, which the caller sets back."""
    if claims_folder(run.environment) is not None or run.plan.kind.adds_only:
        return
    for name in run.plan.touched:
        record = describe_run(run.spark, run.environment, run.chain.link(name).stage)
        commands = Commands(name, run.environment.name, options_of(run.environment), of_a_remedy=True)
        refuse_live_owner(record, _read_deciding(run, record), run.stopping.accept, commands)


def _read_deciding(run: StepContext, record: RunRecord) -> tuple[RunRecord, ...]:
    return read_deciding_runs(run.environment, run.spark, record.query, record.place)


def refuse_rivals(run: StepContext) -> None:
    """A remedy that begins before it has its claims may meet another that does the same: both have written, both look
    again, and the later one goes back."""
    journals = read_journals(run.environment, run.spark)
    ours = next(index for index, one in enumerate(journals) if one.digest == run.digest)
    for index, other in enumerate(journals):
        first_come = index < ours or other.state == UNDOING
        if index != ours and first_come and other.is_unfinished and set(other.first.queries) & set(run.plan.queries):
            raise unfinished_error(other, run.plan.queries[0], run.environment, options_of(run.environment))
