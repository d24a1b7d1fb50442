"""The queries that a remedy touches are its own while it acts: no stage runs, and no other remedy acts on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from surestart.errors import SurestartError
from surestart.failpoints import fail_point
from surestart.history.claim_file import claims_folder
from surestart.history.describe_run import describe_run, options_of
from surestart.history.read_runs import read_deciding_runs
from surestart.history.run_record import RunRecord
from surestart.journal.journal import UNDOING, WITHDRAWN, read_journals
from surestart.journal.unfinished import unfinished_error
from surestart.remedies.basis.preconditions import check_preconditions
from surestart.remedies.basis.step_context import StepContext, begin, enter
from surestart.runs.find_owner import claim_by_file, refuse_live_owner
from surestart.words.next_commands import Commands


@contextmanager
def claimed_queries(run: StepContext) -> Iterator[None]:
    """No stage that the plan touches runs inside the block; raises with who holds it when one does."""
    folder = claims_folder(run.environment)
    held: list[tuple[Any, Any]] = []
    try:
        for name in run.plan.touched if run.plan.remedy != "backfill" else ():
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
        if claims_folder(run.environment) is None or run.plan.remedy == "backfill":
            # No claim was held: another remedy may have begun and ended since the preconditions were checked.
            check_preconditions(run.spark, run.chain, run.plan)
    except SurestartError:
        enter(run, WITHDRAWN, "", "")
        raise
    return run


def refuse_new_owners(run: StepContext) -> None:
    """Where claims are rows of a table, a stage may have claimed its query while the remedy began: both have written,
    and both look again. Raises with nothing changed but the journal, which the caller sets back."""
    if claims_folder(run.environment) is not None or run.plan.remedy == "backfill":
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
